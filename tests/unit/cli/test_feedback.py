import json
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery.cli.feedback import feedback
from nextquery.feedback.events import (
    Arm,
    ListedSuggestion,
    ServedList,
    ShadowList,
    ShownList,
    TakenSuggestion,
    Trial,
    file_name,
    to_lines,
)
from nextquery.feedback.simulated_visitors import START

PLACES = (ListedSuggestion("boots", "seen", "A"), ListedSuggestion("socks", "synthetic", "B"))
TRIAL = Trial("interleave", (Arm("A", "1"), Arm("B", "1")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Thirty visitors who all prefer what B placed."""
    target = tmp_path / "feedback"
    target.mkdir()
    for number in range(30):
        who = f"list-{number}", f"visitor-{number}", START + timedelta(minutes=number), "shoes"
        for event in (
            ServedList(*who, model="A+B", suggestions=PLACES, trial=TRIAL),
            ShadowList(*who, model="C", suggestions=PLACES),
            ShownList(*who, suggestions=("boots", "socks")),
            TakenSuggestion(*who, suggestion="socks", position=2),
        ):
            for table, line in to_lines(event):
                with (target / file_name(table, event.time)).open("ab") as stream:
                    stream.write(line)
    return target


def call(*arguments: str | Path) -> str:
    ended = CliRunner().invoke(feedback, list(map(str, arguments)), catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.output


def test_a_report_is_told_in_a_few_lines(folder: Path, tmp_path: Path) -> None:
    told = call("report", folder, "--out", tmp_path / "report", "--per-visitor", "1")
    assert "30 lists, 30 visitors: accepted from 100.0%" in told
    assert "B: 30 of 30 suggestions accepted" in told
    assert (tmp_path / "report" / "index.html").exists()


def test_a_report_can_be_json(folder: Path, tmp_path: Path) -> None:
    found = json.loads(call("report", folder, "--out", tmp_path / "report", "--json"))
    assert found["by_source"]["synthetic"]["taken"] == 30


def test_a_comparison_names_the_winner(folder: Path) -> None:
    told = call("compare", folder, "--smallest-effect", "1")
    assert "interleave A against B: B is better" in told
    assert "shadow C: 100% of 30 lists in common" in told
    [trial] = json.loads(call("compare", folder, "--json", "--smallest-effect", "1"))["trials"]
    assert trial["winner"] == "B"
    assert trial["second"] == {
        "name": "B", "version": "1", "visitors": 30, "shown": 30, "taken": 30,
    }  # fmt: skip
