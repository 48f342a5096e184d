"""One atomic exchange, and plain paths to folders with odd names."""

import errno
import os
from pathlib import Path

import pytest

from nextquery.artifacts import files


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
