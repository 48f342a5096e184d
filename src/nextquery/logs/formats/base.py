"""The interface of a log format, its columns, and clicks that refer to queries by id."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import narwhals as nw
import polars as pl

from nextquery.errors import LogError
from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import BLOCK_BYTES, LineBlock, LogFile, Sample, line_blocks
from nextquery.logs.reading.rows import CANONICAL, Layout, ParsedRows, describe_rejected, with_owner
from nextquery.logs.settings import Condition, ReadSettings


@dataclass(frozen=True)
class FileBlock:
    """Some consecutive rows of one file, still to be parsed."""

    rows: int
    position: int
    """How many bytes of the file on disk have been read with it."""
    parse: Callable[[], ParsedRows]


class LogFormat(ABC):
    """A format of raw logs. A new one is a file with a subclass, and a row in `FORMATS`."""

    name: ClassVar[str]
    takes_columns: ClassVar[bool] = False
    """Whether the setting `columns` says where the fields are."""
    takes_where: ClassVar[bool] = False
    """Whether the setting `where` can name columns of the log."""
    takes_parameter: ClassVar[bool] = False
    """Whether the setting `parameter` says which parameter of an address is the query."""

    # Both are called with files that are not empty.

    @abstractmethod
    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Why a file has this format, as a clause; None if it does not."""

    @abstractmethod
    def blocks(self, file: LogFile, sample: Sample, settings: ReadSettings) -> Iterator[FileBlock]:
        """The whole file in blocks that fit in memory many times over."""


class LineFormat(LogFormat):
    """A format in which every row is a line of text, so that lines can be parsed anywhere."""

    @abstractmethod
    def layout(self, sample: Sample, settings: ReadSettings) -> Layout:
        """Where the fields of this file's lines are."""

    def blocks(self, file: LogFile, sample: Sample, settings: ReadSettings) -> Iterator[FileBlock]:
        """The lines of the file."""
        parse = partial(self.layout(sample, settings).parse, settings.time_zone)
        return read_line_blocks(file, parse, settings.encoding)


class JoinedRows(NamedTuple):
    """The number of rows that a join wrote, and the staged rows that it left out."""

    written: int
    rejected: pl.DataFrame
    """file, line, place, reason, excerpt, user, time"""


class JoinedFormat(LogFormat):
    """A format of queries and clicks in separate rows: they are staged first, then joined."""

    def join(self, engine: Engine, staged: Path, rows: Path) -> JoinedRows:
        """Write the rows of the folder `staged`, joined, into the folder `rows`."""
        return join_clicks(engine, staged, rows)


def read_line_blocks(
    file: LogFile, parse: Callable[[LineBlock], ParsedRows], encoding: str
) -> Iterator[FileBlock]:
    """A text file, plain or compressed, in blocks of whole lines."""
    for block in line_blocks(file.text(BLOCK_BYTES, encoding)):
        yield FileBlock(block.count, file.position(), partial(parse, block))


_USUAL = {
    "user": "user userid visitor visitorid client clientid uid anonid idvisitor sessionid session "
    "who",
    "time": "time timestamp datetime date eventtime servertime querytime createdat dateandtime "
    "searchtime ts when",
    "query": "query q searchterm searchquery userquery keyword keywords term search searchphrase "
    "what",
}
"""How the columns of a log are often called, the likeliest first."""
REQUIRED = ("user", "time", "query")
_AOL_NAMES = {"anonid": "user", "querytime": "time"}
FIELDS = (*REQUIRED, "click")


def check_columns(columns: Mapping[str, str]) -> None:
    """Refuse columns that lack a field or name one that there is not."""
    missing = [name for name in REQUIRED if not columns.get(name)]
    unknown = sorted(columns.keys() - set(FIELDS))
    if missing or unknown:
        wrong = f"lacks {', '.join(missing)}" if missing else f"has no field {', '.join(unknown)}"
        raise LogError(f"`columns` {wrong}; write user=...,time=...,query=...[,click=...]")


def find_columns(
    file: Path, columns: Mapping[str, str] | None, names: Sequence[str]
) -> dict[str, str]:
    """The name of each wanted column; without a choice, columns called user, time and query.

    >>> find_columns(Path("log.csv"), None, ["Time", "user", "query", "page"])
    {'user': 'user', 'time': 'Time', 'query': 'query'}
    """
    written = {name.strip().casefold(): name for name in reversed(names)}
    names_by_field = (
        dict(columns) if columns else {name: written.get(name, name) for name in REQUIRED}
    )
    if columns is None and "click" in written:
        names_by_field["click"] = written["click"]
    missing = [name for name in names_by_field.values() if name not in names]
    if missing:
        likely = ",".join(f"{field}={name}" for field, name in guess_columns(names).items())
        raise LogError(
            f"{file}: has no column {', '.join(map(repr, missing))}; it has "
            f"{listed(names)}: say which with `columns={likely or 'user=...,time=...,query=...'}`"
        )
    twice = sorted({name for name in names_by_field.values() if names.count(name) > 1})
    if twice:
        raise LogError(f"{file}: has several columns called {', '.join(map(repr, twice))}")
    return names_by_field


def check_conditions(file: Path, conditions: Sequence[Condition], names: Sequence[str]) -> None:
    """Refuse conditions on columns that the file does not have."""
    for condition in conditions:
        if condition.column not in names:
            raise LogError(
                f"{file}: `where` names the column {condition.column!r}; it has {listed(names)}"
            )


def filtered(conditions: Sequence[tuple[Condition, pl.Expr]]) -> pl.Expr:
    """The reason of rows that fail one of the conditions on these values; null for the others."""
    fails = [
        (value.str.strip_chars().fill_null("") == condition.value) != condition.equal
        for condition, value in conditions
    ]
    return pl.when(pl.any_horizontal(fails)).then(pl.lit(rejects.FILTERED))


def in_other_order(header: str, expected: Sequence[str]) -> bool:
    """Whether a line between tabs names the fields of a format without a header, in another order.

    >>> in_other_order("Query\\tAnonID\\tQueryTime", ("user", "query", "time"))
    True
    >>> in_other_order("7\\tred shoes\\t2006-03-01 07:17:12", ("user", "query", "time"))
    False
    """
    plain = [name.strip('" ').casefold() for name in header.split("\t")]
    names = [_AOL_NAMES.get(name, name) for name in plain]
    return set(names) >= set(expected) and names[: len(expected)] != list(expected)


def guess_columns(names: Sequence[str]) -> dict[str, str]:
    """The columns that may be user, time and query by their names; none unless all three are found.

    >>> guess_columns(["Visitor ID", "created_at", "search term", "results"])
    {'user': 'Visitor ID', 'time': 'created_at', 'query': 'search term'}
    >>> guess_columns(["a", "b", "c"])
    {}
    """
    plain = {"".join(filter(str.isalnum, name.casefold())): name for name in reversed(names)}
    columns = {}
    for field, usual in _USUAL.items():
        name = next((name for name in usual.split() if name in plain), None)
        if name is None:
            return {}
        columns[field] = plain[name]
    return columns


def listed(names: Sequence[str]) -> str:
    """The first names of a header, for a message."""
    start = [name[:60] for name in names[:20]]
    shown = ", ".join(name if name.isprintable() else repr(name) for name in start)
    return shown if len(names) <= 20 else f"{shown} and {len(names) - 20} more"


STAGED_COLUMNS = (*CANONICAL, "query_id", "file", "line")
"""Staged rows also keep where they stood, to be named if their query is unknown."""
_STAGED_FIELDS = ("line", "user", "query", "query_id", "click", "time")
_LONGEST_TEXT = 4000
"""Characters of a field that are staged: the join holds thousands of rows at once, and a query a
quarter as long is dropped for its length."""

_JOINED = pl.Schema(
    {
        "user": pl.String(),
        "time": pl.Datetime("us"),
        "query": pl.String(),
        "click": pl.String(),
        "place": pl.Int64(),
        "row": pl.Int64(),
    }
)


def stage(queries: ParsedRows, clicks: pl.DataFrame) -> ParsedRows:
    """Queries and clicks in one table: accepted queries, and clicks without a `reason`, staged."""
    is_sound = pl.col("reason").is_null()
    staged = [stage_queries(queries.accepted), stage_clicks(clicks.filter(is_sound))]
    rejected = [queries.rejected, describe_rejected(clicks.filter(~is_sound))]
    return ParsedRows(pl.concat(staged).sort("line"), pl.concat(rejected).sort("line"))


def stage_queries(queries: pl.DataFrame) -> pl.DataFrame:
    """Accepted rows of queries as they are staged."""
    return queries.select(_STAGED_FIELDS).with_columns(pl.col(pl.String).str.head(_LONGEST_TEXT))


def stage_clicks(clicks: pl.DataFrame) -> pl.DataFrame:
    """Rows of clicks (line, query_id, click) as they are staged: without text.

    User and time, where they are known, serve only to find rows again that could not be joined.
    """
    return stage_queries(with_owner(clicks).with_columns(query=pl.lit(None, pl.String)))


def join_clicks(
    engine: Engine,
    staged: Path,
    rows: Path,
    find_typed: Callable[[Engine, Frame, Frame], Frame] | None = None,
) -> JoinedRows:
    """Write the staged queries, each followed by its clicks.

    `find_typed` finds, among queries and clicks, the queries (`row`) that the visitor was still
    typing, which are rejected. A `query_id` that was logged twice (for a second page of results,
    say) has its clicks on the first.
    """
    all_rows = engine.scan(staged)
    queries = all_rows.filter(nw.col("click").is_null())
    clicks = all_rows.filter(~nw.col("click").is_null())
    rejected = []
    if find_typed:
        typed = find_typed(engine, queries, clicks).select("row")
        rejected.append(_reject(queries.join(typed, on="row", how="semi"), rejects.TYPED_FURTHER))
        queries = queries.join(typed, on="row", how="anti")
    first = queries.filter(
        ~nw.col("query_id").is_null(), nw.col("row") == nw.col("row").min().over("query_id")
    )
    searches = first.select("query_id", "user", "time", "query", query_row=nw.col("row"))
    clicked = clicks.select("query_id", "click", place=nw.col("row")).join(
        searches, on="query_id", how="inner"
    )
    columns = ("user", "time", "query", "click", "place", "query_row", "is_click")
    asked = queries.with_columns(
        place=nw.col("row"), query_row=nw.col("row"), is_click=nw.lit(0, nw.Int64)
    )
    joined = nw.concat(
        [asked.select(columns), clicked.with_columns(is_click=nw.lit(1, nw.Int64)).select(columns)]
    )
    number = nw.col("place").cum_count().over(order_by=["query_row", "is_click", "place"])
    numbered = joined.with_columns(row=number.cast(nw.Int64))
    written = engine.write(numbered, rows / "part-00000.parquet", _JOINED, ["row"])
    unknown = clicks.join(searches.select("query_id"), on="query_id", how="anti")
    rejected.append(_reject(unknown, rejects.UNKNOWN_QUERY))
    return JoinedRows(written, pl.concat(rejected).sort("place"))


def _reject(rows: Frame, reason: str) -> pl.DataFrame:
    """Staged rows as rejected rows; a click has no text but its `query_id`."""
    shown = "query_id" if reason == rejects.UNKNOWN_QUERY else "query"
    excerpt = nw.col(shown).str.head(60)
    chosen = rows.select("file", "line", "user", "time", place=nw.col("row"), excerpt=excerpt)
    rejected: pl.DataFrame = chosen.collect("polars").to_native()
    return rejected.with_columns(reason=pl.lit(reason))
