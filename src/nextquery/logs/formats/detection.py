"""Which format a log has, told by its first rows, with the reason in a sentence.

Knows what the start of each format looks like. `auto` looks at every file, since files of two
kinds must not be mixed by mistake; a format that is given is taken as given.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nextquery.errors import LogError
from nextquery.logs.formats.delimited import AOL
from nextquery.logs.reading.compression import LogFile

FORMATS = ("aol", "ubi", "elastic", "excite", "csv", "tsv", "ndjson", "parquet")
GENERIC = ("csv", "tsv", "ndjson", "parquet")
_SAMPLE_BYTES = 64 << 10
_SAMPLE_LINES = 100
_ISO_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d")
_EXCITE_TIME = re.compile(r"\d{12}")
_NAMES = {"user", "time", "query"}


@dataclass(frozen=True)
class Sample:
    """The first lines of a file, without line ends; none if it is empty or Parquet."""

    file: Path
    parquet: bool
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Guess:
    """A format and why it was chosen."""

    format: str
    reason: str


def take_sample(path: Path) -> Sample:
    """Look at the start of a file."""
    with LogFile(path) as file:
        start = next(file.chunks(_SAMPLE_BYTES), b"")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise LogError(f"{path}: is UTF-16; convert it to UTF-8 first")
    text = start.decode("utf-8-sig", "replace")
    lines = tuple(line.removesuffix("\r") for line in text.split("\n"))
    # The last piece is cut off, unless the whole file fits.
    whole = lines if len(start) < _SAMPLE_BYTES or len(lines) == 1 else lines[:-1]
    filled = whole[:-1] if whole[-1] == "" else whole
    parquet = start.startswith(b"PAR1")
    return Sample(path, parquet, () if parquet else filled[:_SAMPLE_LINES])


def detect(samples: Sequence[Sample], has_columns: bool) -> Guess:
    """The one format that all files which are not empty have."""
    filled = [sample for sample in samples if sample.parquet or sample.lines]
    if not filled:
        raise LogError(f"{', '.join(str(sample.file) for sample in samples)}: no rows (empty)")
    first = _guess(filled[0], has_columns)
    for sample in filled[1:]:
        other = _guess(sample, has_columns)
        if other.format != first.format:
            raise LogError(
                f"{filled[0].file} looks like {first.format} and {sample.file} like "
                f"{other.format}; prepare them apart, or name one with `format`"
            )
    return first


def _guess(sample: Sample, has_columns: bool) -> Guess:
    if sample.parquet:
        return Guess("parquet", "it starts with the mark of a Parquet file")
    objects = _objects(sample.lines)
    guess = _guess_json(objects, has_columns) if objects else _guess_text(sample, has_columns)
    if guess is None:
        raise LogError(
            f"{sample.file}: the format cannot be told (it starts with {sample.lines[0][:60]!r}); "
            "name it with `format`, or the columns with `columns=user=...,time=...,query=...`"
        )
    return guess


def _guess_json(objects: Sequence[Mapping[str, Any]], has_columns: bool) -> Guess | None:
    names = {name for each in objects for name in _flat_names(each)}
    if has_columns:
        return Guess("ndjson", "its lines are JSON objects and `columns` names the fields")
    if "event.action" in names and ("search.query" in names or "session.id" in names):
        return Guess("elastic", "its lines are JSON objects with event.action and session.id")
    if {"user_query", "client_id"} <= names:
        return Guess("ubi", "its lines are JSON objects with user_query and client_id")
    if {"action_name", "query_id"} <= names:
        return Guess("ubi", "its lines are JSON objects with action_name and query_id")
    if names >= _NAMES:
        return Guess("ndjson", "its lines are JSON objects with user, time and query")
    return None


def _guess_text(sample: Sample, has_columns: bool) -> Guess | None:
    first, lines = sample.lines[0], sample.lines
    separator = "\t" if "\t" in first else ","
    kind = "tsv" if separator == "\t" else "csv"
    if has_columns:
        seen = "has tabs" if kind == "tsv" else "has no tabs"
        return Guess(kind, f"its first line {seen} and `columns` names the fields")
    if AOL.header and first.lower() == AOL.header.lower():
        return Guess("aol", f"its first line is the header {', '.join(first.split(separator))}")
    if _most(_ISO_TIME.match(fields[2]) for fields in _rows(lines, (3, 5))):
        return Guess("aol", "most of its first lines are user, query and time, between tabs")
    if _most(_EXCITE_TIME.fullmatch(fields[1]) for fields in _rows(lines, (3,))):
        return Guess("excite", "most of its first lines are user, yymmddhhmmss and query")
    if {name.strip('" ') for name in re.split("[,;|\t]", first)} >= _NAMES:
        return Guess(kind, "its header names user, time and query")
    return None


def _rows(lines: Sequence[str], widths: tuple[int, ...]) -> Iterable[list[str]]:
    """The lines split at tabs; those of another width as rows that match nothing."""
    for line in lines:
        fields = line.split("\t")
        yield fields if len(fields) in widths else [""] * max(widths)


def _most(matches: Iterable[object]) -> bool:
    found = [match is not None for match in matches]
    return sum(found) * 2 > len(found)


def _objects(lines: Sequence[str]) -> list[dict[str, Any]]:
    """The lines that are JSON objects, if most of them are."""
    found = []
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value.get("_source", value))
    return found if len(found) * 2 > len(lines) else []


def _flat_names(value: Mapping[str, Any], prefix: str = "") -> Iterable[str]:
    for name, inner in value.items():
        yield prefix + name
        if isinstance(inner, dict):
            yield from _flat_names(inner, f"{prefix}{name}.")
