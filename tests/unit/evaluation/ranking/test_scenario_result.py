from nextquery.evaluation.results import ExperimentResults


def test_a_comparison_is_found_by_its_two_systems(results: ExperimentResults) -> None:
    found = results.scenarios["next_query"]

    compared = found.comparison("baseline+hred", "baseline")
    assert compared is not None
    assert (compared.a, compared.b) == ("baseline+hred", "baseline")
    assert found.comparison("hred", "adj") is None
    assert results.scenarios["long_tail"].comparison("baseline", "adj") is None
