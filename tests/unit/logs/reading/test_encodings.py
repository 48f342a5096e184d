import codecs
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.errors import InputError, LogError
from nextquery.logs.reading.compression import LogFile
from nextquery.logs.reading.encodings import check_encoding, text_chunks
from nextquery.logs.reading.read_logs import read_logs
from nextquery.logs.reading.settings import ReadSettings

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
    log.write_text(json.dumps(OBJECTS)[:-9])
    with (
        LogFile(log) as file,
        pytest.raises(LogError, match=r"log\.json: a list of JSON .* cut off after 1 objects"),
    ):
        list(file.text(64))


@pytest.mark.parametrize(("encoding", "data"), [("utf-16", b"a\tb\n"), ("punycode", b"a\x80b")])
def test_a_text_in_another_encoding_than_named_is_one_error(encoding: str, data: bytes) -> None:
    with pytest.raises(LogError, match=f"not in the `encoding` {encoding}"):
        joined(data, 100, encoding)
