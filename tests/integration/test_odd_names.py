"""Names that are not UTF-8 for models, data, feedback, reports and blocklists."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from nextquery.logs.synthetic.log import write_log

NAME = os.fsdecode(b"no \xff text")


# All in one process: the commands themselves are quick, to start Python is not.
SCRIPT = """
import sys
from nextquery.cli.entry import run
words = sys.argv[1:]
while words:
    end = words.index("---")
    sys.argv, words = ["nextquery", *words[:end]], words[end + 1:]
    try:
        run()
    except SystemExit as ended:
        if ended.code:
            raise
"""


def run(*commands: tuple[object, ...]) -> None:
    """Commands one after another, each of which must go well."""
    words = [str(word) for command in commands for word in (*command, "---")]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True)
    assert done.returncode == 0, done.stderr


def test_every_kind_of_folder_and_file_may_have_them(
    tmp_path: Path, served_models: dict[str, Path]
) -> None:
    folder = tmp_path / NAME
    folder.mkdir()
    log, data, model, report = (folder / f"{letter} {NAME}" for letter in ("log", "d", "m", "r"))
    write_log(log, 300, 1)
    blocklist, feedback, copy = (folder / f"{letter} {NAME}" for letter in ("b", "f", "c"))
    blocklist.write_text("google\n", encoding="utf-8")
    shutil.copytree(served_models["adjacency"], copy)
    _write_feedback(feedback)
    run(
        ("prepare", log, "--out", data, "--no-spelling", "--min-users", "1"),
        ("inspect", data),
        ("fit", data, "--kind", "adjacency", "--out", model),
        ("suggest", model, "google", "--blocklist", blocklist),
        ("suggest", copy, "red shoes"),
        ("export", model, "--to", "static", "--out", folder / f"x {NAME}"),
        ("feedback", "report", feedback, "--out", report),
    )
    assert (report / "results.json").is_file()


def _write_feedback(folder: Path) -> None:
    from datetime import UTC, datetime

    from nextquery.feedback.events import ListedSuggestion, ServedList, ShownList
    from nextquery.service.feedback import FeedbackLog

    log = FeedbackLog(folder)
    who = ("list", "visitor", datetime(2026, 5, 1, tzinfo=UTC), "paris")
    log.append(ServedList(*who, model="m", suggestions=(ListedSuggestion("rome", "seen", "m"),)))
    log.append(ShownList(*who, suggestions=("rome",)))
