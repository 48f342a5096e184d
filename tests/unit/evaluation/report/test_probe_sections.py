from dataclasses import fields, replace
from pathlib import Path

from nextquery.evaluation.completion import (
    CompletionQuality,
    CompletionResult,
    NextWordQuality,
    PrefixQuality,
    SystemCompletions,
)
from nextquery.evaluation.paper import PaperContext, PaperExamples
from nextquery.evaluation.probes.gates import GateExample
from nextquery.evaluation.probes.ngrams import NgramPerplexity
from nextquery.evaluation.probes.table import PROBES
from nextquery.evaluation.report import probe_sections as sections
from nextquery.evaluation.report.html import PLOTS
from nextquery.evaluation.results import ExperimentResults


def quality(mrr: float) -> CompletionQuality:
    lengths = tuple(PrefixQuality(n, 90, mrr, mrr - 0.01, mrr + 0.01, 0.4, 0.31) for n in (1, 4))
    return CompletionQuality(lengths, mrr, 0.283, NextWordQuality(120, 0.254, 0.472))


def test_completions_as_a_plot_and_two_tables(results: ExperimentResults, tmp_path: Path) -> None:
    (tmp_path / PLOTS).mkdir()
    system = SystemCompletions(quality(0.412), quality(0.305), 0.0004)
    done = replace(results, completion=CompletionResult(90, 10, 5, {"hred": system}))
    text = sections.completion(tmp_path, done)

    for shown in ("0.412", "0.305", "28.3%", "25.4%", "47.2%", "90 queries, 120 next words"):
        assert shown in text
    assert sections.completion(tmp_path, results) == ""


def test_ngrams_stand_beside_the_models_perplexity(results: ExperimentResults) -> None:
    found = tuple(NgramPerplexity(n, 500, 50, 900, p, p) for n, p in ((1, 800.0), (2, 210.5)))
    facts = replace(results.training["hred"], training={"validation_perplexity": 82.04})
    text = sections.ngrams(replace(results, ngrams={"hred": found}, training={"hred": facts}))

    assert all(shown in text for shown in ("82.0", "800.0", "210.5", "–"))
    assert sections.ngrams(results) == ""


def test_the_papers_examples_beside_ours(results: ExperimentResults, tmp_path: Path) -> None:
    (tmp_path / PLOTS).mkdir()
    gates = GateExample(("airlines", "united airlines", "google"), ((0.9,), (0.5,), (0.1,)))
    table = (PaperContext(("a",), ("ace tools",), ()), PaperContext(("b",), (), ("erie",)))
    examples = {"hred": PaperExamples(table, gates), "other": PaperExamples(table, None)}
    shown = replace(results, paper_examples=examples)

    text = sections._paper_suggestions(shown)
    assert all(part in text for part in ("ace hard drive", "ace tools", "not asked: no erie"))
    text = sections._figure_7(tmp_path, shown)
    assert (tmp_path / PLOTS / "figure_7_hred.svg").is_file()
    assert "Not drawn for OTHER" in text
    assert sections._paper_suggestions(results) == sections._figure_7(tmp_path, results) == ""


def test_every_probe_has_a_field_of_the_results_and_sections_differ() -> None:
    names = {field.name for field in fields(ExperimentResults)}
    assert {probe.name for probe in PROBES} <= names
    anchors = [probe.section.anchor for probe in PROBES if probe.section]
    assert len(set(anchors)) == len(anchors)
