import codecs
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.errors import InputError, LogError
from nextquery.logs.reading import rejects
from nextquery.logs.reading.encodings import check_encoding, text_chunks
from nextquery.logs.reading.open import LogFile
from nextquery.logs.reading.read_logs import ReadResult, read_logs
from nextquery.logs.settings import ReadSettings

TEXT = "user\tcaf\u00e9\t\u6771\u4eac\n" * 5


def joined(data: bytes, size: int, encoding: str = "utf-8") -> bytes:
    chunks = (data[start : start + size] for start in range(0, len(data), size))
    return b"".join(text_chunks(chunks, encoding))


@pytest.mark.parametrize("size", [2, 7, 1000])
def test_utf_16_becomes_utf_8_however_it_is_cut(size: int) -> None:
    assert joined(TEXT.encode("utf-16"), size).decode() == TEXT


def test_utf_16_without_a_mark_is_told_by_latin_letters() -> None:
    latin = "user,query,time\r\n" * 5
    assert joined(latin.encode("utf-16-le"), 64).decode() == latin


def test_both_byte_orders_are_told() -> None:
    assert joined(TEXT.encode("utf-16"), 64).decode() == TEXT
    assert joined(codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), 64).decode() == TEXT
    assert joined(("abcd" * 20).encode("utf-16-be"), 64) == b"abcd" * 20


@given(st.text(min_size=1), st.integers(1, 9))
def test_utf_8_stays_as_it_is(text: str, size: int) -> None:
    data = text.encode("utf-8", "replace")
    if not data.lstrip().startswith(b"[") and b"\0" not in data:
        assert joined(data, size) == data


def test_a_named_encoding_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = "".join(f"7,caf\u00e9 {n},2024-03-01 10:00:0{n}\n" for n in range(5))
    log.write_bytes(("user,query,time\n" + rows).encode("cp1252"))
    with pytest.raises(LogError, match=r"malformed UTF-8: 5\)"):
        read_logs([log], ReadSettings(), tmp_path / "bad")
    read = read_logs([log], ReadSettings(encoding="cp1252"), tmp_path / "work")
    assert (read.rows_accepted, read.rows_rejected) == (5, 0)


@pytest.mark.parametrize("name", ["klingon", "base64", "rot13", "", "idna", "undefined", "\udcff"])
def test_what_is_no_encoding_of_texts_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="`encoding`"):
        check_encoding(name)


OBJECTS = [{"a": 1, "b": ["]", "{"]}, {"c": "caf\u00e9 \U0001f600"}, {}]


@pytest.mark.parametrize("size", [11, 64, 10_000])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_list_becomes_an_object_per_line(size: int, indent: int | None) -> None:
    data = json.dumps(OBJECTS, indent=indent, ensure_ascii=False).encode()
    lines = joined(data, size).decode().splitlines()
    assert [json.loads(line) for line in lines] == OBJECTS


def test_a_list_that_is_cut_off_is_named_with_its_file(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    log.write_text(json.dumps(OBJECTS)[:-9])  # within the second object
    with (
        LogFile(log) as file,
        pytest.raises(LogError, match=r"log\.json: is not JSON.* cut off, after 1 objects"),
    ):
        list(file.text(64))


@pytest.mark.parametrize(("encoding", "data"), [("utf-16", b"a\tb\n"), ("punycode", b"a\x80b")])
def test_a_text_in_another_encoding_than_named_is_one_error(encoding: str, data: bytes) -> None:
    with pytest.raises(LogError, match=f"not in the `encoding` {encoding}"):
        joined(data, 100, encoding)


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


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("place", [200, 201, 4000, 4001, -1, -2])
@pytest.mark.parametrize("added", [b"", b"xy"])
def test_a_damaged_byte_of_utf_16_costs_a_row(
    tmp_path: Path, order: str, place: int, added: bytes
) -> None:
    text = _table(900, "shoes")
    data = "\ufeff".encode(order) + text.encode(order)
    place %= len(data)
    damaged = data[:place] + added + data[place + 1 :]
    read = _read(tmp_path, damaged, "utf-8")
    assert read.rows_accepted >= 898
    assert read.rows_accepted + read.rows_rejected >= 899
    assert set(read.reasons) <= {rejects.MALFORMED_TEXT}


def test_utf_32_with_a_missing_byte_is_refused(tmp_path: Path) -> None:
    data = _table(900, "shoes").encode("utf-32")
    with pytest.raises(LogError, match=r"log\.csv: the text is not in the `encoding` utf-32"):
        _read(tmp_path, data[:4000] + data[4001:], "utf-32")
