import time
from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import LogError
from nextquery.logs.formats.delimited import CsvFormat, DelimitedLayout, TsvFormat
from nextquery.logs.reading.open import Sample
from nextquery.logs.reading.read_logs import read_logs
from nextquery.logs.settings import ReadSettings

COLUMNS = {"user": "who", "time": "when", "query": "what"}


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


def test_columns_by_number_need_no_header() -> None:
    layout = delimited("csv", {"user": "2", "time": "1", "query": "3"}, "2006,7,red,x")
    assert places(layout) == (1, 0, 2, None)
    assert (layout.header, layout.widths) == (None, (4,))


def test_column_number_beyond_the_row_is_refused() -> None:
    with pytest.raises(LogError, match="`columns` has query=9, but its first line has 2 columns"):
        delimited("csv", {"user": "1", "time": "2", "query": "9"}, "a,b")


def test_missing_column_names_those_that_are_there() -> None:
    with pytest.raises(LogError, match="log: has no column 'what'; it has who, when, where"):
        delimited("csv", COLUMNS, "who,when,where")


def test_columns_called_by_their_meaning_need_no_choice() -> None:
    assert places(delimited("csv", None, "query,user,time")) == (1, 2, 0, None)
    assert places(delimited("tsv", None, "query\tuser\ttime\tclick")) == (1, 2, 0, 3)


@pytest.mark.parametrize("layout", [CsvFormat().layout, TsvFormat().layout])
def test_an_empty_file_has_a_layout_that_nothing_is_read_by(layout: Any) -> None:
    assert layout(Sample(Path("log"), ()), ReadSettings(columns=COLUMNS)).widths == (1,)


def test_recognised_by_header_or_by_columns_and_tabs() -> None:
    by_name, by_choice = ReadSettings(), ReadSettings(columns=COLUMNS)
    for first, settings, names in [
        ("user;time;query", by_name, ["csv"]),
        ("user\ttime\tquery", by_name, ["tsv"]),
        ("who,when,what", by_name, []),
        ("who,when,what", by_choice, ["csv"]),
        ("who\twhen\twhat", by_choice, ["tsv"]),
        ('{"who": "a"}', by_choice, []),
    ]:
        sample = Sample(Path("log"), (first,))
        found = [
            each.name for each in (CsvFormat(), TsvFormat()) if each.recognise(sample, settings)
        ]
        assert found == names, first


@pytest.mark.parametrize("number", ["²", "٣", "1" * 5000, "1.0", "-1", "0x1"])
def test_only_ordinary_digits_are_a_number(number: str) -> None:
    with pytest.raises(LogError, match="has no column"):
        delimited("csv", {"user": number, "time": "2", "query": "3"}, "a,b,c")


def test_columns_of_one_name_are_refused() -> None:
    with pytest.raises(LogError, match="has several columns called 'who'"):
        delimited("csv", COLUMNS, "who,when,what,who")


def test_a_header_that_is_no_csv_is_refused() -> None:
    with pytest.raises(LogError, match="its first line is no CSV"):
        delimited("csv", COLUMNS, "who,when\r,what")


@pytest.mark.parametrize("query", ["red", '"red, not blue"', '"red'])
def test_ten_thousand_columns_are_read_in_seconds(tmp_path: Path, query: str) -> None:
    others = 10_000
    header = [f"column {number}" for number in range(others)] + ["user", "time", "query"]
    row = ["x"] * others + ["u", "2006-03-01 07:17:12", query]
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
def test_lines_above_the_header_are_set_aside(
    tmp_path: Path, header: str, choice: dict[str, str] | None, format: str
) -> None:
    separator = next(each for each in ",;\t" if each in header)
    text = PREAMBLE + header + ROWS.replace(",", separator)
    (tmp_path / "log").write_text(text)
    result = read_logs([tmp_path / "log"], ReadSettings(columns=choice), tmp_path / "work")
    assert (result.format, result.rows_accepted) == (format, 2)
    assert result.reasons == {"above the header": 2, "empty line": 1}
    assert "line 4" in result.reason


def test_a_complete_row_above_the_header_is_no_row(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("0,2006-03-01 07:17:12,title\nuser,time,query\n" + ROWS)
    result = read_logs([tmp_path / "log"], ReadSettings(), tmp_path / "work")
    assert (result.rows_accepted, result.reasons) == (2, {"above the header": 1})


def test_a_wrong_choice_is_answered_with_the_names_below_the_preamble(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(PREAMBLE + "who,when,what\n" + ROWS)
    settings = ReadSettings(columns=COLUMNS | {"user": "visitor"})
    with pytest.raises(LogError, match="no column 'visitor'; it has who, when, what: say which"):
        read_logs([tmp_path / "log"], settings, tmp_path / "work")


def test_columns_by_number_look_for_no_header(tmp_path: Path) -> None:
    numbers = {"user": "1", "time": "2", "query": "3"}
    (tmp_path / "log").write_text(ROWS + "1,2006-03-01 07:17:12,3 2\n1,2,3\n")
    settings = ReadSettings(columns=numbers, max_rejected=0.5)
    assert read_logs([tmp_path / "log"], settings, tmp_path / "work").rows_accepted == 3
