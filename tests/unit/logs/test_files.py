"""Opening log files: compression, encodings, lines and samples."""

import bz2
import codecs
import gzip
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from nextquery.errors import InputError, LogError
from nextquery.logs.reading import open, rejects
from nextquery.logs.reading.encodings import check_encoding, text_chunks
from nextquery.logs.reading.open import LogFile, find_files, hash_content, line_blocks, take_sample
from nextquery.logs.reading.read_logs import ReadResult, read_logs
from nextquery.logs.settings import ReadSettings

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
def test_compression_is_detected_by_content_not_by_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(PACKERS[kind](TEXT))
    with LogFile(path) as file:
        assert file.compression == kind
        assert b"".join(file.chunks(1000)) == TEXT
        assert file.position() == path.stat().st_size


@pytest.mark.parametrize("kind", PACKERS)
def test_concatenated_archives_are_read_to_the_end(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(PACKERS[kind](TEXT[:900]) + PACKERS[kind](TEXT[900:]))
    assert read(path) == TEXT


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_truncated_archive_stops_the_job(tmp_path: Path, kind: str, kept: float) -> None:
    packed = PACKERS[kind](TEXT)
    (tmp_path / "log").write_bytes(packed[: int(len(packed) * kept)])
    with pytest.raises(LogError, match=rf"log: the {kind} data is truncated or damaged"):
        read(tmp_path / "log")


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


def test_a_folder_is_read_as_its_files_in_order_of_name(tmp_path: Path) -> None:
    for name in ("b.tsv", "a.tsv", "sub/c.tsv", ".hidden", ".git/d.tsv"):
        (tmp_path / "days" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "days" / name).write_bytes(TEXT)
    result = find_files([tmp_path / "one", tmp_path / "days"])
    assert [path.name for path in result] == ["one", "a.tsv", "b.tsv", "c.tsv"]


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
    result = hash_content(file, [3, 9, 10, len(LINES), 1000])
    assert (result.sha256, result.size) == (sha256(LINES), len(LINES))
    assert result.beginnings == {size: sha256(LINES[:size]) for size in (3, 9, 10)}


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


def test_lines_that_end_in_cr_alone_are_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="its lines end in CR alone"):
        sample(tmp_path, b"user,time,query\r1,2,red\r")
    assert sample(tmp_path, b"user,time,query\r\n") == ("user,time,query",)


NO_LINES = pl.DataFrame(schema={"line": pl.Int64, "text": pl.Binary})


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@given(st.binary(max_size=200), st.integers(1, 50))
def test_blocks_hold_every_line_once_with_its_number(data: bytes, size: int) -> None:
    data = data.removeprefix(b"\xef\xbb\xbf")
    expected = data.split(b"\n")
    expected = expected[:-1] if expected[-1] == b"" else expected
    frames = [block.frame() for block in line_blocks(cut(data, size))]
    result = pl.concat([frame.cast({"text": pl.Binary}) for frame in frames] or [NO_LINES])
    assert result["text"].to_list() == expected
    assert result["line"].to_list() == list(range(1, len(expected) + 1))


@pytest.mark.parametrize("size", [1, 7, 64])
def test_long_line_is_cut_and_the_lines_after_it_keep_their_numbers(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(open, "LONGEST_LINE", 20)
    data = b"short\n" + b"x" * 500 + b"\nlast"
    result = pl.concat(block.frame() for block in line_blocks(cut(data, size)))
    assert result["line"].to_list() == [1, 2, 3]
    assert result["text"][0] == "short"
    assert len(result["text"][1]) > 20
    assert result["text"][2] == "last"


@given(st.binary(max_size=200), st.integers(1, 50), st.integers(1, 5))
def test_no_block_has_more_lines_than_the_limit(data: bytes, size: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open, "BLOCK_LINES", most)
        result = list(line_blocks(cut(data, size)))
    assert all(1 <= block.count <= most for block in result)
    assert all(block.data.count(b"\n") == block.count for block in result)
    firsts = [block.first for block in result]
    assert firsts == [
        1 + sum(block.count for block in result[:number]) for number in range(len(result))
    ]
    whole = b"".join(block.data for block in result)
    assert whole.rstrip(b"\n") == data.removeprefix(b"\xef\xbb\xbf").rstrip(b"\n")


ACCENTED = "user\tcaf\u00e9\t\u6771\u4eac\n" * 5


def joined(data: bytes, size: int) -> bytes:
    return b"".join(text_chunks(iter(cut(data, size))))


@pytest.mark.parametrize("size", [2, 7, 64, 1000])
@pytest.mark.parametrize("order", ["utf-16", "utf-16-be"])
def test_utf_16_becomes_utf_8_however_it_is_cut(size: int, order: str) -> None:
    mark = codecs.BOM_UTF16_BE if order == "utf-16-be" else b""
    assert joined(mark + ACCENTED.encode(order), size).decode() == ACCENTED


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_detected_by_latin_letters(order: str) -> None:
    latin = "user,query,time\r\n" * 5
    assert joined(latin.encode(order), 64).decode() == latin


@given(st.text(min_size=1), st.integers(1, 9))
def test_utf_8_stays_as_it_is(text: str, size: int) -> None:
    data = text.encode("utf-8", "replace")
    if not data.lstrip().startswith(b"[") and b"\0" not in data:
        assert joined(data, size) == data


@pytest.mark.parametrize("name", ["klingon", "base64", "rot13", "", "idna", "undefined", "\udcff"])
def test_unknown_encodings_and_codecs_of_bytes_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="`encoding`"):
        check_encoding(name)


OBJECTS = [{"a": 1, "b": ["]", "{"]}, {"c": "caf\u00e9 \U0001f600"}, {}]


@pytest.mark.parametrize("size", [11, 64, 10_000])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_list_becomes_an_object_per_line(size: int, indent: int | None) -> None:
    data = json.dumps(OBJECTS, indent=indent, ensure_ascii=False).encode()
    lines = joined(data, size).decode().splitlines()
    assert [json.loads(line) for line in lines] == OBJECTS


@pytest.mark.parametrize("size", [11, 64, 10_000])
@pytest.mark.parametrize("end", ['[{"a": 1}', '[{"a": 1},', '[{"a": 1}, ', '[{"a": 1}] [{"a": 2}'])
def test_a_list_that_ends_between_two_objects_is_cut_off(end: str, size: int) -> None:
    with pytest.raises(LogError, match=r"cut off, after [12] objects"):
        joined(end.encode(), size)


def test_a_list_with_bytes_that_are_not_utf_8_loses_the_row_only(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    rows = [{"user": "u", "time": f"2024-03-01 10:00:0{n}", "query": "caf\u00e9"} for n in range(9)]
    data = json.dumps(rows, indent=1, ensure_ascii=False).encode()
    log.write_bytes(data.replace("\u00e9".encode(), b"\xe9", 1))
    read = read_logs([log], ReadSettings(max_rejected=0.2), tmp_path / "work")
    assert (read.rows_accepted, read.reasons) == (8, {rejects.MALFORMED_TEXT: 1})


def _table(rows: int, text: str) -> str:
    lines = [f"7,{text} {n},2024-03-01 10:{n // 60:02}:{n % 60:02}\n" for n in range(rows)]
    return "user,query,time\n" + "".join(lines)


def _read(tmp_path: Path, data: bytes, encoding: str) -> ReadResult:
    log = tmp_path / "log.csv"
    log.write_bytes(data)
    return read_logs([log], ReadSettings("csv", encoding=encoding), tmp_path / "work")


def test_rows_that_the_named_encoding_does_not_have_are_rejected(tmp_path: Path) -> None:
    text = _table(900, "shoes") + "7,caf\u00e9,2024-03-01 11:00:00\n"
    read = _read(tmp_path, text.encode(), "ascii")
    assert (read.rows_accepted, read.reasons) == (900, {rejects.MALFORMED_TEXT: 1})


@pytest.mark.parametrize(
    ("encoding", "written"),
    [
        *(("ascii", "utf-8"), ("cp1252", "utf-8"), ("latin-1", "utf-8"), ("cp437", "utf-8")),
        *(("cp1251", "utf-8"), ("gbk", "utf-8"), ("shift_jis", "utf-8"), ("utf-16", "utf-8")),
        *(("utf-8", "cp1252"), ("latin-1", "cp1252"), ("utf-32", "utf-8"), ("utf-16", "cp1252")),
        *(("utf-16-le", "utf-16-be"), ("utf-16-be", "utf-8"), ("cp037", "utf-8")),
    ],
)
def test_a_wrong_encoding_is_never_taken(tmp_path: Path, encoding: str, written: str) -> None:
    data = _table(90, "caf\u00e9 \u201cde\u201d").encode(written)
    with pytest.raises(LogError):
        _read(tmp_path, data, encoding)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "UTF8", "cp65001"])
def test_other_names_of_utf_8_are_utf_8(tmp_path: Path, encoding: str) -> None:
    assert _read(tmp_path, _table(90, "caf\u00e9").encode(), encoding).rows_accepted == 90


@pytest.mark.parametrize(
    ("encoding", "word"),
    [
        *(("cp1252", "caf\u00e9 \u201cde\u201d"), ("cp1251", "\u043e\u0431\u0443\u0432\u044c")),
        *(("gbk", "\u8054\u901a \u624b\u673a"), ("shift_jis", "\u9774"), ("big5", "\u978b")),
        *(("gb18030", "\u978b"), ("euc_kr", "\uc2e0\ubc1c"), ("iso2022_jp", "\u9774")),
        *(("utf-32", "caf\u00e9"), ("utf-16-le", "caf\u00e9"), ("utf-7", "caf\u00e9")),
    ],
)
def test_the_right_encoding_is_taken_whole(tmp_path: Path, encoding: str, word: str) -> None:
    read = _read(tmp_path, _table(90, word).encode(encoding), encoding)
    assert (read.rows_accepted, read.rows_rejected) == (90, 0)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("position", [200, 201, 4000, 4001, -1, -2])
@pytest.mark.parametrize("added", [b"", b"xy"])
def test_a_damaged_byte_of_utf_16_costs_a_row(
    tmp_path: Path, order: str, position: int, added: bytes
) -> None:
    text = _table(900, "shoes")
    data = "\ufeff".encode(order) + text.encode(order)
    position %= len(data)
    damaged = data[:position] + added + data[position + 1 :]
    read = _read(tmp_path, damaged, "utf-8")
    assert read.rows_accepted >= 898
    assert read.rows_accepted + read.rows_rejected >= 899
    assert set(read.reasons) <= {rejects.MALFORMED_TEXT}


def test_utf_32_with_a_missing_byte_is_refused(tmp_path: Path) -> None:
    data = _table(900, "shoes").encode("utf-32")
    with pytest.raises(LogError, match=r"log\.csv: the text is not in the `encoding` utf-32"):
        _read(tmp_path, data[:4000] + data[4001:], "utf-32")
