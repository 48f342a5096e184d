from nextquery.evaluation.results import ExperimentResults
from nextquery.evaluation.steps import to_json


def test_the_documented_keys_are_all_there(results: ExperimentResults) -> None:
    document = to_json(results)

    assert list(document) == [
        "scenarios", "generation", "samples", "gates", "hidden_intent", "boundaries",
        "projections", "decoding", "data", "systems", "settings", "versions", "training",
        "new_visitors",
    ]  # fmt: skip
    found = document["scenarios"]["next_query"]
    assert {"mrr", "mrr_low", "mrr_high", "hit_1", "hit_5", "mrr_by_seed", "cases"} == set(
        found["systems"]["adj"]
    )
    assert {"a", "b", "relative", "p"} <= set(found["comparisons"][0])
    assert document["scenarios"]["long_tail"]["systems"] == {}
    assert "rankers" not in document["scenarios"]["long_tail"]


def test_only_scenarios_with_enough_cases_are_reported(results: ExperimentResults) -> None:
    assert list(results.reported) == ["next_query"]
    assert results.main_systems == ["adj", "baseline", "baseline+hred:sum", "baseline+hred"]
