"""A line format reads whole files in blocks, whatever their size and compression."""

import gzip
from datetime import datetime
from importlib import import_module
from pathlib import Path

import narwhals as nw
import polars as pl
import pytest

import nextquery.logs.formats
from nextquery.errors import LogError
from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.engines.open import open_engine
from nextquery.logs.formats import base
from nextquery.logs.formats.base import (
    STAGED_COLUMNS,
    LogFormat,
    check_columns,
    find_columns,
    join_clicks,
    read_line_blocks,
    stage_clicks,
)
from nextquery.logs.formats.delimited import EXCITE_LAYOUT
from nextquery.logs.formats.table import FORMATS, format_named
from nextquery.logs.reading import rejects
from nextquery.logs.reading.lines import LineBlock
from nextquery.logs.reading.open import LogFile
from nextquery.logs.reading.rows import ParsedRows, parse_lines
from nextquery.logs.settings import FORMAT_NAMES

ROWS = b"".join(b"u\t970916105432\tquery %d\n" % number for number in range(50))


def _parse(block: LineBlock) -> ParsedRows:
    return parse_lines(EXCITE_LAYOUT, block.frame())


@pytest.mark.parametrize("packed", [False, True])
def test_blocks_hold_all_rows_and_say_how_far_they_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setattr(base, "BLOCK_BYTES", 200)
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(ROWS) if packed else ROWS)
    with LogFile(path) as file:
        blocks = list(read_line_blocks(file, _parse))
    assert len(blocks) > 3
    assert sum(block.rows for block in blocks) == 50
    assert blocks[-1].position == path.stat().st_size
    queries = [text for block in blocks for text in block.parse().accepted["query"]]
    assert queries == [f"query {number}" for number in range(50)]


TEN = datetime(2025, 2, 18, 10)


def find_re(engine: Engine, queries: Frame, clicks: Frame) -> Frame:
    return queries.filter(nw.col("query") == "re")


@pytest.mark.parametrize("name", ["polars", "duckdb"])
def test_clicks_follow_their_query_and_what_is_left_out_is_named(tmp_path: Path, name: str) -> None:
    rows = [
        (None, None, None, "x", 1, "a", "log", 1),
        ("u", TEN, "re", None, 2, None, "log", 2),
        ("u", TEN, "red", None, 3, "a", "log", 3),
        (None, None, None, "x", 4, "b", "log", 4),
    ]
    schema: dict[str, pl.DataType] = dict.fromkeys(STAGED_COLUMNS, pl.String())
    frame = pl.DataFrame(
        rows,
        schema | {"time": pl.Datetime("us"), "row": pl.Int64(), "line": pl.Int64()},
        orient="row",
    )
    staged, joined = tmp_path / "it's staged", tmp_path / "rows"
    staged.mkdir()
    joined.mkdir()
    frame.write_parquet(staged / "part-00000.parquet")
    engine = open_engine(name, tmp_path / "work")
    done = join_clicks(engine, staged, joined, find_re)
    engine.close()
    assert done.written == 2
    assert done.rejected.select("file", "line", "reason", "excerpt").rows() == [
        ("log", 2, rejects.TYPED_FURTHER, "re"),
        ("log", 4, rejects.UNKNOWN_QUERY, "b"),
    ]
    written = pl.read_parquet(joined)
    assert written.select("query", "click").rows() == [("red", None), ("red", "x")]
    assert written.select("row", "place").rows() == [(1, 3), (2, 1)]


def test_a_staged_click_has_no_text_of_its_own() -> None:
    clicks = pl.DataFrame({"line": [1], "query_id": ["a"], "click": ["x"], "reason": [None]})
    assert stage_clicks(clicks).rows() == [(1, None, None, "a", "x", None)]


def test_long_texts_are_cut_before_they_are_joined() -> None:
    click = {"line": 1, "query_id": "q" * 9000, "click": "x" * 9000}
    [row] = stage_clicks(pl.DataFrame([click])).rows(named=True)
    assert (len(row["query_id"]), len(row["click"]), row["query"]) == (4000, 4000, None)


FOLDER = Path(next(iter(nextquery.logs.formats.__path__)))


def test_every_format_of_the_folder_is_in_the_table() -> None:
    found = set()
    for file in FOLDER.rglob("*.py"):
        name = ".".join(file.relative_to(FOLDER).with_suffix("").parts)
        module = import_module(f"nextquery.logs.formats.{name}")
        classes = [each for each in vars(module).values() if isinstance(each, type)]
        found |= {each for each in classes if issubclass(each, LogFormat) and hasattr(each, "name")}
    assert {type(each) for each in FORMATS.values()} == found


def test_help_names_every_format_once() -> None:
    assert sorted(FORMAT_NAMES) == sorted(FORMATS)


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LogError, match="'auto' is unknown; choose auto, access, algolia, aol"):
        format_named("auto")


COLUMNS = {"user": "who", "time": "when", "query": "what"}


def test_columns_called_by_their_meaning_need_no_choice() -> None:
    plain = {"user": "user", "time": "time", "query": "query"}
    assert find_columns(Path("log"), None, ["query", "time", "user"]) == plain
    with_click = find_columns(Path("log"), None, ["query", "time", "user", "click"])
    assert with_click == plain | {"click": "click"}


def test_chosen_columns_are_looked_for() -> None:
    assert find_columns(Path("log"), COLUMNS, ["what", "when", "who"]) == COLUMNS
    with pytest.raises(LogError, match="log: has no column 'what'; it has who, when: say which"):
        find_columns(Path("log"), COLUMNS, ["who", "when"])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "lacks user, time, query"),
        (COLUMNS | {"query": ""}, "lacks query"),
        (COLUMNS | {"page": "p", "rank": "r"}, "knows no page, rank"),
    ],
)
def test_incomplete_or_unknown_fields_are_refused(columns: dict[str, str], message: str) -> None:
    with pytest.raises(LogError, match=f"`columns` {message}; write user="):
        check_columns(columns)
    check_columns(COLUMNS)
    check_columns(COLUMNS | {"click": "url"})
