"""The published tables and figures match the JSON files of docs/results."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nextquery.evaluation.paper import PAPER
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


def gain_of(study: str, scenario: str) -> dict[str, float]:
    """The primary measure of a study: a model with the chosen forms over the Baseline Ranker."""
    model = {"synthetic": "first-1", "control": "all-1"}.get(study, "hred")
    gains = tables.read(study)["scenarios"][scenario]["gains"][f"baseline+{model} over baseline"]
    assert isinstance(gains, dict)
    return gains


def percent(study: str, scenario: str) -> str:
    return f"{gain_of(study, scenario)['relative']:+.1%}"


def by_user(study: str, scenario: str) -> str:
    return f"p = {gain_of(study, scenario)['p_by_user']:.2f}".replace("0.", ".")


def sentences_of_the_readme() -> list[str]:
    last = "aol_held_out_last"
    users = tables.read(last)["scenarios"]["next_query"]["users"]
    synthetic = sorted(100 * gain_of("synthetic", name)["relative"] for name in PAPER)
    best = max(PAPER, key=lambda name: gain_of("control", name)["relative"])
    control = f"at most {percent('control', best)} ({by_user('control', best)})"
    return [
        f"{percent(last, 'next_query')} MRR over the Baseline Ranker in next query",
        f"({by_user(last, 'next_query')} by user, {users} users)",
        f"and {percent(last, 'robust')} under noise ({by_user(last, 'robust')}), not significant",
        f"{percent('aol_contexts', 'every_context')} (p < .001) when every test session counts",
        f"{synthetic[0]:+.0f} to {synthetic[-1]:+.0f}%, and {control} on its shuffled control",
    ]


def sentences_of_the_summary() -> list[str]:
    last, known, every = "aol_held_out_last", "aol_known", "aol_known_every"
    epochs = [tables.read(study)["models"]["hred"]["epochs"] for study in (known, last)]
    meaning = tables.read("aol_meaning")["new_visitors"]["every_context"]
    prepared = tables.read("aol_data")["prepared"][0]
    baseline = tables.read(last)["scenarios"]["next_query"]["mrr"]["baseline"]
    earlier = [
        scenario["gains"]["baseline+hred:earlier over baseline"]["relative"]
        for part in ("scenarios", "contexts")
        for scenario in tables.read("earlier")["aol"][part]["scenarios"].values()
        if "gains" in scenario
    ]
    longest_tail = tables.read("aol_plain")["scenarios"]["long_tail"]["cases"]["test"]
    return [
        *(f"{tables.TITLES[name]} {paper.gain('baseline'):+.1%}" for name, paper in PAPER.items()),
        f"Table 5 prints {PAPER['long_tail'].printed['baseline']:+.1%}",
        f"The long-tail scenario has {longest_tail} test case on AOL",
        f"of {epochs[0]} epochs instead of {epochs[1]}",
        f"{percent(known, 'next_query')} in next query ({by_user(known, 'next_query')})",
        f"{percent(known, 'robust')} in robust ({by_user(known, 'robust')})",
        f"gained more ({percent(every, 'next_query')} and {percent(every, 'robust')})",
        f"HRED learnt from {prepared['sessions']['background']:,} sessions instead of 1,708,224",
        f"(.{100 * baseline:.0f} against .{100 * PAPER['next_query'].mrr['baseline']:.0f} in next",
        f"a log of {prepared['users']:,} users",
        f"({meaning['cases']['test']:,} cases of {meaning['users']} users)",
        f"bring {100 * min(earlier):+.1f} to {100 * max(earlier):+.1f}% on AOL",
    ]


@pytest.mark.parametrize(
    ("file", "sentences"),
    [
        (tables.ROOT / "README.md", sentences_of_the_readme()),
        (tables.RESULTS / "index.md", sentences_of_the_summary()),
    ],
    ids=["README", "index"],
)
def test_the_sentences_say_what_the_json_files_say(file: Path, sentences: list[str]) -> None:
    text = " ".join(file.read_text().split())
    assert [sentence for sentence in sentences if sentence not in text] == []


def test_claims_without_a_number_hold() -> None:
    """Significance, signs and comparisons that the summary and the README state in words."""
    for scenario in PAPER:
        assert gain_of("control", scenario)["p_by_user"] > 0.01, "its shuffled control"
        assert gain_of("synthetic", scenario)["p_by_user"] < 0.001
    for scenario in ("next_query", "robust"):
        assert gain_of("aol_held_out_last", scenario)["p_by_user"] > 0.01, "not significant at .01"
        assert (
            0
            < gain_of("aol_held_out_last", scenario)["relative"]
            < PAPER[scenario].gain("baseline")
        ), "the gains have the paper's sign and are smaller"
    robust = tables.read("aol_held_out_last")["scenarios"]["robust"]
    highest = gain_of("aol_held_out_last", "robust")["difference_high_by_user"]
    assert highest / robust["mrr"]["baseline"] < PAPER["robust"].gain("baseline"), "outside"
    assert gain_of("aol_contexts", "every_context")["p_by_user"] < 0.001
    of_seeds = [
        [100 * scenario["gains"][f"baseline+first-{seed} over baseline"]["relative"]
         for seed in (1, 2, 3)]
        for scenario in tables.read("synthetic")["scenarios"].values()
    ]  # fmt: skip
    assert max(max(gains) - min(gains) for gains in of_seeds) <= 5.0, "at most 5 points"


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
    result = tables.read(study)

    # The report's tables of example sessions; the seconds that they took are a number.
    assert all(isinstance(value, float) for value in values_of(result, "samples"))
    assert "queries" not in result
    assert len(json.dumps(result)) < 60_000


def values_of(result: object, key: str) -> Iterator[object]:
    """What is stored under a key, at any depth."""
    if isinstance(result, dict):
        if key in result:
            yield result[key]
        for value in result.values():
            yield from values_of(value, key)
    elif isinstance(result, list):
        for value in result:
            yield from values_of(value, key)
