"""Blocks of numbered lines, and JSON values: how a log file of any size is read in bounded memory.

Lines are bytes here: what is in them is not looked at. A line longer than
`LONGEST_LINE` is cut one byte beyond that limit, so that the reader of the block can see this and
reject it, and a line of any length costs no more memory than the limit.

`scan_objects` reads JSON text. A streaming parser such as ijson would read the same, but refuses a
whole file for one byte that is not UTF-8, and does not give the text of an object as it is written.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from nextquery.errors import LogError

LONGEST_LINE = 1 << 20
BLOCK_BYTES = 16 << 20
BLOCK_LINES = 400_000
"""A block has at most this many lines: empty ones take few bytes, but one row each."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LineBlock:
    """Whole lines of one file: `first` is the number of the first one, counted from 1."""

    first: int
    count: int
    data: bytes

    def frame(self) -> pl.DataFrame:
        """One row per line: `line` is its number, `text` its text, or bytes that are not UTF-8."""
        numbers = pl.int_range(self.first, self.first + self.count, dtype=pl.Int64, eager=True)
        return pl.DataFrame({"line": numbers, "text": _split_lines(self.data)})


def _split_lines(data: bytes) -> pl.Series:
    try:
        text = pl.Series([data], dtype=pl.Binary).cast(pl.String)
    except pl.exceptions.PolarsError:
        return pl.Series(data.split(b"\n")[:-1], dtype=pl.Binary)
    return text.str.split("\n").explode()[:-1]


def line_blocks(chunks: Iterable[bytes]) -> Iterator[LineBlock]:
    """Cut a file's bytes at line ends; a last line without an end counts as a line."""
    first = 1
    for data in _whole_lines(_without_mark(chunks)):
        for part in _few_lines(data):
            count = part.count(b"\n")
            yield LineBlock(first, count, part)
            first += count


def _few_lines(data: bytes) -> Iterator[bytes]:
    """The lines of `data` in parts of at most `BLOCK_LINES`."""
    if data.count(b"\n") <= BLOCK_LINES:
        yield data
        return
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")) + 1
    cuts = [0, *ends[BLOCK_LINES - 1 :: BLOCK_LINES].tolist(), len(data)]
    for start, end in pairwise(cuts):
        if start < end:
            yield data[start:end]


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if end:
            yield b"".join((rest, memoryview(chunk)[:end]))
            rest = chunk[end:]
        else:
            rest += chunk[: LONGEST_LINE + 1]
        rest = rest[: LONGEST_LINE + 1]
    if rest:
        yield rest + b"\n"


def _without_mark(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks without a byte-order mark at the beginning, wherever it is cut."""
    rest = iter(chunks)
    waiting = [b""]  # chunks are large: keep no reference
    while len(waiting[0]) < len(_BYTE_ORDER_MARK) and (more := next(rest, b"")):
        waiting[0] += more
        del more
    yield waiting.pop().removeprefix(_BYTE_ORDER_MARK)
    yield from rest


LARGEST_OBJECT = 16 << 20
_BETWEEN = re.compile(r"[\s,\[\]}\ufeff]*")
_DECODER = json.JSONDecoder()


def scan_objects(chunks: Iterator[bytes], list_name: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its text as it is written; brackets and commas between them are skipped.

    With `list_name`, values are those of the list that is the first field of a document, if that
    has this name. Bytes that are not UTF-8 become half characters (`surrogateescape`).

    >>> list(scan_objects(iter([b'{"logs": [{"a": 1}, {"a"', b': 2}]}']), "logs"))
    [('{"a": 1}', {'a': 1}), ('{"a": 2}', {'a': 2})]
    """
    opening = re.compile(rf'\{{\s*"{list_name}"\s*:\s*\[') if list_name else None
    decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
    text, position, depth, count, ended = "", 0, 0, 0, False
    while True:
        start, position = position, _skip(text, position, opening)
        between = text[start:position]
        depth += sum(between.count(bracket) for bracket in "[{")
        depth -= sum(between.count(bracket) for bracket in "]}")
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = -1
        # A number at the end of the text may continue in the next chunk.
        if end >= 0 and (end < len(text) or ended):
            count += 1
            yield text[position:end], value
            position = end
            continue
        if ended and position == len(text) and depth == 0:
            return
        if ended or len(text) - position > LARGEST_OBJECT:
            raise LogError(
                f"is not JSON, or damaged or cut off, after {count:,} objects; "
                "export or copy it again"
            )
        chunk = next(chunks, b"")
        ended = not chunk
        text, position = text[position:] + decode(chunk, ended), 0


def _skip(text: str, position: int, opening: re.Pattern[str] | None) -> int:
    """Past what is between values."""
    while True:
        between = _BETWEEN.match(text, position)
        assert between is not None  # it may be empty
        position = between.end()
        wrapper = opening.match(text, position) if opening else None
        if wrapper is None:
            return position
        position = wrapper.end()
