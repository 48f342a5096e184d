"""JSON logs: one object per line, or documents with lists of objects."""

import codecs
import json
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from nextquery.errors import LogError
from nextquery.logs.formats.base import FIELDS, REQUIRED, FileBlock, LineFormat, LogFormat
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import UTF_8, LogFile, Sample
from nextquery.logs.reading.rows import HeaderlessLayout, ParsedRows, Row, rows_frame, validate_rows
from nextquery.logs.reading.times import USUAL, parse_times
from nextquery.logs.settings import ReadSettings

if TYPE_CHECKING:
    import duckdb

_DEEPEST = 8
"""No format has a field below so many objects."""


def sample_objects(sample: Sample) -> list[dict[str, Any]]:
    """The objects in the first lines of a file, if most of its lines are objects."""
    found = []
    for line in sample.lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            source = value.get("_source")
            found.append(source if isinstance(source, dict) else value)
    return found if len(found) * 2 > len(sample.lines) else []


def sample_paths(sample: Sample) -> set[str]:
    """The paths of all fields in the first lines of a file; none unless most are objects.

    >>> from pathlib import Path
    >>> sorted(sample_paths(Sample(Path("log"), ('{"search": {"query": "red"}}',))))
    ['search', 'search.query']
    """
    return {path for each in sample_objects(sample) for path in _paths(each)}


def _paths(value: Mapping[str, Any], prefix: str = "", depth: int = 1) -> Iterable[str]:
    for name, inner in value.items():
        yield prefix + name
        if isinstance(inner, dict) and depth < _DEEPEST:
            yield from _paths(inner, f"{prefix}{name}.", depth + 1)


def extract_fields(lines: pl.DataFrame, paths: Mapping[str, str]) -> pl.DataFrame:
    """Add a string column for each path, and reasons for lines that are no JSON object.

    Only scalars count: where a path leads to an object or a list, the field is missing.
    """
    variants = {name: _variants(path, lines["text"]) for name, path in paths.items()}
    places = [place for group in variants.values() for place in group]
    found = _look_up(lines.select("text"), places)
    values = {
        name: pl.coalesce(_scalar(places.index(place)) for place in group)
        for name, group in variants.items()
    }
    fault = pl.when(~pl.col("is_object")).then(pl.lit(rejects.NOT_JSON))
    fields = found.select(fault.alias("fault"), **values)
    has_nul = pl.any_horizontal(pl.col(*paths).str.contains("\0", literal=True).fill_null(False))
    return (
        pl.concat([lines, fields], how="horizontal")
        .with_columns(
            pl.coalesce("reason", "fault", pl.when(has_nul).then(pl.lit(rejects.NUL_BYTE)))
        )
        .drop("fault")
    )


@cache
def _database() -> "duckdb.DuckDBPyConnection":
    """One database for all blocks, since opening one takes longer than parsing many lines."""
    import duckdb  # not loaded for logs that are no JSON

    return duckdb.connect(config={"threads": 1})


def _look_up(texts: pl.DataFrame, places: list[str]) -> pl.DataFrame:
    """Columns is_object, values and kinds; the two lists follow `places`."""
    wanted = ", ".join("'" + place.replace("'", "''") + "'" for place in places)
    with _database().cursor() as connection:
        connection.register("texts", texts.to_arrow())
        found: pl.DataFrame = connection.sql(
            f"""
            SELECT coalesce(json_type(object) = 'OBJECT', false) AS is_object,
                   json_extract_string(object, [{wanted}]) AS values,
                   json_type(object, [{wanted}]) AS kinds
            FROM (SELECT CASE WHEN json_valid(text) THEN text END AS object FROM texts)
            """
        ).pl()
    return found


def _scalar(position: int) -> pl.Expr:
    kind = pl.col("kinds").list.get(position)
    return pl.when(~kind.is_in(["OBJECT", "ARRAY", "NULL"])).then(
        pl.col("values").list.get(position)
    )


def _variants(path: str, texts: pl.Series) -> list[str]:
    """The places where a field may stand: nested or dotted, bare or under `_source`.

    Spellings whose key occurs in none of the texts are left out, since each costs time.
    """
    roots = ["", "_source."] if _occurs("_source", texts) else [""]
    found = []
    for choice in path.split("|"):
        spellings = [".".join(f'"{key}"' for key in choice.split("."))]
        if "." in choice and _occurs(choice, texts):
            spellings.append(f'"{choice}"')
        found += [f"$.{root}{spelling}" for spelling in spellings for root in roots]
    return found


def _occurs(key: str, texts: pl.Series) -> bool:
    return bool(texts.str.contains(f'"{key}"', literal=True).any())


class NdjsonFormat(LineFormat):
    """One object per line; the columns are paths such as `search.query`."""

    name = "ndjson"
    takes_columns = True

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Objects, and chosen columns or fields called user, time and query."""
        if settings.columns is not None:
            described = "its lines are JSON objects and the columns were given"
            return described if sample_objects(sample) else None
        if sample_paths(sample) >= set(REQUIRED):
            return "its lines are JSON objects with user, time and query"
        return None

    def layout(self, sample: Sample, settings: ReadSettings) -> "JsonLayout":
        """The chosen paths, or fields called by their meaning."""
        wanted = settings.columns or {name: name for name in FIELDS}
        if any('"' in path for path in wanted.values()):
            raise LogError("`columns` of an NDJSON log may not hold a double quote")
        return JsonLayout(wanted["user"], wanted["time"], wanted["query"], wanted.get("click"))


@dataclass(frozen=True)
class JsonLayout(HeaderlessLayout):
    """The paths of the fields; several paths joined by `|` are tried in turn."""

    user: str
    time: str
    query: str
    click: str | None
    time_pattern: str = USUAL

    def fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Add user, time_text, query and click to rows of `text`, and reasons to `reason`."""
        paths = {"user": self.user, "time_text": self.time, "query": self.query}
        if self.click:
            return extract_fields(lines, paths | {"click": self.click})
        return extract_fields(lines, paths).with_columns(click=pl.lit(None, pl.String))


_CHUNK = 1 << 20
LARGEST_OBJECT = 16 << 20
_BLOCK_ROWS = 50_000
_BETWEEN = re.compile(r"[\s,\[\]}\ufeff]*")
_DECODER = json.JSONDecoder()


class DocumentFormat(LogFormat):
    """A format whose files are JSON documents; an object becomes any number of rows."""

    list_name: ClassVar[str] = ""
    """Under which name the list of objects stands, if it is not the document itself."""
    fields: ClassVar[tuple[str, ...]] = ("user", "time_text", "query", "click")

    @abstractmethod
    def rows(self, found: dict[str, Any]) -> Iterator[Row]:
        """The rows of one object; what is missing may be left out."""

    def blocks(self, sample: Sample, settings: ReadSettings) -> Iterator[FileBlock]:
        """The rows of all objects, some ten thousand at a time."""
        waiting: list[Row] = []
        first = 1
        for position, found in read_objects(sample.file, self.list_name, settings.encoding):
            waiting += self.rows(found)
            if len(waiting) >= _BLOCK_ROWS:
                yield self._block(waiting, first, position, settings)
                first += len(waiting)
                waiting = []
        if waiting:
            yield self._block(waiting, first, sample.file.stat().st_size, settings)

    def parse_frame(self, frame: pl.DataFrame, settings: ReadSettings) -> ParsedRows:
        """Take or reject rows of fields."""
        return validate_rows(frame, parse_times(frame["time_text"], settings.time_zone))

    def _block(
        self, rows: list[Row], first: int, position: int, settings: ReadSettings
    ) -> FileBlock:
        frame = rows_frame(rows, self.fields, first)
        return FileBlock(len(rows), position, partial(self.parse_frame, frame, settings))


def text_of(value: object) -> str | None:
    """A text or number as text, anything else as nothing.

    >>> text_of("red"), text_of(7), text_of(None), text_of(["red"])
    ('red', '7', None, None)
    """
    if isinstance(value, str):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else None


def sample_document(sample: Sample, list_name: str = "") -> list[dict[str, Any]]:
    """The objects at the start of a file, if it starts like a JSON document of this kind."""
    text = "\n".join(sample.lines)
    found: list[dict[str, Any]] = []
    place = _skip(text, 0, _wrapper(list_name))
    while place < len(text) and len(found) < 20:
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        found += _unwrapped(value, list_name)
        place = _skip(text, place, _wrapper(list_name))
    return found


def read_objects(
    path: Path, list_name: str, encoding: str = UTF_8
) -> Iterator[tuple[int, dict[str, Any]]]:
    """All objects of a file, each with the bytes of the file that have been read by then."""
    wrapper = _wrapper(list_name)
    with LogFile(path) as file:
        decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        chunks = file.text(_CHUNK, encoding, lists=False)
        text, place, ended, count, depth = "", 0, False, 0, 0
        while True:
            start, place = place, _skip(text, place, wrapper)
            depth += _opened(text[start:place])
            value, end = _decode(text, place)
            if end < 0 or (end == len(text) and not ended):
                if ended and place == len(text) and depth == 0:
                    return
                if ended or len(text) - place > LARGEST_OBJECT:
                    raise LogError(
                        f"{path}: is not JSON, or damaged or cut off, after {count:,} objects; "
                        "export or copy it again"
                    )
                chunk = next(chunks, b"")
                ended = not chunk
                text, place = text[place:] + decode(chunk, ended), 0
                continue
            place = end
            for found in _unwrapped(value, list_name):
                count += 1
                yield file.position(), found


def _decode(text: str, place: int) -> tuple[Any, int]:
    """The value at a place and where it ends; -1 if it is not whole or none."""
    try:
        return _DECODER.raw_decode(text, place)
    except (ValueError, RecursionError):
        return None, -1


def _wrapper(name: str) -> re.Pattern[str] | None:
    """The start of an object whose first field is the list of that name."""
    return re.compile(rf'\{{\s*"{name}"\s*:\s*\[') if name else None


def _skip(text: str, place: int, wrapper: re.Pattern[str] | None) -> int:
    """Past what stands between objects."""
    while True:
        between = _BETWEEN.match(text, place)
        assert between is not None  # it may be empty
        opening = wrapper.match(text, between.end()) if wrapper else None
        if opening is None:
            return between.end()
        place = opening.end()


def _opened(between: str) -> int:
    """How many lists and wrappers more are opened than closed in what stands between objects."""
    opened = between.count("[") + between.count("{")
    return opened - between.count("]") - between.count("}")


def _unwrapped(value: Any, list_name: str) -> list[dict[str, Any]]:
    """The objects of a value: itself, or those of its list."""
    inner = value.get(list_name) if isinstance(value, dict) and list_name else None
    values = inner if isinstance(inner, list) else [value]
    return [each for each in values if isinstance(each, dict)]
