"""Files and folders that are written atomically, locked, and never somebody else's."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from nextquery.artifacts import abandon, files, publishing, temporary_folder
from nextquery.artifacts.files import read_plain_text, replaced_file, write_text

from .conftest import names


def test_two_folders_are_exchanged(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    if not files.exchange(tmp_path / "one", tmp_path / "other"):
        pytest.skip("this file system cannot exchange")
    assert (tmp_path / "one" / "other").exists()
    assert (tmp_path / "other" / "one").exists()


def test_an_exchange_with_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with pytest.raises(OSError, match="No such file") as raised:
        files.exchange(tmp_path / "one", tmp_path / "nothing")
    assert raised.value.errno == errno.ENOENT


def test_an_odd_path_is_reached_by_a_plain_one(tmp_path: Path) -> None:
    folder = tmp_path / "a[1] *"
    folder.mkdir()
    (folder / "file").touch()
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        plain = files.plain_path(folder, descriptor)
        assert "[" not in str(plain)
        assert (plain / "file").exists()
    finally:
        os.close(descriptor)
    assert files.plain_path(tmp_path, -1) == tmp_path


def test_a_text_replaces_another_and_leaves_no_other_file(tmp_path: Path) -> None:
    for text in ("old", "new \udcff ä"):
        write_text(tmp_path / "file.json", text)
    assert (tmp_path / "file.json").read_bytes() == b"new \\udcff \xc3\xa4"
    assert names(tmp_path) == ["file.json"]


def test_a_file_is_replaced_when_it_is_complete(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    with replaced_file(tmp_path / "link") as stream:
        stream.write(b"one")
        assert not (tmp_path / "file").exists()
        assert len(files._being_written) == 1
    assert (tmp_path / "file").read_bytes() == b"one"
    with pytest.raises(ZeroDivisionError), replaced_file(tmp_path / "file") as stream:
        stream.write(b"two")
        raise ZeroDivisionError
    assert (tmp_path / "file").read_bytes() == b"one"
    assert names(tmp_path) == ["file", "link"]
    assert not files._being_written


def test_a_rename_never_replaces_a_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to(os.devnull)
    (tmp_path / "loop").symlink_to("loop")
    before = names(tmp_path)
    for name in ("pipe", "null", "loop", ".", "x" * 300):
        with pytest.raises(OSError, match=r"\[Errno") as raised, replaced_file(tmp_path / name):
            raise AssertionError("opened")
        assert str(raised.value.filename).endswith(name if name != "." else tmp_path.name)
    assert names(tmp_path) == before


HELD = """
import sys
from pathlib import Path
from nextquery.artifacts import replaced_file
with replaced_file(Path(sys.argv[1])) as stream:
    stream.write(b"half")
    stream.flush()
    print(flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_job_left_is_removed_by_the_next(tmp_path: Path) -> None:
    file, neighbour = tmp_path / "m", tmp_path / ".m.v2.0123abcd.partial"
    neighbour.touch()
    with _held(file) as job:
        write_text(file, "meanwhile")  # the job is at work: what it has written stays
        assert len(names(tmp_path)) == 3
        job.kill()
    assert len(names(tmp_path)) == 3
    write_text(file, "new")
    assert names(tmp_path) == [".m.v2.0123abcd.partial", "m"]


def test_a_folder_or_link_of_such_a_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".m.0123abcd.partial").mkdir()
    (tmp_path / ".m.0123abce.partial").symlink_to("elsewhere")
    write_text(tmp_path / "m", "new")
    assert names(tmp_path) == [".m.0123abcd.partial", ".m.0123abce.partial", "m"]


def test_folders_made_for_a_file_go_with_it(tmp_path: Path) -> None:
    file = tmp_path / "new" / "folder" / "m"
    with pytest.raises(ZeroDivisionError), replaced_file(file, make_folders=True):
        raise ZeroDivisionError
    assert not names(tmp_path)
    with replaced_file(file, make_folders=True, mode=0o600) as stream:
        stream.write(b"x")
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_process_that_must_end_removes_what_it_was_writing(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError),
        replaced_file(tmp_path / "new" / "m", make_folders=True) as stream,
    ):
        stream.write(b"x")
        abandon()
        assert not names(tmp_path)


def test_an_error_names_the_file_itself(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        write_text(tmp_path / "no" / "such" / "m", "x")
    assert raised.value.filename == str(tmp_path / "no" / "such" / "m")


def test_names_that_begin_alike_are_not_taken_for_each_other(tmp_path: Path) -> None:
    long = "x" * 240
    with _held(tmp_path / f"{long}1") as job:
        job.send_signal(signal.SIGKILL)
    left = names(tmp_path)
    write_text(tmp_path / f"{long}2", "other")
    assert names(tmp_path) == sorted([*left, f"{long}2"])
    write_text(tmp_path / f"{long}1", "same")
    assert names(tmp_path) == [f"{long}1", f"{long}2"]


def _held(file: Path) -> "subprocess.Popen[bytes]":
    """A process that has written half of a file."""
    command = [sys.executable, "-c", HELD, str(file)]
    job = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert job.stdout is not None
    job.stdout.readline()
    return job


def test_line_ends_and_marks(tmp_path: Path) -> None:
    file = tmp_path / "words"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\n")
    assert read_plain_text(file, "utf-8-sig") == "one\ntwo\n"


def test_what_never_ends_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="may never end"):
            read_plain_text(path)


def test_a_folder_and_a_file_as_large_as_the_memory(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_plain_text(tmp_path)
    with (tmp_path / "large").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(OSError, match="larger than 1,024 MB"):
        read_plain_text(tmp_path / "large")
    with pytest.raises(OSError, match="null byte"):
        read_plain_text(Path("a\0b"))


WAITS = """
import time
from nextquery.artifacts import temporary_folder
with temporary_folder() as folder:
    (folder / "queries.parquet").write_text("what people typed")
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture
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


def test_a_temporary_folder_of_a_killed_job_is_removed_by_the_next(base: Path) -> None:
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
    link = base / "nextquery-0123456789ab.work"
    link.symlink_to(base / "nextquery-mine.work")
    with temporary_folder():
        pass
    assert len(names(base)) == 2
    link.unlink()
    link.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with temporary_folder():
        pass
    assert len(names(base)) == 2


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
