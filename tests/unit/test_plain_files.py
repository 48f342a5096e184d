"""Only plain files of ordinary size are read whole."""

import os
from pathlib import Path

import pytest

from nextquery.artifacts.files import read_plain_text


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
