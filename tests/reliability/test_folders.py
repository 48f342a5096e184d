"""Folders survive crashes, and damaged or hostile folders are refused.

Each test has a control: the same trial without the protection must fail.
"""

import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .small_models import ask


@pytest.mark.timeout(600)
def test_a_publication_killed_at_any_line_leaves_the_old_or_the_new_folder(
    run_script: Any, tmp_path: Path
) -> None:
    killed = run_script("crash_points", tmp_path / "a", "publish", 250)
    assert killed["points"] > 10
    assert killed["readable"] == killed["points"]
    assert killed["put_right"] == killed["points"], "the next job clears what was left"
    control = run_script("crash_points", tmp_path / "b", "rename_twice", 40)
    assert control["readable"] < control["points"]
    assert control["put_right"] < control["points"]


@pytest.mark.timeout(600)
def test_a_command_killed_or_stopped_at_any_step_leaves_the_old_or_the_new_folder(
    run_script: Any, files: Path
) -> None:
    ended = run_script("command_crashes", files, "both", 2, "update", "feedback guard")
    assert ended["tried"] >= 6
    assert ended["problems"] == []
    control = run_script("command_crashes", files, "in-place", 4, "fit")
    assert control["problems"]


@pytest.fixture(scope="module")
def outcomes(run_script: Any, files: Path) -> Any:
    """How often each outcome came, by the kind of damage."""
    return run_script("damaged_folders", files, 24, 1, 60)


@pytest.mark.timeout(600)
def test_a_damaged_folder_is_refused(outcomes: Any) -> None:
    assert set(outcomes["damaged"]) <= {"refused", "same"}
    assert set(outcomes["damaged-unchecked"]) & {"other", "error", "crash", "hang"}


@pytest.mark.timeout(600)
def test_hostile_content_with_valid_checksums_ends_no_process(outcomes: Any) -> None:
    assert set(outcomes["hostile"]) <= {"refused", "same", "other"}, (
        "wrong answers are the author's own"
    )
    assert set(outcomes["hostile-unchecked"]) & {"error", "crash", "hang"}


@pytest.mark.parametrize("limit", [100, 5000])
def test_a_full_disk_leaves_the_old_model(files: Path, tmp_path: Path, limit: int) -> None:
    old = Path(shutil.copytree(files / "popularity", tmp_path / "model"))
    before = (old / "manifest.json").read_bytes()
    words = ["fit", str(files / "data1"), "--kind", "adjacency", "--out", str(old)]
    done = subprocess.run(
        [sys.executable, "-B", "-m", "nextquery", *words],  # -B: no truncated bytecode
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert (old / "manifest.json").read_bytes() == before
    assert ask(old)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
