from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nextquery.evaluation.report import plots
from nextquery.evaluation.results import ExperimentResults
from nextquery.evaluation.scenario_run import ContextLengthResult


@pytest.mark.parametrize(
    "draw",
    [
        plots.draw_session_lengths,
        plots.draw_length_shares,
        plots.draw_importances,
    ],
)
def test_every_plot_draws_its_results(
    results: ExperimentResults, tmp_path: Path, draw: Callable[[ExperimentResults, Path], None]
) -> None:
    draw(results, tmp_path / "plot.svg")

    assert (tmp_path / "plot.svg").read_bytes().startswith(b"<?xml")


def test_scenarios_are_drawn_for_any_visitors(results: ExperimentResults, tmp_path: Path) -> None:
    plots.draw_scenarios(results, results.new_visitors, tmp_path / "plot.svg")

    assert (tmp_path / "plot.svg").read_bytes().startswith(b"<?xml")


def test_context_lengths_are_drawn_only_where_there_are_any(
    results: ExperimentResults, tmp_path: Path
) -> None:
    assert plots.draw_context_lengths(results, tmp_path / "plot.svg")
    few = ContextLengthResult(3, "at least 30 are needed")
    found = replace(results.scenarios["next_query"], by_context_length={"hred": few})
    none = replace(results, scenarios={"next_query": found})

    assert not plots.draw_context_lengths(none, tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()
