"""The published tables and figures match the JSON files of docs/results."""

import json
import re
from pathlib import Path

import pytest

from research import leaderboard, measured_plots, page, plots, tables

STUDIES = sorted(path.stem for path in tables.RESULTS.glob("*.json"))


@pytest.mark.parametrize("path", page.PAGES, ids=lambda path: path.stem)
def test_a_page_has_the_tables_of_the_json_files(path: Path) -> None:
    text = path.read_text()
    assert page.fill(text) == text, "run python -m research pages"


def test_every_table_is_on_a_page() -> None:
    text = "".join(path.read_text() for path in page.PAGES)
    shown = re.findall(r"<!-- table: ([a-z ]+) -->", text)
    assert sorted(shown) == sorted(page.TABLES)


def test_the_summary_is_short() -> None:
    assert len((tables.RESULTS / "index.md").read_text().splitlines()) <= 150


def test_the_leaderboard_says_what_the_json_files_say() -> None:
    text = leaderboard.page()

    assert leaderboard.PAGE.read_text() == text, "run python -m research leaderboard page"
    for name in leaderboard.NAMES.values():
        assert f"| {name}" in text


def test_the_figures_are_drawn_from_the_json_files_and_shown(tmp_path: Path) -> None:
    plots.draw_all(tmp_path)

    text = (tables.RESULTS / "synthetic.md").read_text()
    drawn = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert drawn
    assert all(f"(../figures/{name})" in text for name in drawn)
    assert all((plots.FIGURES / name).is_file() for name in drawn)


def test_measured_figures_are_drawn_from_the_json_files_and_shown(tmp_path: Path) -> None:
    measured_plots.draw_all(tmp_path)

    assert {path.name for path in tmp_path.iterdir()} == set(measured_plots.FIGURE_NAMES)
    text = (tables.RESULTS / "speed.md").read_text()
    for figure in measured_plots.FIGURE_NAMES:
        assert f"(../figures/{figure})" in text
        assert (measured_plots.FIGURES / figure).read_text() == (tmp_path / figure).read_text()


@pytest.mark.parametrize("study", STUDIES)
def test_no_json_file_has_text_of_a_log(study: str) -> None:
    """Only names of systems, settings and scenarios are words; everything else is a number."""
    text = json.dumps(tables.read(study))

    assert "samples" not in text
    assert "queries" not in tables.read(study)
    assert len(text) < 60_000
