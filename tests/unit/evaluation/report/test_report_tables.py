from dataclasses import replace

import pytest

from nextquery.evaluation.comparison import RankingResult
from nextquery.evaluation.report import latex, tables
from nextquery.evaluation.results import ExperimentResults


def test_a_scenario_has_its_results_the_papers_and_unseen_users(results: ExperimentResults) -> None:
    text = tables.scenario("next_query", results.scenarios["next_query"], results)

    assert "Cases: training 500, validation 200, test 200." in text
    assert "(the paper: 37%)" in text
    assert '<td class="strong">0.5200<small>0.500 to 0.540</small></td>' in text
    assert '<td class="good">+30.0%<small>p &lt; .001, &lt; .001 by case</small></td>' in text
    assert "0.5749" in text  # the paper's MRR with HRED
    assert text.count("0.2500") == 5  # unseen users
    assert "score as sum, lift" in text


def test_other_systems_are_compared_with_the_first_model(results: ExperimentResults) -> None:
    text = tables.other_systems(results.scenarios["next_query"], results)

    assert "<th>ADJ</th><td>HRED</td>" in text
    assert "-0.1500<small>-0.170 to -0.130</small>" in text
    assert "<td>-33.3%<small>p = 0.04, = 0.02 by case</small></td>" in text, "not significant"
    assert tables.other_systems(results.scenarios["long_tail"], results) == ""


def test_latex_has_marks_of_significance(results: ExperimentResults) -> None:
    text = latex.scenario_table("Next query, 50% & more", results.scenarios["next_query"])

    assert r"\caption{Next query, 50\% \& more: MRR on 200 test cases" in text
    assert r"+ HRED & 0.5200 & [0.500, 0.540] & $+73.3\%^{**}$ & $+30.0\%^{**}$ \\" in text
    assert r"HRED & 0.4500 & [0.430, 0.470] & -- & -- \\" in text


def test_too_few_cases_say_so(results: ExperimentResults) -> None:
    text = tables.scenario("long_tail", results.scenarios["long_tail"], results)

    assert "Too few cases for any result: 3 training cases, 100 needed." in text
    assert "<table>" not in text


def test_gains_by_length_leave_out_what_is_too_little(results: ExperimentResults) -> None:
    text = tables.length_gains(results)

    assert text.count("+30.0%") == 2
    assert text.count("+25.0%") == 2
    assert text.count("too few<small>7 cases</small>") == 2


def test_users_apart_stand_with_their_cases_and_gains(results: ExperimentResults) -> None:
    assert tables.user_groups(results) == ""
    found = results.scenarios["next_query"]
    measured = RankingResult(64, systems=found.systems, comparisons=found.comparisons)
    apart = replace(found, by_user_group={"staff": measured, "few": RankingResult(3, "3 cases")})
    text = tables.user_groups(replace(results, scenarios={"next_query": apart}))

    assert "staff, Baseline Ranker</th><td>64</td><td>0.400" in text
    assert text.count("+30.0%") == 1
    assert text.count("too few") == 4


def test_lists_samples_gates_and_boundaries(results: ExperimentResults) -> None:
    generation = tables.generation(results)
    assert "All contexts: 50" in generation
    assert "Anchor new" not in generation
    assert "<td>–</td>" in generation  # no synthetic share
    assert "a &amp; b<small>typed next: c</small>" in tables.samples(results)
    assert "<td>90%</td>" in tables.gates(results)
    assert "90 gaps, 30 of them boundaries" in tables.boundaries(results)


def test_the_hidden_intent_is_told_by_distance(results: ExperimentResults) -> None:
    text = tables.hidden_intent(results)
    assert "<td>all</td><td>90</td><td>1.953</td><td>0.610</td>" in text
    assert "<td>1</td><td>60</td><td>1.900</td><td>0.630</td>" in text


def test_training_stands_beside_the_papers(results: ExperimentResults) -> None:
    text = tables.training(results)

    assert "44 h 01 min" in text
    assert "<td>3,534</td><td>2 min</td><td>44 ms</td><td>2 MB</td><td>–</td>" in text
    without = tables.training(replace(results, decoding={}))
    assert "44 ms" not in without


def test_forms_features_data_and_settings(results: ExperimentResults) -> None:
    assert '<td class="strong">0.5100</td>' in tables.forms(results)
    assert "how often the candidate follows the anchor" in tables.features(results)
    assert "1,708,224" in tables.data(results)
    assert "next_query, long_tail" in tables.settings(results)


@pytest.mark.parametrize(("value", "text"), [(0.0004, "< .001"), (0.034, "= 0.034")])
def test_p_values(value: float, text: str) -> None:
    assert tables.p_value(value) == text
