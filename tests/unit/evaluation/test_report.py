"""The report: page, tables, plots and the sections of the probes."""

import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from nextquery.evaluation.comparison import RankedSystem, RankingResult, label
from nextquery.evaluation.completion import (
    CompletionQuality,
    CompletionResult,
    NextWordQuality,
    PrefixQuality,
    SystemCompletions,
)
from nextquery.evaluation.learning_curve import LearningCurve
from nextquery.evaluation.paper import PaperContext, PaperExamples
from nextquery.evaluation.probes.gates import GateExample
from nextquery.evaluation.probes.likelihood import NgramPerplexity
from nextquery.evaluation.probes.table import PROBES
from nextquery.evaluation.report import html, page, plots, sections, tables
from nextquery.evaluation.report.html import PLOTS
from nextquery.evaluation.report.page import write_report
from nextquery.evaluation.report.plots import svg_plot
from nextquery.evaluation.report.tables import curve_sentences, curve_table
from nextquery.evaluation.results import ExperimentResults
from nextquery.evaluation.scenario_run import ContextLengthResult


def test_the_page_shows_results_next_to_the_papers(
    results: ExperimentResults, tmp_path: Path
) -> None:
    write_report(tmp_path, results)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")

    sentence = (
        "Next-query prediction: HRED&#x27;s log-likelihood as one more feature, as in the paper, "
        "changes the Baseline Ranker&#x27;s MRR by +25.0% (p &lt; .001, &lt; .001 by case, "
        "significant); in the forms that validation chose, by +30.0% (p &lt; .001, &lt; .001 by "
        "case, significant); 200 test cases. The paper&#x27;s gain is +3.3%."
    )
    assert f"<li>{sentence}" in page
    assert f"<li>New visitors, {sentence}" in page
    assert "HRED was trained with these users&#x27; own background sessions." in page
    assert "Long-tail prediction: too few cases for any result" in page
    plots = re.findall(r'<img src="([^"]+)"', page)
    assert len(plots) == 11
    assert all((tmp_path / plot).is_file() for plot in plots)
    written = {file.name for file in (tmp_path / "tables").iterdir()}
    assert written == {"next_query.tex", "new_next_query.tex"}


def test_a_page_of_a_model_that_copies_and_its_learning_curve(
    results: ExperimentResults, curve: LearningCurve, tmp_path: Path
) -> None:
    copying = replace(results.training["hred"], model={"copy": True})
    write_report(tmp_path, replace(results, training={"hred": copying}, learning_curve=curve))
    page = (tmp_path / "index.html").read_text(encoding="utf-8")

    assert "<li>Next-query prediction: HRED with copying&#x27;s log-likelihood" in page
    assert ">HRED with copying on a log with" in page
    assert "bars their 95% intervals. HRED stands for HRED with copying." in page
    assert "begins to pay at about 2,000 background sessions." in page
    drawn = (tmp_path / "figures" / "learning_curve.svg").read_text(encoding="utf-8")
    assert "mathdefault" not in drawn
    assert "2,000" in drawn


def test_parts_without_results_are_left_out(results: ExperimentResults, tmp_path: Path) -> None:
    bare = replace(
        results,
        scenarios={"long_tail": results.scenarios["long_tail"]},
        gates={},
        hidden_intent={},
        projections={},
        new_visitors={},
    )
    write_report(tmp_path, bare)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")

    for anchor in ("visitors", "curve", "lengths", "gates", "intent", "vectors", "features"):
        assert f'id="{anchor}"' not in page
    assert 'id="scenarios"' in page


def test_texts_of_the_log_cannot_become_markup() -> None:
    evil = '<script>alert(1)</script>" onload="x'
    text = html.document(
        evil,
        evil,
        [("a", evil)],
        [
            html.section("a", evil, html.paragraph(evil, evil), html.heading(evil)),
            html.table([evil], [[html.Cell(evil, evil, evil)]], evil),
            html.plot(evil, evil, evil),
            html.bullets([evil]),
        ],
    )

    assert "<script" not in text
    assert '" onload' not in text


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
    text = page.scenario_table("Next query, 50% & more", results.scenarios["next_query"])

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


def test_user_groups_are_shown_with_their_cases_and_gains(results: ExperimentResults) -> None:
    assert tables.user_groups(results) == ""
    result = results.scenarios["next_query"]
    measured = RankingResult(64, systems=result.systems, comparisons=result.comparisons)
    apart = replace(result, by_user_group={"staff": measured, "few": RankingResult(3, "3 cases")})
    text = tables.user_groups(replace(results, scenarios={"next_query": apart}))

    assert "staff, Baseline Ranker</th><td>64</td><td>0.400" in text
    assert text.count("+30.0%") == 1
    assert text.count("too few") == 4


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (tables.generation, "All contexts: 50"),
        (tables.generation, "<td>–</td>"),  # no synthetic share
        (tables.samples, "a &amp; b<small>typed next: c</small>"),
        (tables.gates, "<td>90%</td>"),
        (tables.boundaries, "90 gaps, 30 of them boundaries"),
        (tables.hidden_intent, "<td>all</td><td>90</td><td>1.953</td><td>0.610</td>"),
        (tables.hidden_intent, "<td>1</td><td>60</td><td>1.900</td><td>0.630</td>"),
        (tables.training, "44 h 01 min"),
        (tables.training, "<td>3,534</td><td>2 min</td><td>44 ms</td><td>2 MB</td><td>–</td>"),
        (tables.forms, '<td class="strong">0.5100</td>'),
        (tables.features, "how often the candidate follows the anchor"),
        (tables.data, "1,708,224"),
        (tables.settings, "next_query, long_tail"),
    ],
)
def test_tables_have_the_results(
    results: ExperimentResults, table: Callable[[ExperimentResults], str], text: str
) -> None:
    assert text in table(results)


def test_tables_leave_out_what_was_not_measured(results: ExperimentResults) -> None:
    assert "Anchor new" not in tables.generation(results)
    assert "44 ms" not in tables.training(replace(results, decoding={}))


@pytest.mark.parametrize(
    ("system", "text"),
    [
        ("adj", "ADJ"),
        ("baseline", "Baseline Ranker"),
        ("baseline+hred", "+ HRED"),
        ("baseline+hred:sum", "+ HRED (sum only)"),
        ("hred:lift", "HRED lift"),
        ("popularity", "Popularity"),
        ("baseline_authors", "Authors' Baseline"),
        ("baseline_semantic+hred", "Baseline with meaning + HRED"),
        ("baseline_authors+hred:sum", "Authors' Baseline + HRED (sum only)"),
    ],
)
def test_key_and_label_of_a_system(system: str, text: str) -> None:
    assert label(system) == text
    assert RankedSystem.parse(system).key == system


@pytest.mark.parametrize("name", ["mine+x", "baseline2", "baseline2+hred"])
def test_a_name_that_only_resembles_a_baseline_is_a_model(name: str) -> None:
    assert RankedSystem.parse(name) == RankedSystem(model=name)


@pytest.mark.parametrize("name", ["A$\\frac$", "$$", "$x^2$ <script>", "a:b"])
def test_any_name_of_a_system_can_be_drawn(tmp_path: Path, name: str) -> None:
    with svg_plot(tmp_path / "plot.svg", 3.0, 2.0) as (axes,):
        axes.plot([0, 1], [0, 1], label=label(name))
        axes.set_yticks([0], [label(name)])
        axes.legend()
    assert "<script" not in (tmp_path / "plot.svg").read_text()


def test_context_lengths_are_drawn_only_where_there_are_any(
    results: ExperimentResults, tmp_path: Path
) -> None:
    assert plots.draw_context_lengths(results, tmp_path / "plot.svg")
    few = ContextLengthResult(3, "at least 30 are needed")
    result = replace(results.scenarios["next_query"], by_context_length={"hred": few})
    none = replace(results, scenarios={"next_query": result})

    assert not plots.draw_context_lengths(none, tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()


def test_the_sentence_says_where_it_pays_and_what_was_fitted_anew(curve: LearningCurve) -> None:
    assert curve_sentences(curve, ("hred",)) == [
        "HRED begins to pay at about 2,000 background sessions. "
        "It is the same model at every size: only counts and rankers were fitted anew."
    ]
    trained = replace(curve, refitted=(*curve.refitted, "hred"), points=curve.points[:1])
    assert curve_sentences(trained, ("hred",)) == [
        "HRED does not pay (p < .01 by user) at the largest size measured. "
        "It was trained anew at every size."
    ]
    from_the_first = replace(curve, points=curve.points[1:])
    assert curve_sentences(from_the_first, ("hred",))[0].startswith(
        "HRED pays already at the smallest size measured, 2,000 background sessions."
    )


def test_the_table_has_one_row_per_size(curve: LearningCurve) -> None:
    text = curve_table(curve, ("hred",))

    assert text.count("<tr>") == 4
    assert "<th>2,000</th><td>200</td><td>0.3000</td><td>0.4000</td>" in text
    assert "+25.0%<small>p = 0.001</small>" in text
    few = replace(curve.points[0], ranking={}, comparisons=(), too_few="3 cases")
    assert "too few cases" in curve_table(replace(curve, points=(few,)), ("hred",))


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


def test_ngrams_are_shown_next_to_the_models_perplexity(results: ExperimentResults) -> None:
    result = tuple(NgramPerplexity(n, 500, 50, 900, p, p) for n, p in ((1, 800.0), (2, 210.5)))
    facts = replace(results.training["hred"], training={"validation_perplexity": 82.04})
    text = sections.ngrams(replace(results, ngrams={"hred": result}, training={"hred": facts}))

    assert all(shown in text for shown in ("82.0", "800.0", "210.5", "–"))
    assert sections.ngrams(results) == ""


def test_the_papers_examples_are_shown_next_to_ours(
    results: ExperimentResults, tmp_path: Path
) -> None:
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
