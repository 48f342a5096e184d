"""The loop closes: what users did on the page becomes the log of the next model."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nextquery.service.feedback import FeedbackLog
from nextquery.service.schemas import Clicked, Shown

START = datetime(2026, 5, 1, 9, 0, tzinfo=UTC)


def run(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "nextquery", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_feedback_is_prepared_fitted_and_suggested(tmp_path: Path) -> None:
    log = FeedbackLog(tmp_path / "feedback")
    for day in range(20):
        moment = START + timedelta(days=day)
        who = {"client_id": f"browser-{day}", "query_id": f"list-{day}"}
        log.write(
            Shown(action="shown", query="red shoes", suggestions=["red boots"], **who), moment
        )
        clicked = Clicked(
            action="clicked", query="red shoes", suggestion="red boots", position=1, **who
        )
        log.write(clicked, moment + timedelta(seconds=5))
        who["query_id"] = f"list-{day}-next"
        later = moment + timedelta(seconds=6)
        log.write(Shown(action="shown", query="red boots", suggestions=[], **who), later)
    files = sorted((tmp_path / "feedback").iterdir())
    run("prepare", *files, "--format", "ubi", "--out", tmp_path / "data", "--no-spelling")
    counts = json.loads((tmp_path / "data" / "manifest.json").read_text())["counts"]
    assert counts["users"] == 20
    assert sum(counts["sessions"].values()) == 20
    run("fit", tmp_path / "data", "--kind", "adjacency", "--out", tmp_path / "model")
    answer = json.loads(run("suggest", tmp_path / "model", "red shoes", "--json"))
    assert [item["text"] for item in answer["suggestions"]] == ["red boots"]
