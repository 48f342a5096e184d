"""Parquet logs: batches of typed columns become accepted and rejected rows.

The columns may be text, bytes, numbers or times; the row number is used as line number. Repeated
texts share their bytes until a batch of bounded size is cut off, so that a small file that unpacks
to a large one takes no more memory than any other.

Column names and sizes are read from the footer, because Polars does not report them. The sizes show
before anything is unpacked whether a small file would unpack to a huge one. The footer is a Thrift
struct in the compact protocol, https://thrift.apache.org/docs/idl.
"""

import base64
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import polars as pl

from nextquery.errors import LogError
from nextquery.logs.formats.base import (
    FileBlock,
    LogFormat,
    check_conditions,
    filtered,
    find_columns,
)
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import BLOCK_BYTES, LONGEST_LINE, LogFile, Sample, check_file
from nextquery.logs.reading.rows import ParsedRows, cast_to_text, validate_rows
from nextquery.logs.reading.times import parse_times, resolve_times
from nextquery.logs.settings import Condition, ReadSettings

PARQUET_MAGIC = b"PAR1"
_LARGEST_FOOTER = 64 << 20
_DEEPEST = 16
"""Levels of nested structs; the footers of Parquet have six."""
_BOOLEANS, _BYTE, _INTEGERS, _DOUBLE, _BYTES, _LISTS, _MAP, _STRUCT = (
    (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 11, 12,
)  # fmt: skip
# The numbers of fields in parquet.thrift.
_SCHEMA, _ROWS, _GROUPS = 2, 3, 4
_NAME, _CHILDREN = 4, 5
_GROUP_COLUMNS, _GROUP_ROWS = 1, 3
_CHUNK_META = 3
_PATH, _UNPACKED, _PACKED = 3, 6, 7


class ColumnChunk(NamedTuple):
    """A column of a row group: its path, rows, and bytes before and after compression."""

    path: str
    rows: int
    unpacked: int
    packed: int


class Footer(NamedTuple):
    """What a Parquet file says of itself."""

    names: list[str]
    """Of the top-level columns."""
    rows: int
    groups: list[list[ColumnChunk]]
    """The columns of each row group."""


def read_footer(path: Path) -> Footer:
    """Read the footer of a file; a damaged one raises `ValueError`."""
    _, data = _read_end(path)
    try:
        return _footer(_Reader(data).struct())
    except (AttributeError, IndexError, KeyError, TypeError, UnicodeDecodeError):
        raise ValueError("damaged Parquet footer") from None


def find_arrow_schema(path: Path) -> int:
    """Where in the file the name of Arrow's description of the columns is."""
    start, data = _read_end(path)
    position = data.rfind(b"ARROW:schema")
    if position < 0:
        raise ValueError("damaged Parquet footer")
    return start + position


def _read_end(path: Path) -> tuple[int, bytes]:
    """The footer's bytes, and where they begin."""
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - 8))
        end = stream.read(8)
        length = int.from_bytes(end[:4], "little")
        if size < 12 or end[4:] != PARQUET_MAGIC or length > min(size - 8, _LARGEST_FOOTER):
            raise ValueError("no Parquet footer: the file is damaged or cut off")
        start = stream.seek(size - 8 - length)
        return start, stream.read(length)


def _footer(metadata: dict[int, Any]) -> Footer:
    names, skip = [], 0
    for element in metadata[_SCHEMA][1:]:  # the first is the root
        if not skip:
            names.append(element[_NAME].decode())
        # Children follow their parent, each perhaps with children of its own.
        skip = max(0, skip - 1) + element.get(_CHILDREN, 0)
    groups = [
        [
            ColumnChunk(
                ".".join(part.decode() for part in chunk[_CHUNK_META][_PATH]),
                group[_GROUP_ROWS],
                chunk[_CHUNK_META][_UNPACKED],
                chunk[_CHUNK_META][_PACKED],
            )
            for chunk in group[_GROUP_COLUMNS]
        ]
        for group in metadata[_GROUPS]
    ]
    return Footer(names, int(metadata[_ROWS]), groups)


class _Reader:
    """Decodes a Thrift struct as a dictionary of field numbers and values."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > _DEEPEST:
            raise ValueError("damaged Parquet footer")
        fields: dict[int, Any] = {}
        number = 0
        while kind := self._byte():
            delta, kind = kind >> 4, kind & 15
            number = number + delta if delta else self._integer()
            fields[number] = kind == 1 if kind in _BOOLEANS else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _BOOLEANS or kind == _BYTE:
            return self._byte()
        if kind in _INTEGERS:
            return self._integer()
        if kind == _DOUBLE:
            return self._take(8)
        if kind == _BYTES:
            return self._take(self._unsigned())
        if kind in _LISTS:
            head = self._byte()
            count = self._unsigned() if head >> 4 == 15 else head >> 4
            self._check(count)
            return [self._value(head & 15, depth + 1) for _ in range(count)]
        if kind == _MAP:
            count = self._unsigned()
            self._check(count)
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._value(kinds >> 4, depth + 1)
                self._value(kinds & 15, depth + 1)
            return None
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise ValueError("damaged Parquet footer")

    def _integer(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)

    def _unsigned(self) -> int:
        number = shift = 0
        while (byte := self._byte()) & 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise ValueError("damaged Parquet footer")
        return number | byte << shift

    def _byte(self) -> int:
        byte = self._data[self._position]
        self._position += 1
        return byte

    def _take(self, size: int) -> bytes:
        self._check(size)
        self._position += size
        return self._data[self._position - size : self._position]

    def _check(self, size: int) -> None:
        """Refuse a length beyond the end; every item of a list takes at least one byte."""
        if size > len(self._data) - self._position:
            raise ValueError("damaged Parquet footer")


_BATCH_ROWS = 100_000
_NO_TEXT = pl.lit(None, pl.String)
_LARGEST_CHUNK, _LARGEST_RATIO = 256 << 20, 1000
"""A column of a row group that unpacks to more bytes than both allow is refused."""
_UNITS_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_OFFSET = re.compile(rb"[+-]\d\d:?\d\d")
_LATEST_SECOND = 2**33  # the year 2242: later times are out of range anyway

FileColumns: TypeAlias = Mapping[str, pl.Expr]
"""Which columns to read, by the name that they get."""


class ParquetFormat(LogFormat):
    """One row per row of the table."""

    name = "parquet"
    takes_columns = True
    takes_where = True

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """The mark at the start of the file."""
        marked = sample.start.startswith(PARQUET_MAGIC)
        return "it starts with the mark of a Parquet file" if marked else None

    def blocks(self, file: LogFile, sample: Sample, settings: ReadSettings) -> Iterator[FileBlock]:
        """Batches of rows."""
        size = sample.file.stat().st_size
        conditions = settings.conditions()
        for share, batch in read_batches(sample.file, settings.columns, conditions):
            parse = partial(parse_batch, batch, settings.time_zone, conditions)
            yield FileBlock(len(batch), int(size * share), parse)


def read_batches(
    path: Path, columns: Mapping[str, str] | None, conditions: Sequence[Condition] = ()
) -> Iterator[tuple[float, pl.DataFrame]]:
    """The wanted columns by their meaning (user, time, query, click) and the row as `line`.

    Columns of conditions are named `where 0`, `where 1`, ... With each batch comes the share of the
    file that has been read with it.
    """

    def choose(footer: Footer, schema: pl.Schema) -> FileColumns:
        names_by_field = find_columns(path, columns, footer.names)
        check_conditions(path, conditions, footer.names)
        names_by_field |= {
            f"where {number}": condition.column for number, condition in enumerate(conditions)
        }
        for meaning, name in names_by_field.items():
            kind = schema[name]
            is_moment = isinstance(kind, pl.Datetime | pl.Date)
            if not (is_value(kind) or (meaning == "time" and is_moment)):
                kinds = "text, numbers or times" if meaning == "time" else "text or numbers"
                raise LogError(f"{path}: column {name!r} is a {kind}; {meaning} must be {kinds}")
        return {meaning: pl.col(name) for meaning, name in names_by_field.items()}

    for share, frame in read_parts(path, choose):
        yield share, frame if "click" in frame.columns else frame.with_columns(click=_NO_TEXT)


def read_parts(
    path: Path, choose: Callable[[Footer, pl.Schema], FileColumns]
) -> Iterator[tuple[float, pl.DataFrame]]:
    """The columns that `choose` names, in parts of bounded size, with the row number as `line`.

    With each part comes the share of the file that has been read with it.
    """
    check_file(path)
    try:
        footer = read_footer(path)
        twice = sorted({name for name in footer.names if footer.names.count(name) > 1})
        if twice:
            raise LogError(f"{path}: has several columns called {', '.join(map(repr, twice))}")
        with _opened_by_polars(path) as source:
            columns = choose(footer, pl.Schema(pl.read_parquet_schema(source)))
            if not columns:
                return
            rows = pl.scan_parquet(source, glob=False).select(**columns)
            tops = {name for column in columns.values() for name in column.meta.root_names()}
            count = _rows_per_batch(path, footer, tops)
            for start in range(0, footer.rows, count):
                batch = rows.slice(start, count).collect(engine="streaming")
                batch = batch.with_row_index("line", start + 1).cast({"line": pl.Int64})
                for part in _bounded(batch):
                    yield min(1.0, part.item(-1, "line") / footer.rows), _decode(part)
    except PARQUET_ERRORS as error:
        reason = " ".join("".join(filter(str.isprintable, str(error))).split())[:200]
        raise LogError(
            f"{path}: cannot be read as Parquet ({reason or type(error).__name__})"
        ) from None


PARQUET_ERRORS = (
    OSError, ValueError, LookupError, MemoryError, OverflowError,
    pl.exceptions.PolarsError, pl.exceptions.PanicException,
)  # fmt: skip
"""What reading a damaged file may raise; Polars panics at some."""


@contextmanager
def _opened_by_polars(path: Path) -> Iterator[Path]:
    """The file, or a copy of it in which times with an offset, such as +05:30, are in UTC.

    Polars panics at time zones that it has no name for. They are in Arrow's own description of the
    columns, which is ignored under another name; the numbers are UTC anyway.
    """
    if not _has_odd_zone(path):
        yield path
        return
    with NamedTemporaryFile(suffix=".parquet") as copy:
        with path.open("rb") as stream:
            shutil.copyfileobj(stream, copy)
        position = find_arrow_schema(path)
        copy.seek(position)
        copy.write(b"X")
        copy.flush()
        yield Path(copy.name)


def _has_odd_zone(path: Path) -> bool:
    description = pl.read_parquet_metadata(path).get("ARROW:schema")
    if description is None:
        return False
    if _OFFSET.search(base64.b64decode(description)):
        return True
    try:
        pl.read_parquet_schema(path)
    except pl.exceptions.PanicException as error:
        return "time zone" in str(error)
    return False


def _rows_per_batch(path: Path, footer: Footer, names: Iterable[str]) -> int:
    """How many rows make up a block, by the size that the file states for its columns."""
    widest = 1.0
    for group in footer.groups:
        chunks = [chunk for chunk in group if _belongs(chunk.path, names)]
        for chunk in chunks:
            packed = max(1, chunk.packed)
            if chunk.unpacked > _LARGEST_CHUNK and chunk.unpacked > _LARGEST_RATIO * packed:
                raise LogError(
                    f"{path}: column {chunk.path!r} unpacks to {chunk.unpacked:,} bytes from "
                    f"{packed:,}; that is not a log"
                )
        size = sum(chunk.unpacked for chunk in chunks)
        widest = max(widest, size / max(1, group[0].rows if group else 1))
    return int(min(_BATCH_ROWS, max(1, 4 * BLOCK_BYTES / widest)))


def _belongs(path: str, names: Iterable[str]) -> bool:
    """Whether a column of the file is one of `names` or a part of one."""
    return any(path == name or path.startswith(f"{name}.") for name in names)


def _bounded(batch: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The rows of a batch in parts whose texts are together no more than a block of bytes."""
    sizes = np.zeros(len(batch))
    for column in batch.get_columns():
        if not is_text(column.dtype):
            continue
        if isinstance(column.dtype, pl.Categorical | pl.Enum):
            lengths = column.cat.len_bytes()
        else:
            lengths = column.bin.size() if column.dtype == pl.Binary else column.str.len_bytes()
        sizes += lengths.fill_null(0).to_numpy()
    block = np.floor(np.cumsum(sizes) / BLOCK_BYTES)
    cuts = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(batch)]
    for start, end in pairwise(cuts):
        if start < end:
            yield batch.slice(start, end - start)


def parse_batch(
    batch: pl.DataFrame, time_zone: str, conditions: Sequence[Condition] = ()
) -> ParsedRows:
    """Take or reject every row of a batch."""
    user, malformed_user = cast_to_text(batch["user"])
    query, malformed_query = cast_to_text(batch["query"])
    click, malformed_click = cast_to_text(batch["click"])
    time_text = cast_to_text(batch["time"])[0].alias("time_text")
    shown = pl.concat_str("user", "time_text", "query", separator="\t", ignore_nulls=True)
    fault = (
        pl.when(pl.sum_horizontal(pl.col("user", "query", "click").str.len_bytes()) > LONGEST_LINE)
        .then(pl.lit(rejects.TOO_LONG))
        .when(malformed_user | malformed_query | malformed_click)
        .then(pl.lit(rejects.MALFORMED_TEXT))
        .when(shown.str.contains("\0", literal=True))
        .then(pl.lit(rejects.NUL_BYTE))
    )
    fields = pl.DataFrame([batch["line"], user, query, click, time_text])
    times = read_times(batch["time"], time_text, time_zone)
    rows = fields.with_columns(text=shown, reason=fault)
    if conditions:
        values = [
            (condition, pl.lit(cast_to_text(batch[f"where {number}"])[0]))
            for number, condition in enumerate(conditions)
        ]
        rows = rows.with_columns(pl.coalesce("reason", filtered(values)))
    return validate_rows(rows, times)


def is_text(kind: pl.DataType) -> bool:
    """Whether a column of this type has texts or bytes."""
    return isinstance(kind, pl.String | pl.Binary | pl.Categorical | pl.Enum)


def is_value(kind: pl.DataType) -> bool:
    """Whether a column of this type has texts or numbers."""
    number = kind.is_integer() or kind.is_float() or isinstance(kind, pl.Boolean | pl.Null)
    return is_text(kind) or number


def _decode(batch: pl.DataFrame) -> pl.DataFrame:
    """Texts without dictionaries, and times in microseconds, without a zone or in UTC."""
    columns = []
    for name, kind in batch.schema.items():
        column = pl.col(name)
        if isinstance(kind, pl.Categorical | pl.Enum):
            column = column.cast(pl.String)
        elif isinstance(kind, pl.Datetime):
            # Polars does not have a name for every zone; the numbers are UTC anyway.
            most = _LATEST_SECOND * _UNITS_PER_SECOND[kind.time_unit]
            in_range = column.to_physical().clip(-most, most).cast(pl.Datetime(kind.time_unit))
            zone = None if kind.time_zone is None else "UTC"
            column = in_range.cast(pl.Datetime("us")).dt.replace_time_zone(zone)
        columns.append(column)
    return batch.select(columns)


def read_times(times: pl.Series, texts: pl.Series, time_zone: str) -> pl.DataFrame:
    """Times of any type as `parse_times` gives them."""
    if not isinstance(times.dtype, pl.Datetime):
        return parse_times(texts, time_zone)
    no_times = pl.repeat(None, len(times), dtype=pl.Datetime("us"), eager=True)
    if times.dtype.time_zone is None:
        return resolve_times(times, no_times, time_zone)
    return resolve_times(no_times, times.dt.replace_time_zone(None), time_zone)
