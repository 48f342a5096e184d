"""The published tables and figures match the committed aggregates of docs/results."""

import json
from pathlib import Path

import pytest

from research import leaderboard, measured_plots, page, plots, tables

STUDIES = sorted(path.stem for path in tables.RESULTS.glob("*.json"))
ELSEWHERE = {"leaderboard", "log_growth", "serving", "training"}  # on pages of their own


def test_the_page_says_what_the_committed_aggregates_say() -> None:
    text = page.PAGE.read_text()

    assert page.fill(text) == text, "run python -m research page"
    assert text.count("<!-- evidence: ") >= len(set(STUDIES) - ELSEWHERE)


def test_the_leaderboard_says_what_the_committed_aggregates_say() -> None:
    text = leaderboard.page()

    assert leaderboard.PAGE.read_text() == text, "run python -m research leaderboard page"
    for name in leaderboard.NAMES.values():
        assert f"| {name}" in text


def test_the_figures_are_drawn_from_the_committed_aggregates(tmp_path: Path) -> None:
    plots.draw_all(tmp_path)

    text = page.PAGE.read_text()
    drawn = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert drawn
    assert all(f"(../figures/{name})" in text for name in drawn)
    assert all((plots.FIGURES / name).is_file() for name in drawn)


def test_measured_figures_are_drawn_from_committed_numbers_and_shown(tmp_path: Path) -> None:
    measured_plots.draw_all(tmp_path)

    assert {path.name for path in tmp_path.iterdir()} == set(measured_plots.PAGES)
    for figure, shown in measured_plots.PAGES.items():
        assert f"(../figures/{figure})" in (tables.ROOT / "docs" / shown).read_text()
        assert (measured_plots.FIGURES / figure).read_text() == (tmp_path / figure).read_text()


@pytest.mark.parametrize("study", STUDIES)
def test_what_is_committed_has_no_text_of_a_log(study: str) -> None:
    """Only names of systems, settings and scenarios are words; everything else is a number."""
    text = json.dumps(tables.read(study))

    assert "samples" not in text
    assert "queries" not in tables.read(study)
    assert len(text) < 60_000
