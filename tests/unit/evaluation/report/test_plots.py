"""The plots of the report, their labels and colours."""

from dataclasses import replace
from pathlib import Path

import pytest

from nextquery.evaluation.learning_curve import LearningCurve
from nextquery.evaluation.ranked_system import RankedSystem, label
from nextquery.evaluation.report import plots
from nextquery.evaluation.report.plots import (
    FIXED,
    colour,
    curve_sentences,
    curve_table,
    draw_learning_curve,
    svg_plot,
)
from nextquery.evaluation.results import ExperimentResults
from nextquery.evaluation.scenario_run import ContextLengthResult


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


def test_a_model_has_one_colour_in_all_its_forms() -> None:
    models = ("plain", "copy")

    assert colour("baseline+copy:sum", models) == colour("copy", models)
    assert colour("copy", models) != colour("plain", models)
    assert colour("baseline", models) == FIXED["baseline"]


@pytest.mark.parametrize("name", ["A$\\frac$", "$$", "$x^2$ <script>", "a:b"])
def test_any_name_of_a_system_can_be_drawn(tmp_path: Path, name: str) -> None:
    with svg_plot(tmp_path / "plot.svg", 3.0, 2.0) as (axes,):
        axes.plot([0, 1], [0, 1], label=label(name))
        axes.set_yticks([0], [label(name)])
        axes.legend()
    assert "<script" not in (tmp_path / "plot.svg").read_text()


def test_a_plot_is_the_same_file_every_time(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        with svg_plot(tmp_path / name, 3, 2, 2) as axes:
            assert len(axes) == 2
            axes[0].plot([1, 2])
    text = (tmp_path / "a.svg").read_bytes()

    assert text == (tmp_path / "b.svg").read_bytes()


def test_context_lengths_are_drawn_only_where_there_are_any(
    results: ExperimentResults, tmp_path: Path
) -> None:
    assert plots.draw_context_lengths(results, tmp_path / "plot.svg")
    few = ContextLengthResult(3, "at least 30 are needed")
    found = replace(results.scenarios["next_query"], by_context_length={"hred": few})
    none = replace(results, scenarios={"next_query": found})

    assert not plots.draw_context_lengths(none, tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()


def test_the_curve_is_drawn(curve: LearningCurve, tmp_path: Path) -> None:
    draw_learning_curve(curve, ("hred",), tmp_path / "curve.svg")

    drawn = (tmp_path / "curve.svg").read_text(encoding="utf-8")
    assert "mathdefault" not in drawn
    assert "2,000" in drawn


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
