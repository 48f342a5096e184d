"""A log file is recognised by the hash of its unpacked bytes."""

import bz2
import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from nextquery.errors import LogError
from nextquery.logs.reading import open
from nextquery.logs.reading.open import LogFile, find_files, hash_content, take_sample

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


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".", "a folder, not a file; name its files"),
        ("nowhere", "no such file"),
        ("pipe", "a pipe or device, which may never end"),
        ("/dev/zero", "a pipe or device, which may never end"),
        ("x" * 300, "cannot be opened"),
        ("a\0b", "cannot be opened"),
    ],
)
def test_what_is_not_a_file_is_refused(tmp_path: Path, name: str, message: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LogError, match=message):
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


LINES = b"one line\nand another\n"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("chunk", [1, 3, 5, 9, 1000])
@pytest.mark.parametrize("packed", [False, True])
def test_bytes_are_hashed_unpacked_with_their_beginnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, packed: bool
) -> None:
    monkeypatch.setattr(open, "_CHUNK", chunk)
    file = tmp_path / "log"
    file.write_bytes(gzip.compress(LINES) if packed else LINES)
    found = hash_content(file, [3, 9, 10, len(LINES), 1000])
    assert (found.sha256, found.size) == (sha256(LINES), len(LINES))
    assert found.beginnings == {size: sha256(LINES[:size]) for size in (3, 9, 10)}


def sample(tmp_path: Path, content: bytes) -> tuple[str, ...]:
    path = tmp_path / "log"
    path.write_bytes(content)
    return take_sample(path).lines


def test_lines_come_without_ends_and_without_a_byte_order_mark(tmp_path: Path) -> None:
    assert sample(tmp_path, b"\xef\xbb\xbfa\r\nb\nc") == ("a", "b", "c")
    assert sample(tmp_path, gzip.compress(b"a\nb\n")) == ("a", "b")
    assert sample(tmp_path, b"") == ()


def test_a_cut_line_is_left_out_and_lines_are_few(tmp_path: Path) -> None:
    lines = sample(tmp_path, b"x" * 40_000 + b"\n" + b"y" * 40_000)
    assert [len(line) for line in lines] == [40_000]
    assert len(sample(tmp_path, b"a\n" * 1000)) == 100
    assert len(sample(tmp_path, b"x" * (3 << 20))[0]) <= (1 << 20) + (64 << 10)


def test_utf_16_is_read(tmp_path: Path) -> None:
    assert sample(tmp_path, "user\tq\n".encode("utf-16")) == ("user\tq",)


def test_a_header_of_many_columns_is_seen_whole(tmp_path: Path) -> None:
    header = ",".join(f"column {number}" for number in range(20_000))
    assert sample(tmp_path, header.encode() + b"\n1,2\n")[0] == header


def test_lines_that_end_in_cr_alone_are_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="its lines end in CR alone"):
        sample(tmp_path, b"user,time,query\r1,2,red\r")
    assert sample(tmp_path, b"user,time,query\r\n") == ("user,time,query",)
