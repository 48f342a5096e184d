import csv
import io
from dataclasses import replace
from datetime import datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.logs.formats.delimited import AOL_LAYOUT, EXCITE_LAYOUT, DelimitedLayout
from nextquery.logs.reading import lines, rejects
from nextquery.logs.reading.rows import Layout, ParsedRows, parse_lines

CSV = DelimitedLayout(
    separator=",", widths=(3,), user=0, time=1, query=2, click=None, header="u,t,q", quoted=True
)
GOOD = b"7\tred shoes\t2006-03-01 07:17:12\t1\thttp://a.example"


def parse(layout: Layout, *texts: bytes, first: int = 1) -> ParsedRows:
    numbers = range(first, first + len(texts))
    frame = pl.DataFrame(
        {"line": numbers, "text": list(texts)}, {"line": pl.Int64, "text": pl.Binary}
    )
    return parse_lines(layout, frame)


def reason(layout: Layout, text: bytes) -> str | None:
    parsed = parse(layout, text, first=2)
    assert len(parsed.accepted) + len(parsed.rejected) == 1
    return None if len(parsed.accepted) else str(parsed.rejected["reason"][0])


def test_aol_row_with_a_click() -> None:
    (row,) = (
        parse(AOL_LAYOUT, GOOD).accepted.select("line", "user", "time", "query", "click").rows()
    )
    assert row == (1, "7", datetime(2006, 3, 1, 7, 17, 12), "red shoes", "http://a.example")


@pytest.mark.parametrize("tail", [b"\t\t", b"", b"\t\t\r\n", b"\n"])
def test_aol_row_without_a_click(tail: bytes) -> None:
    (row,) = parse(AOL_LAYOUT, b"7\tred shoes\t2006-03-01 07:17:12" + tail).accepted.rows(
        named=True
    )
    assert (row["query"], row["click"]) == ("red shoes", None)


def test_quotes_in_aol_are_plain_characters() -> None:
    texts = [
        b'7\t"red shoes\t2006-03-01 07:17:12\t\t',
        b'7\t5" pipe\t2006-03-01 07:18:12\t\t',
        b'7\t"red" "shoes"\t2006-03-01 07:19:12\t\t',
    ]
    found = parse(AOL_LAYOUT, *texts).accepted["query"].to_list()
    assert found == ['"red shoes', '5" pipe', '"red" "shoes"']


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"7\tred\xff shoes\t2006-03-01 07:17:12\t\t", rejects.MALFORMED_TEXT),
        (b"7\tred\0 shoes\t2006-03-01 07:17:12\t\t", rejects.NUL_BYTE),
        (b"7\t" + b"x" * (1 << 20) + b"\t2006-03-01 07:17:12\t\t", rejects.TOO_LONG),
        (b"", rejects.EMPTY_LINE),
        (b"\r\n", rejects.EMPTY_LINE),
        (b"AnonID\tQuery\tQueryTime\tItemRank\tClickURL", rejects.REPEATED_HEADER),
        (b"7\tred\t2006-03-01 07:17:12\t1", rejects.WRONG_COLUMNS),
        (GOOD + b"\tmore", rejects.WRONG_COLUMNS),
        (GOOD + b"\tmore\tand more", rejects.WRONG_COLUMNS),
        (b"red shoes", rejects.WRONG_COLUMNS),
        (b" \tred\t2006-03-01 07:17:12\t\t", rejects.NO_USER),
        (b"7\tred\t\t\t", rejects.NO_TIME),
        (b"7\tred\tyesterday\t\t", "time not understood"),
        (b"7\t \t2006-03-01 07:17:12\t\t", rejects.EMPTY_QUERY),
        (GOOD, None),
    ],
)
def test_every_fault_of_an_aol_row_has_its_reason(text: bytes, expected: str | None) -> None:
    assert reason(AOL_LAYOUT, text) == expected


def test_header_on_line_one_is_no_row() -> None:
    header = (AOL_LAYOUT.header or "").encode()
    parsed = parse(AOL_LAYOUT, header, GOOD, header)
    assert parsed.accepted["line"].to_list() == [2]
    assert parsed.rejected.select("line", "reason", "excerpt").rows() == [
        (3, rejects.REPEATED_HEADER, header.decode())
    ]


def test_excerpt_of_a_malformed_row_is_safe_to_print() -> None:
    excerpt = parse(AOL_LAYOUT, b"7\tcaf\xe9\x1b[31m\tx\t\t").rejected["excerpt"][0]
    assert excerpt == "7\tcaf\ufffd\ufffd[31m\tx\t\t"


def test_longest_line_is_still_a_row() -> None:
    start, end = b"7\t", b"\t2006-03-01 07:17:12\t\t"
    query = b"x" * (lines.LONGEST_LINE - len(start) - len(end))
    assert reason(AOL_LAYOUT, start + query + end + b"\n") is None
    assert reason(AOL_LAYOUT, start + query + b"x" + end) == rejects.TOO_LONG


def test_excite_row() -> None:
    (row,) = parse(EXCITE_LAYOUT, b"A1\t970916105432\tred shoes").accepted.rows(named=True)
    assert row["time"] == datetime(1997, 9, 16, 10, 54, 32)
    assert reason(EXCITE_LAYOUT, b"A1\t970916105432\t") == rejects.EMPTY_QUERY
    assert reason(EXCITE_LAYOUT, b"A1\t970916105432") == rejects.WRONG_COLUMNS
    assert reason(EXCITE_LAYOUT, b"A1\t971316105432\tred") == "time not understood"


@pytest.mark.parametrize(
    ("text", "query"),
    [
        (b'7,2006-03-01 07:17:12,"red, not blue"', "red, not blue"),
        (b'7,2006-03-01 07:17:12,"a ""good"" shoe"', 'a "good" shoe'),
        (b'"7","2006-03-01 07:17:12",red', "red"),
        (b'7,2006-03-01 07:17:12,5" pipe', '5" pipe'),
        (b"7,2006-03-01 07:17:12,red", "red"),
    ],
)
def test_csv_fields_may_be_quoted(text: bytes, query: str) -> None:
    assert parse(CSV, text, first=2).accepted["query"].to_list() == [query]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'7,2006-03-01 07:17:12,"red', rejects.BAD_QUOTES),
        (b'7,2006-03-01 07:17:12,"red" shoes', rejects.BAD_QUOTES),
        (b'7,2006-03-01 07:17:12,"red",more', rejects.WRONG_COLUMNS),
        (b'"7",2006-03-01 07:17:12', rejects.WRONG_COLUMNS),
        (b'7,2006-03-01 07:17:12,""', rejects.EMPTY_QUERY),
    ],
)
def test_quoted_rows_that_are_wrong(text: bytes, expected: str) -> None:
    assert reason(CSV, text) == expected


def test_an_open_quote_takes_no_other_row_with_it() -> None:
    good = b"7,2006-03-01 07:17:12,red"
    parsed = parse(CSV, b'7,2006-03-01 07:17:12,"red', good, b'7,x,"y"', good, first=2)
    assert parsed.accepted["line"].to_list() == [3, 5]
    assert parsed.rejected["line"].to_list() == [2, 4]


FIELD = st.text(st.sampled_from('ab,"\t\0é \r'), max_size=6)


@settings(max_examples=50)
@given(
    st.lists(st.lists(FIELD, max_size=7).map("\t".join).map(str.encode) | st.binary(max_size=20))
)
@pytest.mark.parametrize("layout", [AOL_LAYOUT, EXCITE_LAYOUT, CSV, replace(CSV, separator="\t")])
def test_every_line_is_accepted_or_rejected_once(layout: Layout, texts: list[bytes]) -> None:
    whole = [text.replace(b"\n", b"") for text in texts]
    parsed = parse(layout, *whole)
    numbers = parsed.accepted["line"].to_list() + parsed.rejected["line"].to_list()
    headers = (
        1 if whole and whole[0].decode(errors="replace") == getattr(layout, "header", None) else 0
    )
    assert sorted(numbers) == list(range(1 + headers, len(whole) + 1))
    assert parsed.rejected["reason"].null_count() == 0


# Python, unlike Unicode, takes the four separators for blanks: they would confuse `strip` below.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n\t\0\r\x1c\x1d\x1e\x1f"))


@settings(max_examples=50)
@given(st.lists(TEXT, min_size=1))
def test_query_text_survives_unchanged(queries: list[str]) -> None:
    texts = [f"7\t{query}\t2006-03-01 07:17:12\t\t".encode() for query in queries]
    kept = parse(AOL_LAYOUT, *texts).accepted["query"].to_list()
    assert kept == [query for query in queries if query.strip()]


@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("separator", [",", ";", "|"])
@settings(max_examples=20)
@given(query=st.text(st.sampled_from("ab ,;|\"'\\é"), min_size=1).filter(str.strip))
def test_whatever_the_standard_library_writes_is_read_back(
    query: str, separator: str, quoting: Any
) -> None:
    line = io.StringIO()
    csv.writer(line, delimiter=separator, quoting=quoting).writerow(
        ["7", "2006-03-01 07:17:12", query]
    )
    parsed = parse(replace(CSV, separator=separator), line.getvalue().encode(), first=2)
    assert parsed.accepted["query"].to_list() == [query]
