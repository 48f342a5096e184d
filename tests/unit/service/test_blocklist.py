"""Changing the blocklist while models are served."""

import errno
import fcntl
import multiprocessing
import os
import resource
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from threading import Event

import pytest

from nextquery.errors import BlocklistError, InputError
from nextquery.guard.blocklist import Blocklist, read_blocklist
from nextquery.guard.guard import Guard
from nextquery.service import control
from nextquery.service.control import EntryMissingError, block_text, unblock_text
from nextquery.service.engine import SECONDS_BETWEEN_RETRIES, BlocklistState, BlocklistWatch

from .conftest import wait_until


class CountingGuard(Guard):
    reloads = 0

    def reload(self) -> bool:
        self.reloads += 1
        return super().reload()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "blocklist"
    file.write_text("one\n")
    return file


@pytest.fixture
def guard(path: Path) -> CountingGuard:
    return CountingGuard(blocklist=path)


@pytest.fixture
def watch(guard: Guard, path: Path) -> BlocklistWatch:
    return BlocklistWatch(guard, path)


@pytest.mark.parametrize("before", ["# ours\nfirst\n", "# ours\nfirst", ""])
def test_the_entry_is_added_and_the_rest_stays(before: str, path: Path) -> None:
    path.write_text(before)
    assert block_text(path, " Red  SHOES\nsale ") == "red shoes sale"
    after = path.read_text()
    assert after.startswith(before)
    assert after.splitlines()[-1] == "red shoes sale"
    assert read_blocklist(path).blocks("cheap red shoes sale")


@pytest.mark.parametrize("text", [" #!? ", "\u0640", "\u0301"])
def test_a_text_of_which_nothing_remains_is_refused(text: str, path: Path) -> None:
    with pytest.raises(InputError, match="text: has no letter"):
        block_text(path, text)
    assert path.read_text() == "one\n"


def test_an_entry_that_is_there_is_not_added_again(path: Path) -> None:
    path.write_text("first  # ours\n")
    assert [block_text(path, text) for text in ("First", "first ", "#first")] == ["first"] * 3
    assert path.read_text() == "first  # ours\n"


def test_an_entry_is_removed_and_the_rest_stays(path: Path) -> None:
    path.write_text('# ours\nRed Shoes  # why\nred shoes\n\n="red shoes"\nboots')
    path.chmod(0o640)
    assert unblock_text(path, "red  SHOES") == "red shoes"
    assert path.read_text() == '# ours\n\n="red shoes"\nboots\n'
    assert path.stat().st_mode & 0o777 == 0o640
    with pytest.raises(EntryMissingError, match="no entry of the blocklist is red shoes"):
        unblock_text(path, "red shoes")
    unblock_text(path, "= red shoes")
    with pytest.raises(InputError, match="may not be empty"):
        unblock_text(path, "boots")
    assert read_blocklist(path).blocks("boots")


def _block_many(path: Path, name: str) -> None:
    for number in range(30):
        block_text(path, f"{name} word {number}")


def _start_and_block_many(start: Barrier, path: Path, name: str) -> None:
    start.wait(60)
    _block_many(path, name)


@pytest.mark.slow
def test_threads_and_processes_lose_no_entry(path: Path) -> None:
    path.write_text("# ours\nfirst")
    processes = multiprocessing.get_context("spawn")
    start = processes.Barrier(3)
    workers = [
        processes.Process(target=_start_and_block_many, args=(start, path, f"process {number}"))
        for number in range(2)
    ]
    for worker in workers:
        worker.start()
    start.wait(60)
    threads = [f"thread {number}" for number in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(partial(_block_many, path), threads))
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    names = [*threads, *(f"process {number}" for number in range(2))]
    wanted = {f"{name} word {number}" for name in names for number in range(30)}
    lines = path.read_text().splitlines()
    assert lines[:2] == ["# ours", "first"]
    assert (len(lines), set(lines[2:])) == (2 + 4 * 30, wanted)


def test_a_file_that_replaced_the_list_meanwhile_gets_the_entry(tmp_path: Path, path: Path) -> None:
    new = tmp_path / "new"
    new.write_text("new\n")
    with path.open("rb") as held, ThreadPoolExecutor(1) as thread:
        fcntl.flock(held, fcntl.LOCK_EX)
        blocked = thread.submit(block_text, path, "red shoes")
        new.rename(path)
        fcntl.flock(held, fcntl.LOCK_UN)
        assert blocked.result(60) == "red shoes"
    assert path.read_text() == "new\nred shoes\n"


def test_a_lock_that_is_not_released_is_an_error(
    monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    monkeypatch.setattr(control, "LOCK_SECONDS", 0.05)
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="locked by another process"):
            block_text(path, "red shoes")


def test_a_file_that_models_would_refuse_is_not_written(path: Path) -> None:
    path.write_bytes(b"caf\xe9\n")
    with pytest.raises(BlocklistError, match="not UTF-8"):
        block_text(path, "red shoes")
    assert path.read_bytes() == b"caf\xe9\n"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(BlocklistError, match="pipe"):
        block_text(path, "red shoes")
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        block_text(path, "red shoes")
    path.rmdir()
    with pytest.raises(FileNotFoundError):
        block_text(path, "red shoes")


def test_a_half_written_line_is_taken_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of the file's size stands for a full disk: the write is cut short."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # the limit would truncate it
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    usual = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            block_text(path, "red shoes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, usual)
    assert path.read_text() == "one\n"
    assert block_text(path, "red shoes") == "red shoes"


def test_the_file_stays_small_enough_for_models(
    monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    monkeypatch.setattr(control, "MOST_BYTES", 12)
    with pytest.raises(OSError, match="would be larger"):
        block_text(path, "red shoes")
    assert block_text(path, "boots") == "boots"


def test_a_changed_file_is_taken_and_a_bad_one_leaves_the_old(
    path: Path, guard: Guard, watch: BlocklistWatch
) -> None:
    watch.reload_if_changed()
    assert watch.state == BlocklistState(0)
    path.write_text("one\ntwo\n")
    watch.reload_if_changed()
    assert watch.state == BlocklistState(1)
    assert not guard.allows("two")
    path.write_text("")
    watch.reload_if_changed()
    assert watch.state.generation == 1
    assert "has no entry" in str(watch.state.problem)
    assert not guard.allows("two")
    path.write_text("two\nthree\n")
    watch.reload_if_changed()
    assert watch.state == BlocklistState(2)


def test_a_bad_file_is_read_once(path: Path, guard: CountingGuard, watch: BlocklistWatch) -> None:
    path.write_text("# nothing\n")
    for _ in range(5):
        watch.reload_if_changed()
    assert guard.reloads == 2, "when it was opened, and when it changed"


def test_a_bad_file_that_looks_the_same_is_read_again_later(
    monkeypatch: pytest.MonkeyPatch, path: Path, guard: Guard, watch: BlocklistWatch
) -> None:
    """Too many open files, a disk that fails: the file itself does not change afterwards."""
    path.write_text("one\ntwo\n")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        watch.reload_if_changed()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert "Too many open files" in str(watch.state.problem)
    watch.reload_if_changed()
    assert guard.allows("two"), "not at once"
    later = time.monotonic() + SECONDS_BETWEEN_RETRIES
    monkeypatch.setattr(time, "monotonic", lambda: later)
    watch.reload_if_changed()
    assert watch.state == BlocklistState(1)
    assert not guard.allows("two")


def test_another_file_of_the_same_size_and_time_is_taken(tmp_path: Path, path: Path) -> None:
    """As `rsync --times` or a version control system puts it there."""
    new = tmp_path / "new.txt"
    new.write_text("two\n")
    for file in (path, new):
        os.utime(file, (1_000_000_000, 1_000_000_000))
    guard = Guard(blocklist=path)
    watch = BlocklistWatch(guard, path)
    watch.reload_if_changed()
    new.rename(path)
    watch.reload_if_changed()
    assert guard.allows("one")
    assert not guard.allows("two")


def test_a_folder_of_its_name_keeps_the_list_until_there_is_a_file(
    path: Path, guard: Guard, watch: BlocklistWatch
) -> None:
    path.unlink()
    path.mkdir()
    watch.reload_if_changed()
    assert "a folder" in str(watch.state.problem)
    assert not guard.allows("one")
    path.rmdir()
    path.write_text("two\n")
    watch.reload_if_changed()
    assert watch.state == BlocklistState(1)
    assert not guard.allows("two")


def test_models_answer_by_the_old_list_while_a_new_one_is_read(
    monkeypatch: pytest.MonkeyPatch, path: Path, guard: Guard, watch: BlocklistWatch
) -> None:
    begun, finish = Event(), Event()

    def read_slowly(path: Path, previous: Blocklist | None = None) -> Blocklist:
        begun.set()
        assert finish.wait(120)
        return read_blocklist(path, previous)

    monkeypatch.setattr("nextquery.guard.guard.read_blocklist", read_slowly)
    path.write_text("two\n")
    watch.start()
    assert begun.wait(120), "it looks by itself"
    assert guard.allows("two")
    assert not guard.allows("one")
    assert watch.state == BlocklistState(0)
    finish.set()
    wait_until(lambda: watch.state.generation == 1)
    watch.stop()
    assert guard.allows("one")
    assert not guard.allows("two")
