import bz2
import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from nextquery.errors import LogError
from nextquery.logs.reading.open import LogFile, find_files

TEXT = b"".join(b"line %d of a log\n" % number for number in range(5000))
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bz2": bz2.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def read(path: Path, size: int = 1000) -> bytes:
    with LogFile(path) as file:
        return b"".join(file.chunks(size))


@pytest.mark.parametrize("kind", PACKERS)
def test_compression_is_told_by_content_not_by_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(PACKERS[kind](TEXT))
    with LogFile(path) as file:
        assert file.compression == kind
        assert b"".join(file.chunks(1000)) == TEXT
        assert file.position() == path.stat().st_size


def test_plain_file_with_a_gzip_name_is_plain(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(TEXT)
    assert read(path) == TEXT


@pytest.mark.parametrize("kind", PACKERS)
def test_concatenated_archives_are_read_to_the_end(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(PACKERS[kind](TEXT[:900]) + PACKERS[kind](TEXT[900:]))
    assert read(path) == TEXT


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_truncated_archive_stops_the_job(tmp_path: Path, kind: str, kept: float) -> None:
    path = tmp_path / "log"
    packed = PACKERS[kind](TEXT)
    path.write_bytes(packed[: int(len(packed) * kept)])
    with pytest.raises(LogError, match=rf"log: the {kind} data is truncated or damaged"):
        read(path)


@pytest.mark.parametrize("kind", ["gzip", "bz2"])
def test_damaged_archive_stops_the_job(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log"
    packed = bytearray(PACKERS[kind](TEXT))
    packed[len(packed) // 2] ^= 0xFF
    path.write_bytes(packed)
    with pytest.raises(LogError, match="truncated or damaged"):
        read(path)


def test_folder_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"a folder, not a file; name its files"):
        LogFile(tmp_path)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="no such file"):
        LogFile(tmp_path / "nowhere")


def test_a_pipe_without_a_writer_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LogError, match="a pipe or device, which may never end"):
        LogFile(tmp_path / "pipe")


def test_an_endless_device_is_refused() -> None:
    with pytest.raises(LogError, match="a pipe or device, which may never end"):
        LogFile(Path("/dev/zero"))


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(LogError, match="cannot be opened"):
        LogFile(tmp_path / name)


def test_a_name_may_be_any_bytes(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"log \xff [a] \\")
    path.write_bytes(TEXT)
    assert read(path) == TEXT


def test_a_folder_stands_for_its_files_by_name(tmp_path: Path) -> None:
    for name in ("b.tsv", "a.tsv", "sub/c.tsv", ".hidden", ".git/d.tsv"):
        (tmp_path / "days" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "days" / name).write_bytes(TEXT)
    found = find_files([tmp_path / "one", tmp_path / "days"])
    assert [path.name for path in found] == ["one", "a.tsv", "b.tsv", "c.tsv"]


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="a folder without files"):
        find_files([tmp_path])
