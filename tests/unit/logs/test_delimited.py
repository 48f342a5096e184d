"""CSV, TSV, AOL and Excite: uniform blocks give the rows that single lines give."""

import csv
import io
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nextquery.errors import LogError
from nextquery.logs.formats.base import LogFormat
from nextquery.logs.formats.delimited import (
    AOL_LAYOUT,
    EXCITE_LAYOUT,
    HEADER,
    AolFormat,
    CsvFormat,
    DelimitedLayout,
    ExciteFormat,
    HeaderLine,
    TsvFormat,
    likely_header,
    split_uniform,
)
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import LONGEST_LINE, LineBlock, Sample
from nextquery.logs.reading.read_logs import read_logs
from nextquery.logs.reading.rows import Layout, parse_lines
from nextquery.logs.settings import ReadSettings

from .conftest import parse_texts

CSV = DelimitedLayout(
    separator=",", widths=(3,), user=0, time=1, query=2, click=None, header="u,t,q", quoted=True
)
GOOD = b"7\tred shoes\t2006-03-01 07:17:12\t1\thttp://a.example"
LONGEST = b"7\tred\t2006-03-01 07:17:12\t1\t".ljust(LONGEST_LINE, b"x")


def reason(layout: Layout, text: bytes) -> str | None:
    parsed = parse_texts(layout, text, first=2)
    assert len(parsed.accepted) + len(parsed.rejected) == 1
    return None if len(parsed.accepted) else str(parsed.rejected["reason"][0])


@pytest.mark.parametrize(
    ("layout", "text", "expected"),
    [
        (AOL_LAYOUT, b"7\tred\xff shoes\t2006-03-01 07:17:12\t\t", rejects.MALFORMED_TEXT),
        (AOL_LAYOUT, b"7\tred\0 shoes\t2006-03-01 07:17:12\t\t", rejects.NUL_BYTE),
        (AOL_LAYOUT, LONGEST + b"x", rejects.TOO_LONG),
        (AOL_LAYOUT, LONGEST + b"\n", None),
        (AOL_LAYOUT, b"", rejects.EMPTY_LINE),
        (AOL_LAYOUT, b"\r\n", rejects.EMPTY_LINE),
        (AOL_LAYOUT, HEADER.encode(), rejects.REPEATED_HEADER),
        (AOL_LAYOUT, b"7\tred\t2006-03-01 07:17:12\t1", rejects.WRONG_COLUMNS),
        (AOL_LAYOUT, GOOD + b"\tmore", rejects.WRONG_COLUMNS),
        (AOL_LAYOUT, GOOD + b"\tmore\tand more", rejects.WRONG_COLUMNS),
        (AOL_LAYOUT, b"red shoes", rejects.WRONG_COLUMNS),
        (AOL_LAYOUT, b" \tred\t2006-03-01 07:17:12\t\t", rejects.NO_USER),
        (AOL_LAYOUT, b"7\tred\t\t\t", rejects.NO_TIME),
        (AOL_LAYOUT, b"7\tred\tyesterday\t\t", "time not understood"),
        (AOL_LAYOUT, b"7\t \t2006-03-01 07:17:12\t\t", rejects.EMPTY_QUERY),
        (AOL_LAYOUT, GOOD, None),
        (EXCITE_LAYOUT, b"A1\t970916105432\t", rejects.EMPTY_QUERY),
        (EXCITE_LAYOUT, b"A1\t970916105432", rejects.WRONG_COLUMNS),
        (EXCITE_LAYOUT, b"A1\t971316105432\tred", "time not understood"),
        (CSV, b'7,2006-03-01 07:17:12,"red', rejects.BAD_QUOTES),
        (CSV, b'7,2006-03-01 07:17:12,"red" shoes', rejects.BAD_QUOTES),
        (CSV, b'7,2006-03-01 07:17:12,"red",more', rejects.WRONG_COLUMNS),
        (CSV, b'"7",2006-03-01 07:17:12', rejects.WRONG_COLUMNS),
        (CSV, b'7,2006-03-01 07:17:12,""', rejects.EMPTY_QUERY),
    ],
)
def test_every_fault_of_a_row_has_its_reason(
    layout: Layout, text: bytes, expected: str | None
) -> None:
    assert reason(layout, text) == expected


def test_an_excite_time_has_twelve_digits() -> None:
    (row,) = parse_texts(EXCITE_LAYOUT, b"A1\t970916105432\tred shoes").accepted.rows(named=True)
    assert row["time"] == datetime(1997, 9, 16, 10, 54, 32)


def test_excerpt_of_a_malformed_row_is_safe_to_print() -> None:
    excerpt = parse_texts(AOL_LAYOUT, b"7\tcaf\xe9\x1b[31m\tx\t\t").rejected["excerpt"][0]
    assert excerpt == "7\tcaf\ufffd\ufffd[31m\tx\t\t"


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
    assert parse_texts(CSV, text, first=2).accepted["query"].to_list() == [query]


def test_an_open_quote_takes_no_other_row_with_it() -> None:
    good = b"7,2006-03-01 07:17:12,red"
    parsed = parse_texts(CSV, b'7,2006-03-01 07:17:12,"red', good, b'7,x,"y"', good, first=2)
    assert parsed.accepted["line"].to_list() == [3, 5]
    assert parsed.rejected["line"].to_list() == [2, 4]


FIELD = st.text(st.sampled_from('ab,"\t\0é \r'), max_size=6)


@pytest.mark.slow
@settings(max_examples=50)
@given(
    st.lists(st.lists(FIELD, max_size=7).map("\t".join).map(str.encode) | st.binary(max_size=20))
)
@pytest.mark.parametrize("layout", [AOL_LAYOUT, EXCITE_LAYOUT, CSV, replace(CSV, separator="\t")])
def test_every_line_is_accepted_or_rejected_once(layout: Layout, texts: list[bytes]) -> None:
    whole = [text.replace(b"\n", b"") for text in texts]
    parsed = parse_texts(layout, *whole)
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
    kept = parse_texts(AOL_LAYOUT, *texts).accepted["query"].to_list()
    assert kept == [query for query in queries if query.strip()]


@pytest.mark.slow
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
    parsed = parse_texts(replace(CSV, separator=separator), line.getvalue().encode(), first=2)
    assert parsed.accepted["query"].to_list() == [query]


TIME = "2006-03-01 07:17:12"
CSV_LAYOUT = DelimitedLayout(",", (3,), user=0, time=1, query=2, click=None, quoted=True)


def _block(*lines: str | bytes, first: int = 1) -> LineBlock:
    data = b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
    return LineBlock(first, len(lines), data)


def _same(layout: DelimitedLayout, block: LineBlock) -> None:
    by_block = layout.parse("UTC", block)
    by_line = parse_lines(layout, block.frame())
    assert by_block.accepted.select("line", "user", "time", "query", "click").equals(
        by_line.accepted.select("line", "user", "time", "query", "click")
    )
    assert by_block.rejected.equals(by_line.rejected)


_FIELD = st.text(st.sampled_from('a7é "\u3000#,'), max_size=3)
_TIMES = st.sampled_from(
    [TIME, "2006-03-01T07:17Z", "1141197432", "soon", "", "1970-01-01 00:00:00"]
)
_ROWS = st.tuples(_FIELD, _FIELD, _TIMES, _FIELD, _FIELD).map("\t".join)
_HEADERS = st.just("AnonID\tQuery\tQueryTime\tItemRank\tClickURL")


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.one_of(_ROWS, _ROWS, _ROWS, _HEADERS), min_size=1, max_size=6), st.integers(1, 9)
)
@example(["\t\t\t\t"], 1)
def test_rows_of_one_width_are_those_of_single_lines(lines: list[str], first: int) -> None:
    block = _block(*lines, first=first)
    assert split_uniform(AOL_LAYOUT, block) is not None
    _same(AOL_LAYOUT, block)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(st.sampled_from("a7\t\r\0é"), max_size=9), min_size=1, max_size=5))
@example([f"1\ta\t{TIME}\t\t\t", f"2\tb\t{TIME}\t"])  # as many separators as two good lines have
@example([f"2\tb\t{TIME}\t", f"1\ta\t{TIME}\t\t\t"])
@example([f"1\ta\t{TIME}", f"2\tb\t{TIME}"])
def test_any_lines_are_parsed_as_single_lines(lines: list[str]) -> None:
    _same(AOL_LAYOUT, _block(*lines))


def test_other_layouts_are_split_too() -> None:
    excite = _block("A\t970916105432\tred shoes", "B\t970916\tblue")
    assert split_uniform(EXCITE_LAYOUT, excite) is not None
    _same(EXCITE_LAYOUT, excite)
    bare, quoted = _block(f"1,{TIME},red"), _block(f'1,{TIME},"red, blue"')
    assert split_uniform(CSV_LAYOUT, bare) is not None
    assert split_uniform(CSV_LAYOUT, quoted) is None
    _same(CSV_LAYOUT, bare)
    _same(CSV_LAYOUT, quoted)


@pytest.mark.parametrize("odd", [b"\xff", b"\0", b"\r", b"\t"])
def test_odd_bytes_are_not_uniform_wherever_they_stand(odd: bytes) -> None:
    rank = _block(f"1\tred\t{TIME}\t".encode() + odd + b"\thttp://a.example")
    assert split_uniform(AOL_LAYOUT, rank) is None
    _same(AOL_LAYOUT, rank)


@pytest.mark.parametrize(("length", "uniform"), [(LONGEST_LINE + 1, False), (1000, True)])
def test_a_line_that_is_too_long_is_not_uniform(length: int, uniform: bool) -> None:
    short = f"1\tred\t{TIME}\t\t"
    long = f"2\t{'x' * (length - len(short) + 3)}\t{TIME}\t\t"
    assert len(long) == length
    block = _block(short, long, short)
    assert (split_uniform(AOL_LAYOUT, block) is not None) == uniform
    _same(AOL_LAYOUT, block)


BELOW = ("7,red shoes,2024-03-01 10:00:00", "7,blue shoes,2024-03-01 10:01:00")


@pytest.mark.parametrize(
    ("above", "index"),
    [
        ((), 0),
        (("# Site search", "# From 1 March", ""), 3),
        (("Report, made on Monday", "All times local"), 2),
        (("",) * 29, 29),
    ],
)
@pytest.mark.parametrize("separator", ["\t", ",", ";", "|"])
def test_the_header_is_found_below_a_preamble(
    above: tuple[str, ...], index: int, separator: str
) -> None:
    lines = [line.replace(",", separator) for line in ("who,what,when", *BELOW)]
    assert likely_header((*above, *lines)) == HeaderLine(index, ("who", "what", "when"))


@pytest.mark.parametrize(
    "lines",
    [
        (),
        ("red shoes",),
        ("who,what,when",),
        BELOW,
        ("who,who,when", *BELOW),
        ("one,two", "1,2"),
        ("red,green,blue", "apple,pear,plum"),
        (*("",) * 30, "who,what,when", *BELOW),
        ('"who,what,when', *BELOW),
    ],
)
def test_what_has_no_rows_of_its_width_is_not_a_header(lines: tuple[str, ...]) -> None:
    assert likely_header(lines) is None


COLUMNS = {"user": "who", "time": "when", "query": "what"}
NUMBERS = {"user": "1", "time": "2", "query": "3"}


def delimited(format: str, columns: dict[str, str] | None, first: str) -> DelimitedLayout:
    chosen = CsvFormat() if format == "csv" else TsvFormat()
    return chosen.layout(Sample(Path("log"), (first,)), ReadSettings(columns=columns))


def places(layout: DelimitedLayout) -> tuple[int, int, int, int | None]:
    return layout.user, layout.time, layout.query, layout.click


@pytest.mark.parametrize("separator", [",", ";", "|"])
def test_csv_columns_by_name_with_the_separator_of_the_header(separator: str) -> None:
    first = separator.join(["id", "when", '"what"', "who"])
    layout = delimited("csv", COLUMNS, first)
    assert places(layout) == (3, 1, 2, None)
    assert (layout.separator, layout.widths, layout.header) == (separator, (4,), first)


def test_tsv_quotes_are_part_of_a_name() -> None:
    layout = delimited("tsv", COLUMNS | {"click": '"url"'}, 'what\twho\twhen\t"url"')
    assert places(layout) == (1, 2, 0, 3)
    assert not layout.quoted


NOT_NUMBERS = ("\u00b2", "\u0663", "1" * 5000, "1.0", "-1", "0x1")


@pytest.mark.parametrize(
    ("columns", "header", "message"),
    [
        ({"user": "1", "time": "2", "query": "9"}, "a,b", "query=9, but its first line has 2 col"),
        (COLUMNS, "who,when,what,who", "has several columns called 'who'"),
        (COLUMNS, "who,when\r,what", "its first line is not CSV"),
        *(
            ({"user": text, "time": "2", "query": "3"}, "a,b,c", "has no col")
            for text in NOT_NUMBERS
        ),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    columns: dict[str, str], header: str, message: str
) -> None:
    with pytest.raises(LogError, match=message):
        delimited("csv", columns, header)


@pytest.mark.parametrize("query", ["red", '"red, not blue"', '"red'])
def test_ten_thousand_columns_are_read_in_seconds(tmp_path: Path, query: str) -> None:
    rest = 10_000
    header = [f"column {number}" for number in range(rest)] + ["user", "time", "query"]
    row = ["x"] * rest + ["u", "2006-03-01 07:17:12", query]
    good = [*row[:-1], "blue"]
    lines = [header, *[row, good] * 25, ["too", "few"]]
    path = tmp_path / "log.csv"
    path.write_text("".join(",".join(line) + "\n" for line in lines))
    started = time.process_time()
    result = read_logs([path], ReadSettings(max_rejected=1.0), tmp_path / "work")
    assert time.process_time() - started < 10
    assert result.rows_read == 51
    assert result.rows_accepted == (25 if query == '"red' else 50)


PREAMBLE = "Site search\n\n# 1 to 31 March, all visitors\n"
ROWS = "7,2006-03-01 07:17:12,red\n8,2006-03-01 07:18:12,blue\n"


@pytest.mark.parametrize(
    ("header", "choice", "format"),
    [
        ("user,time,query\n", None, "csv"),
        ("who,when,what\n", COLUMNS, "csv"),
        ('"user";"time";"query"\n', None, "csv"),
        ("user\ttime\tquery\n", None, "tsv"),
    ],
)
def test_lines_above_the_header_are_excluded(
    tmp_path: Path, header: str, choice: dict[str, str] | None, format: str
) -> None:
    separator = next(item for item in ",;\t" if item in header)
    text = PREAMBLE + header + ROWS.replace(",", separator)
    (tmp_path / "log").write_text(text)
    result = read_logs([tmp_path / "log"], ReadSettings(columns=choice), tmp_path / "work")
    assert (result.format, result.rows_accepted) == (format, 2)
    assert result.reasons == {"above the header": 2, "empty line": 1}
    assert "line 4" in result.reason


def test_a_complete_row_above_the_header_is_not_a_row(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("0,2006-03-01 07:17:12,title\nuser,time,query\n" + ROWS)
    result = read_logs([tmp_path / "log"], ReadSettings(), tmp_path / "work")
    assert (result.rows_accepted, result.reasons) == (2, {"above the header": 1})


def test_a_wrong_choice_is_answered_with_the_names_below_the_preamble(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(PREAMBLE + "who,when,what\n" + ROWS)
    settings = ReadSettings(columns=COLUMNS | {"user": "visitor"})
    with pytest.raises(LogError, match="no column 'visitor'; it has who, when, what: say which"):
        read_logs([tmp_path / "log"], settings, tmp_path / "work")


def test_columns_by_number_look_for_no_header(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(ROWS + "1,2006-03-01 07:17:12,3 2\n1,2,3\n")
    settings = ReadSettings(columns=NUMBERS, max_rejected=0.5)
    assert read_logs([tmp_path / "log"], settings, tmp_path / "work").rows_accepted == 3


EXCITE_ROW = "A1\t970916105432\tred shoes"


@pytest.mark.parametrize(
    ("log_format", "lines", "columns", "expected"),
    [
        (ExciteFormat(), (EXCITE_ROW,), None, True),
        (ExciteFormat(), (EXCITE_ROW, EXCITE_ROW, "broken"), None, True),
        (ExciteFormat(), (EXCITE_ROW, "broken"), None, False),
        (ExciteFormat(), ("A1\t19970916105432\tred",), None, False),
        (ExciteFormat(), (EXCITE_ROW + "\tmore",), None, False),
        (ExciteFormat(), (EXCITE_ROW,), NUMBERS, False),
        (AolFormat(), (HEADER,), None, True),
        (AolFormat(), (HEADER,), NUMBERS, False),
    ],
)
def test_a_format_is_recognised_by_most_lines_unless_columns_are_chosen(
    log_format: LogFormat,
    lines: tuple[str, ...],
    columns: dict[str, str] | None,
    expected: bool,
) -> None:
    reason = log_format.recognise(Sample(Path("log"), lines), ReadSettings(columns=columns))
    assert (reason is not None) == expected
