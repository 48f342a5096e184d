"""JSON logs: one object per line, or documents with lists of objects."""

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeAlias

import polars as pl

from nextquery.errors import LogError
from nextquery.logs.formats.base import (
    FIELDS,
    REQUIRED,
    FileBlock,
    LineFormat,
    LogFormat,
    check_conditions,
    filtered,
)
from nextquery.logs.reading import rejects
from nextquery.logs.reading.encodings import UTF_8, scan_objects
from nextquery.logs.reading.open import LogFile, Sample
from nextquery.logs.reading.rows import Layout, ParsedRows, Row, rows_frame, validate_rows
from nextquery.logs.reading.times import parse_times
from nextquery.logs.settings import Condition, ReadSettings

_DEEPEST = 8
"""Levels of nested objects that are searched for fields."""
_LINE_BY_LINE = 250
"""Lines that are not halved again to find those that Polars cannot decode."""
_MOST_BRACKETS = 500
"""In a line that Polars may decode: very deep nesting overflows its stack."""
_SURROGATE = r"\\u[dD][89a-fA-F]"


def sample_objects(sample: Sample) -> list[dict[str, Any]]:
    """The objects in the first lines of a file, if most of its lines are objects."""
    objects = []
    for line in sample.lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            source = value.get("_source")
            objects.append(source if isinstance(source, dict) else value)
    return objects if len(objects) * 2 > len(sample.lines) else []


def sample_paths(sample: Sample) -> set[str]:
    """The paths of all fields in the first lines of a file; none unless most are objects.

    >>> from pathlib import Path
    >>> sorted(sample_paths(Sample(Path("log"), ('{"search": {"query": "red"}}',))))
    ['search', 'search.query']
    """
    return {path for value in sample_objects(sample) for path in _paths(value)}


def _paths(value: Mapping[str, Any], prefix: str = "", depth: int = 1) -> Iterable[str]:
    for name, inner in value.items():
        yield prefix + name
        if isinstance(inner, dict) and depth < _DEEPEST:
            yield from _paths(inner, f"{prefix}{name}.", depth + 1)


Keys: TypeAlias = tuple[str, ...]
"""The keys that lead to a field: of the object, of the object inside, ..."""


def extract_fields(lines: pl.DataFrame, paths: Mapping[str, str]) -> pl.DataFrame:
    """Add a string column for each path, and reasons for lines that are not a JSON object.

    Only scalars count: where a path leads to an object or a list, the field is missing.
    """
    spellings = {name: _spellings(path, lines["text"]) for name, path in paths.items()}
    wanted = list(dict.fromkeys(keys for group in spellings.values() for keys in group))
    # A line with a reason may be anything, even empty, which the decoder would skip.
    texts = lines.select(pl.when(pl.col("reason").is_null()).then("text").otherwise(pl.lit("{}")))
    values = _look_up(texts.to_series(), wanted)
    fields = {
        name: pl.coalesce(pl.col(str(wanted.index(keys))) for keys in group)
        for name, group in spellings.items()
    }
    fault = pl.when(~pl.col("is_object")).then(pl.lit(rejects.NOT_JSON))
    added = values.select(fault.alias("fault"), **fields)
    has_nul = pl.any_horizontal(pl.col(*paths).str.contains("\0", literal=True).fill_null(False))
    return (
        pl.concat([lines, added], how="horizontal")
        .with_columns(
            pl.coalesce("reason", "fault", pl.when(has_nul).then(pl.lit(rejects.NUL_BYTE)))
        )
        .drop("fault")
    )


def _look_up(texts: pl.Series, paths: Sequence[Keys]) -> pl.DataFrame:
    """Columns 0, 1, ... with the scalars that the keys lead to, and is_object.

    Polars decodes many lines at once and refuses all of them for a bad one. Halves are tried then,
    and what remains is decoded line by line, with the same values.
    """
    if not len(texts):
        return _look_up_each(texts, paths)
    odd = _needs_care(texts)
    if odd.any():
        values = [_look_up(texts.filter(~odd), paths), _look_up_each(texts.filter(odd), paths)]
        order = pl.concat([(~odd).arg_true(), odd.arg_true()])
        return pl.concat(values)[order.arg_sort()]
    schema = _nested_schema(paths)
    if schema is not None:
        try:
            decoded = texts.str.json_decode(schema)
        except pl.exceptions.PolarsError:
            pass
        else:
            if len(decoded) == len(texts):  # blank lines are skipped
                is_object = pl.col("object").is_not_null().alias("is_object")
                columns = (_value_at(keys).alias(str(n)) for n, keys in enumerate(paths))
                return decoded.alias("object").to_frame().select(*columns, is_object)
        if len(texts) > _LINE_BY_LINE:
            middle = len(texts) // 2
            halves = texts[:middle], texts[middle:]
            return pl.concat([_look_up(half, paths) for half in halves])
    return _look_up_each(texts, paths)


def _needs_care(texts: pl.Series) -> pl.Series:
    """Whether Polars reads a text wrongly: it takes half a character for NUL, and recurses."""
    brackets = texts.str.count_matches(r"[\[{]")
    return texts.str.contains(_SURROGATE) | (brackets > _MOST_BRACKETS)


def _nested_schema(paths: Sequence[Keys]) -> pl.Struct | None:
    """The type of an object with a text at each of these keys; None if one is inside another."""
    tree: dict[str, Any] = {}
    for keys in paths:
        inner = tree
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
            if inner is None:
                return None
        if inner.setdefault(keys[-1], None) is not None:
            return None
    return _struct(tree)


def _struct(tree: Mapping[str, Any]) -> pl.Struct:
    return pl.Struct(
        {key: pl.String() if inner is None else _struct(inner) for key, inner in tree.items()}
    )


def _value_at(keys: Keys) -> pl.Expr:
    value = pl.col("object")
    for key in keys:
        value = value.struct.field(key)
    return value


def _look_up_each(texts: pl.Series, paths: Sequence[Keys]) -> pl.DataFrame:
    rows = [_look_up_one(text, paths) for text in texts]
    schema = {str(number): pl.String() for number in range(len(paths))}
    return pl.DataFrame(rows, {**schema, "is_object": pl.Boolean()}, orient="row")


def _look_up_one(text: str, paths: Sequence[Keys]) -> tuple[Any, ...]:
    try:
        value = _EXACT_DECODER.decode(text)
        text.encode()
    except (ValueError, RecursionError):
        value = None
    scalars = [_scalar_at(value, keys) for keys in paths]
    try:
        "".join(filter(None, scalars)).encode()
    except UnicodeEncodeError:  # half a character
        return (*[None] * len(paths), False)
    return *scalars, isinstance(value, dict)


def _scalar_at(value: Any, keys: Keys) -> str | None:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else None


def _number_text(written: str) -> str:
    """A number as Polars writes it, so that it is the same whichever way it was read."""
    try:
        return str(pl.Series([written]).str.json_decode(pl.String()).item())
    except pl.exceptions.PolarsError:
        return written


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _first_values(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of a key that occurs twice the first value, as Polars has it."""
    return dict(reversed(pairs))


_EXACT_DECODER = json.JSONDecoder(
    parse_int=_number_text,
    parse_float=_number_text,
    parse_constant=_refuse_constant,
    object_pairs_hook=_first_values,
)


def _spellings(path: str, texts: pl.Series) -> list[Keys]:
    """Where a field may be: nested or dotted, bare or under `_source`.

    Spellings whose key occurs in none of the texts are left out, since each costs time.
    """
    roots: list[Keys] = [(), ("_source",)] if _occurs("_source", texts) else [()]
    all_keys: list[Keys] = []
    for choice in path.split("|"):
        spellings: list[Keys] = [tuple(choice.split("."))]
        if "." in choice and _occurs(choice, texts):
            spellings.append((choice,))
        all_keys += [root + spelling for spelling in spellings for root in roots]
    return all_keys


def _occurs(key: str, texts: pl.Series) -> bool:
    return bool(texts.str.contains(f'"{key}"', literal=True).any())


class NdjsonFormat(LineFormat):
    """One object per line; the columns are paths such as `search.query`."""

    name = "ndjson"
    takes_columns = True
    takes_where = True

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
        names_by_field = settings.columns or {name: name for name in FIELDS}
        if any('"' in path for path in names_by_field.values()):
            raise LogError("`columns` of an NDJSON log must not contain a double quote")
        conditions = settings.conditions()
        check_conditions(sample.file, conditions, sorted(sample_paths(sample)))
        return JsonLayout(**names_by_field, where=conditions)


@dataclass(frozen=True)
class JsonLayout(Layout):
    """The paths of the fields; several paths joined by `|` are tried in turn."""

    user: str
    time: str
    query: str
    click: str | None = None
    where: tuple[Condition, ...] = ()

    def fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Add user, time_text, query and click to rows of `text`, and reasons to `reason`."""
        paths = {"user": self.user, "time_text": self.time, "query": self.query}
        if self.click:
            paths["click"] = self.click
        looked_at = {f"where {number}": condition for number, condition in enumerate(self.where)}
        columns = {name: condition.column for name, condition in looked_at.items()}
        rows = extract_fields(lines, paths | columns)
        if self.where:
            values = [(condition, pl.col(name)) for name, condition in looked_at.items()]
            rows = rows.with_columns(pl.coalesce("reason", filtered(values))).drop(*looked_at)
        return rows if self.click else rows.with_columns(click=pl.lit(None, pl.String))


_CHUNK = 1 << 20
_BLOCK_ROWS = 50_000
_SAMPLE_OBJECTS = 20


class DocumentFormat(LogFormat):
    """A format whose files are JSON documents; an object becomes any number of rows."""

    list_name: ClassVar[str] = ""
    """The name of the list of objects, if the document is not the list itself."""
    fields: ClassVar[tuple[str, ...]] = ("user", "time_text", "query", "click")

    @abstractmethod
    def rows(self, value: dict[str, Any]) -> Iterator[Row]:
        """The rows of one object; what is missing may be left out."""

    def blocks(self, file: LogFile, sample: Sample, settings: ReadSettings) -> Iterator[FileBlock]:
        """The rows of all objects, some ten thousand at a time."""
        waiting: list[Row] = []
        first = 1
        for position, value in read_objects(file, self.list_name, settings.encoding):
            waiting += self.rows(value)
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
    """The first objects of a file, if it starts like a JSON document of this kind."""
    text = "\n".join(sample.lines).encode("utf-8", "surrogateescape")
    objects: list[dict[str, Any]] = []
    with suppress(LogError):  # the sample may be cut off
        for _, value in scan_objects(iter([text]), list_name):
            objects += _unwrapped(value, list_name)
            if len(objects) >= _SAMPLE_OBJECTS:
                break
    return objects


def read_objects(
    file: LogFile, list_name: str, encoding: str = UTF_8
) -> Iterator[tuple[int, dict[str, Any]]]:
    """All objects of a file, each with the bytes of the file that have been read by then."""
    try:
        for _, value in scan_objects(file.text(_CHUNK, encoding, lists=False), list_name):
            for item in _unwrapped(value, list_name):
                yield file.position(), item
    except LogError as error:
        raise file.named(error) from None


def _unwrapped(value: Any, list_name: str) -> list[dict[str, Any]]:
    """The objects of a value: itself, or those of its list."""
    inner = value.get(list_name) if isinstance(value, dict) and list_name else None
    values = inner if isinstance(inner, list) else [value]
    return [item for item in values if isinstance(item, dict)]
