"""A folder is locked while its job runs; what a killed job left is removed by the next one."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from nextquery.artifacts import abandon, publishing, temporary_folder

WAITS = """
import time
from nextquery.artifacts import temporary_folder
with temporary_folder() as folder:
    (folder / "queries.parquet").write_text("what people typed")
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_temporary_folder_is_for_its_owner_and_goes(base: Path) -> None:
    with temporary_folder() as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "table").touch()
        assert folder.parent == base
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(base.iterdir()) == []


def test_what_a_killed_job_left_is_removed_by_the_next(base: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        left = Path(job.stdout.readline().strip())
        with temporary_folder() as other:
            assert left.is_dir()  # its job is running
        job.send_signal(signal.SIGKILL)
        job.wait(60)
    assert (left / "queries.parquet").is_file()
    with temporary_folder() as folder:
        assert [path for path in base.iterdir() if path != folder] == []
    assert not other.exists()


def test_a_folder_of_another_name_or_user_stays(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "nextquery-mine.work").mkdir()
    (base / "nextquery-0123456789ab.work").symlink_to(base / "nextquery-mine.work")
    with temporary_folder():
        pass
    assert len(list(base.iterdir())) == 2
    (base / "nextquery-0123456789ab.work").unlink()
    (base / "nextquery-0123456789ab.work").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with temporary_folder():
        pass
    assert len(list(base.iterdir())) == 2


def test_a_process_about_to_end_removes_its_own(base: Path) -> None:
    running = temporary_folder()
    (running.__enter__() / "table").touch()
    abandon()
    assert list(base.iterdir()) == []
    running.__exit__(None, None, None)


def test_the_lock_is_removed_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job killed while it removes a folder leaves one that is recognised."""
    folder = tmp_path / "folder"
    lock = publishing.make_locked(folder)
    assert lock is not None
    for name in ("a", "z"):
        (folder / name).touch()
    unlinked: list[str] = []
    unlink = Path.unlink

    def note(path: Path, missing_ok: bool = False) -> None:
        unlinked.append(path.name)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", note)
    publishing.remove_locked(folder, lock)
    assert sorted(unlinked[:2]) == ["a", "z"]
    assert unlinked[2:] == ["lock"]
