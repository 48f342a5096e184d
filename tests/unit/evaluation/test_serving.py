"""What the report recommends to serve."""

from dataclasses import replace

from nextquery.evaluation.lists import (
    AgainstTrivial,
    GenerationQuality,
    GenerationResult,
    SystemLists,
    TextQuality,
)
from nextquery.evaluation.report.sections import command, recommended, what_to_serve
from nextquery.evaluation.results import ExperimentResults

TEXT = TextQuality(0.5, 0.2, 0.1, 0.0, 0.01, 0.02, 0.0, 0.0, 4.1, 0.6)


def lists(mrr: float) -> SystemLists:
    quality = GenerationQuality(50, 0.9, 0.1, 0.2, 0.3, mrr, 0.4, 0.5, None, 0.8, 0.011)
    return SystemLists(all=quality, text=TEXT)


def with_lists(results: ExperimentResults, p: float, **mrr: float) -> ExperimentResults:
    difference = mrr["hred"] - mrr["drop_words"]
    against = (AgainstTrivial("hred", "drop_words", difference, p),)
    systems = {name: lists(value) for name, value in mrr.items()}
    generation = GenerationResult(50, 20, 5, systems, against)
    times = {"hred": 8.0, "adj": 0.2, "drop_words": 0.1}
    return replace(results, generation=generation, list_times=times)


def test_the_best_system_is_recommended_and_compared(results: ExperimentResults) -> None:
    compared = with_lists(results, 0.001, hred=0.08, adj=0.06, drop_words=0.02)
    page = what_to_serve(compared)
    assert recommended(compared) == "hred"
    assert "Recommended: HRED. nextquery serve HRED" in page
    assert "HRED is better than the best trivial rule (Drop words, then popular)" in page
    assert "MRR +0.0600" in page
    assert "compare again when yours has grown" not in page
    assert "3.0%" in page  # flawed: dangling words and fragments


def test_a_model_that_is_no_better_than_a_rule_is_said_to_be_so(results: ExperimentResults) -> None:
    compared = with_lists(results, 0.4, hred=0.021, adj=0.0205, drop_words=0.02)
    page = what_to_serve(compared)
    assert "HRED is not shown to be better than the best trivial rule" in page
    assert "This log has 5,000 background sessions." in page
    assert "compare again when yours has grown" in page
    # about as good and much cheaper
    assert recommended(compared) == "adj"
    assert "nextquery fit DATA --kind adjacency" in page
    assert command("adj").endswith("nextquery serve models/adjacency")


def test_a_rule_without_a_model_folder_is_not_recommended(results: ExperimentResults) -> None:
    compared = with_lists(results, 0.4, hred=0.02, adj=0.01, drop_words=0.05)
    assert recommended(compared) == "hred"


def test_without_lists_nothing_is_recommended(results: ExperimentResults) -> None:
    systems = {"hred": SystemLists(all=None, text=None)}
    assert what_to_serve(replace(results, generation=GenerationResult(0, 20, 5, systems))) == ""
