"""One atomic exchange, and texts that are on the disk."""

import errno
import os
from pathlib import Path

import pytest

from nextquery.artifacts import disk


def test_two_folders_change_places(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    if not disk.exchange(tmp_path / "one", tmp_path / "other"):
        pytest.skip("this file system cannot exchange")
    assert (tmp_path / "one" / "other").exists()
    assert (tmp_path / "other" / "one").exists()


def test_an_exchange_with_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with pytest.raises(OSError, match="No such file") as raised:
        disk.exchange(tmp_path / "one", tmp_path / "nothing")
    assert raised.value.errno == errno.ENOENT


def test_a_text_replaces_another_and_leaves_nothing_beside(tmp_path: Path) -> None:
    for text in ("old", "new \udcff ä"):
        disk.write_text(tmp_path / "file.json", text)
    assert (tmp_path / "file.json").read_bytes() == b"new \\udcff \xc3\xa4"
    assert [path.name for path in tmp_path.iterdir()] == ["file.json"]


def test_an_odd_path_is_reached_by_a_plain_one(tmp_path: Path) -> None:
    folder = tmp_path / "a[1] *"
    folder.mkdir()
    (folder / "file").touch()
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        plain = disk.plain_path(folder, descriptor)
        assert "[" not in str(plain)
        assert (plain / "file").exists()
    finally:
        os.close(descriptor)
    assert disk.plain_path(tmp_path, -1) == tmp_path


def test_a_file_is_replaced_when_it_is_complete(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    with disk.replaced_file(tmp_path / "link") as stream:
        stream.write(b"one")
        assert not (tmp_path / "file").exists()
        assert len(disk.being_written) == 1
    assert (tmp_path / "file").read_bytes() == b"one"
    with pytest.raises(ZeroDivisionError), disk.replaced_file(tmp_path / "file") as stream:
        stream.write(b"two")
        raise ZeroDivisionError
    assert (tmp_path / "file").read_bytes() == b"one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]
    assert not disk.being_written


def test_a_rename_never_takes_the_place_of_a_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to(os.devnull)
    (tmp_path / "loop").symlink_to("loop")
    before = sorted(path.name for path in tmp_path.iterdir())
    for name in ("pipe", "null", "loop", ".", "x" * 300):
        with (
            pytest.raises(OSError, match=r"\[Errno") as raised,
            disk.replaced_file(tmp_path / name),
        ):
            raise AssertionError("opened")
        assert str(raised.value.filename).endswith(name if name != "." else tmp_path.name)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
