"""One atomic exchange, and plain paths to folders with odd names."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nextquery.artifacts import abandon, files
from nextquery.artifacts.files import replaced_file, write_text


def test_two_folders_change_places(tmp_path: Path) -> None:
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


def test_a_text_replaces_another_and_leaves_nothing_beside(tmp_path: Path) -> None:
    for text in ("old", "new \udcff ä"):
        write_text(tmp_path / "file.json", text)
    assert (tmp_path / "file.json").read_bytes() == b"new \\udcff \xc3\xa4"
    assert [path.name for path in tmp_path.iterdir()] == ["file.json"]


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
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]
    assert not files._being_written


def test_a_rename_never_takes_the_place_of_a_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to(os.devnull)
    (tmp_path / "loop").symlink_to("loop")
    before = sorted(path.name for path in tmp_path.iterdir())
    for name in ("pipe", "null", "loop", ".", "x" * 300):
        with (
            pytest.raises(OSError, match=r"\[Errno") as raised,
            replaced_file(tmp_path / name),
        ):
            raise AssertionError("opened")
        assert str(raised.value.filename).endswith(name if name != "." else tmp_path.name)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


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
        assert len(_names(tmp_path)) == 3
        job.kill()
    assert len(_names(tmp_path)) == 3
    write_text(file, "new")
    assert _names(tmp_path) == [".m.v2.0123abcd.partial", "m"]


def test_a_folder_or_link_of_such_a_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".m.0123abcd.partial").mkdir()
    (tmp_path / ".m.0123abce.partial").symlink_to("elsewhere")
    write_text(tmp_path / "m", "new")
    assert _names(tmp_path) == [".m.0123abcd.partial", ".m.0123abce.partial", "m"]


def test_folders_made_for_a_file_go_with_it(tmp_path: Path) -> None:
    file = tmp_path / "new" / "folder" / "m"
    with pytest.raises(ZeroDivisionError), replaced_file(file, make_folders=True):
        raise ZeroDivisionError
    assert not _names(tmp_path)
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
        assert not _names(tmp_path)


def test_an_error_names_the_file_itself(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        write_text(tmp_path / "no" / "such" / "m", "x")
    assert raised.value.filename == str(tmp_path / "no" / "such" / "m")


def test_names_that_begin_alike_are_not_taken_for_each_other(tmp_path: Path) -> None:
    long = "x" * 240
    with _held(tmp_path / f"{long}1") as job:
        job.send_signal(signal.SIGKILL)
    left = _names(tmp_path)
    write_text(tmp_path / f"{long}2", "other")
    assert _names(tmp_path) == sorted([*left, f"{long}2"])
    write_text(tmp_path / f"{long}1", "same")
    assert _names(tmp_path) == [f"{long}1", f"{long}2"]


def _held(file: Path) -> "subprocess.Popen[bytes]":
    """A process that has written half of a file."""
    command = [sys.executable, "-c", HELD, str(file)]
    job = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert job.stdout is not None
    job.stdout.readline()
    return job


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
