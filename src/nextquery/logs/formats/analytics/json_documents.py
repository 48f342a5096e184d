"""JSON documents of any size, as services answer: the objects of their lists, one at a time.

A file may hold one list of objects, an object with a list under a known name (`{"logs": [...]}`),
several of these one after another, or plain objects one per line.
"""

import codecs
import json
import re
from abc import abstractmethod
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from nextquery.errors import LogError
from nextquery.logs.formats.base import FileBlock, LogFormat
from nextquery.logs.reading.compression import LogFile
from nextquery.logs.reading.encodings import UTF_8
from nextquery.logs.reading.rows import ParsedRows, validate_rows
from nextquery.logs.reading.samples import Sample
from nextquery.logs.reading.settings import ReadSettings
from nextquery.logs.reading.text_rows import Row, rows_frame
from nextquery.logs.reading.times import parse_times

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
        text, place, ended, count = "", 0, False, 0
        while True:
            place = _skip(text, place, wrapper)
            value, end = _decode(text, place)
            if end < 0 or (end == len(text) and not ended):
                if ended and place == len(text):
                    return
                if ended or len(text) - place > LARGEST_OBJECT:
                    raise LogError(f"{path}: is no JSON, or damaged, after {count:,} objects")
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


def _unwrapped(value: Any, list_name: str) -> list[dict[str, Any]]:
    """The objects of a value: itself, or those of its list."""
    inner = value.get(list_name) if isinstance(value, dict) and list_name else None
    values = inner if isinstance(inner, list) else [value]
    return [each for each in values if isinstance(each, dict)]
