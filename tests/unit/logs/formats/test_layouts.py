from pathlib import Path

import pytest

from nextquery.errors import LogError
from nextquery.logs.formats.delimited import AOL, DelimitedLayout
from nextquery.logs.formats.detection import Sample
from nextquery.logs.formats.layouts import check_columns, find_columns, layout_of

COLUMNS = {"user": "who", "time": "when", "query": "what"}


def sample(*lines: str) -> Sample:
    return Sample(Path("log"), False, lines)


def delimited(format: str, columns: dict[str, str] | None, first: str) -> DelimitedLayout:
    layout = layout_of(format, columns, sample(first))
    assert isinstance(layout, DelimitedLayout)
    return layout


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


def test_columns_by_number_need_no_header() -> None:
    layout = delimited("csv", {"user": "2", "time": "1", "query": "3"}, "2006,7,red,x")
    assert places(layout) == (1, 0, 2, None)
    assert (layout.header, layout.widths) == (None, (4,))


def test_column_number_beyond_the_row_is_refused() -> None:
    with pytest.raises(LogError, match="`columns` query=9, but its first line has 2 columns"):
        delimited("csv", {"user": "1", "time": "2", "query": "9"}, "a,b")


def test_missing_column_names_those_that_are_there() -> None:
    with pytest.raises(LogError, match="log: has no column 'what'; it has who, when, where"):
        delimited("csv", COLUMNS, "who,when,where")


def test_columns_called_by_their_meaning_need_no_choice() -> None:
    assert places(delimited("csv", None, "query,user,time")) == (1, 2, 0, None)
    assert places(delimited("tsv", None, "query\tuser\ttime\tclick")) == (1, 2, 0, 3)
    assert find_columns(Path("log"), None, ["user", "time", "query"]).keys() == {
        "user",
        "time",
        "query",
    }


def test_aol_header_is_known_in_any_case() -> None:
    assert AOL.header is not None
    assert delimited("aol", None, AOL.header.upper()).header == AOL.header.upper()
    assert delimited("aol", None, "7\tred\t2006-03-01 07:17:12").header == AOL.header


@pytest.mark.parametrize(
    ("format", "columns", "message"),
    [
        ("yahoo", None, "format 'yahoo' is unknown; choose auto, aol, ubi"),
        ("aol", COLUMNS, "aol has columns of its own"),
        ("csv", {"user": "who"}, "`columns` lacks time, query"),
        ("auto", COLUMNS | {"page": "p"}, "`columns` knows no page"),
        ("ndjson", COLUMNS | {"query": 'a"b'}, "may not hold a double quote"),
    ],
)
def test_wrong_choices_are_refused(
    format: str, columns: dict[str, str] | None, message: str
) -> None:
    with pytest.raises(LogError, match=message):
        check_columns(format, columns)
