import os
import resource
import time
from pathlib import Path

import pytest

from nextquery.guard.guard import Guard
from nextquery.service.engine import (
    BLOCKLIST_POLL_INTERVAL,
    SECONDS_BETWEEN_RETRIES,
    BlocklistState,
    BlocklistWatch,
)


def test_a_changed_file_is_taken_and_a_bad_one_leaves_the_old(tmp_path: Path) -> None:
    path = tmp_path / "blocked.txt"
    path.write_text("one\n")
    guard = Guard(blocklist=path)
    watch = BlocklistWatch(guard, path)
    watch.look()
    assert watch.state == BlocklistState(0)
    path.write_text("one\ntwo\n")
    watch.look()
    assert watch.state == BlocklistState(1)
    assert not guard.allows("two")
    path.write_text("")
    watch.look()
    assert watch.state.generation == 1
    assert "has no entry" in str(watch.state.problem)
    assert not guard.allows("two")
    path.write_text("two\nthree\n")
    watch.look()
    assert watch.state == BlocklistState(2)


def test_a_bad_file_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "blocked.txt"
    path.write_text("one\n")
    guard = CountingGuard(blocklist=path)
    watch = BlocklistWatch(guard, path)
    path.write_text("# nothing\n")
    for _ in range(5):
        watch.look()
    assert guard.reloads == 2, "when it was opened, and when it changed"


def test_a_bad_file_that_looks_the_same_is_read_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many open files, a disk that fails: the file itself does not change afterwards."""
    path = tmp_path / "blocked.txt"
    path.write_text("one\n")
    guard = Guard(blocklist=path)
    watch = BlocklistWatch(guard, path)
    path.write_text("one\ntwo\n")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        watch.look()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert "Too many open files" in str(watch.state.problem)
    watch.look()
    assert guard.allows("two"), "not at once"
    later = time.monotonic() + SECONDS_BETWEEN_RETRIES
    monkeypatch.setattr(time, "monotonic", lambda: later)
    watch.look()
    assert watch.state == BlocklistState(1)
    assert not guard.allows("two")


def test_another_file_of_the_same_size_and_time_is_taken(tmp_path: Path) -> None:
    """As `rsync --times` or a version control system puts it there."""
    path, new = tmp_path / "blocked.txt", tmp_path / "new.txt"
    path.write_text("one\n")
    new.write_text("two\n")
    for file in (path, new):
        os.utime(file, (1_000_000_000, 1_000_000_000))
    guard = Guard(blocklist=path)
    watch = BlocklistWatch(guard, path)
    watch.look()
    new.rename(path)
    watch.look()
    assert guard.allows("one")
    assert not guard.allows("two")


def test_a_folder_in_its_place_leaves_the_list_until_there_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "blocked.txt"
    path.write_text("one\n")
    guard = Guard(blocklist=path)
    watch = BlocklistWatch(guard, path)
    path.unlink()
    path.mkdir()
    watch.look()
    assert "a folder" in str(watch.state.problem)
    assert not guard.allows("one")
    path.rmdir()
    path.write_text("two\n")
    watch.look()
    assert watch.state == BlocklistState(1)
    assert not guard.allows("two")


class CountingGuard(Guard):
    reloads = 0

    def reload(self) -> bool:
        self.reloads += 1
        return super().reload()


def test_it_looks_several_times_a_second() -> None:
    assert BLOCKLIST_POLL_INTERVAL < 0.5


def test_it_looks_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "blocked.txt"
    path.write_text("one\n")
    watch = BlocklistWatch(Guard(blocklist=path), path)
    watch.start()
    path.write_text("one\ntwo\n")
    end = time.monotonic() + 120
    while watch.state.generation == 0:
        assert time.monotonic() < end
        time.sleep(0.01)
    watch.stop()
