"""Blocks of numbered lines: how a log file of any size is read in bounded memory.

Lines are bytes here: what is in them is not looked at. A line longer than
`LONGEST_LINE` is cut one byte beyond that limit, so that the reader of the block can see this and
reject it, and a line of any length costs no more memory than the limit.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

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
