"""Open log files, decompress, sample and hash them, and cut them into blocks of numbered lines.

Lines are bytes here. A line longer than `LONGEST_LINE` is cut one byte beyond that limit, so that
the reader of the block can see this and reject it, and a line of any length costs no more memory
than the limit.
"""

import bz2
import codecs
import gzip
import hashlib
import stat
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from nextquery.errors import LogError
from nextquery.logs.reading.encodings import UTF_8, text_chunks

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LONGEST_LINE = 1 << 20
BLOCK_BYTES = 16 << 20
BLOCK_LINES = 400_000
"""A block has at most this many lines: empty ones take few bytes, but one row each."""


@dataclass(frozen=True)
class LineBlock:
    """Whole lines of one file: `first` is the number of the first one, counted from 1."""

    first: int
    count: int
    data: bytes

    def frame(self) -> pl.DataFrame:
        """One row per line: `line` is its number, `text` its text, or bytes that are not UTF-8."""
        numbers = pl.int_range(self.first, self.first + self.count, dtype=pl.Int64, eager=True)
        try:
            text = pl.Series([self.data], dtype=pl.Binary).cast(pl.String)
            lines = text.str.split("\n").explode()[:-1]
        except pl.exceptions.PolarsError:
            lines = pl.Series(self.data.split(b"\n")[:-1], dtype=pl.Binary)
        return pl.DataFrame({"line": numbers, "text": lines})


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
    unfinished = b""
    for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if end:
            yield b"".join((unfinished, memoryview(chunk)[:end]))
            unfinished = chunk[end:]
        else:
            unfinished += chunk[: LONGEST_LINE + 1]
        unfinished = unfinished[: LONGEST_LINE + 1]
    if unfinished:
        yield unfinished + b"\n"


def _without_mark(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks without a byte-order mark at the beginning, wherever it is cut."""
    rest = iter(chunks)
    waiting = [b""]  # chunks are large: keep no reference
    while len(waiting[0]) < len(codecs.BOM_UTF8) and (more := next(rest, b"")):
        waiting[0] += more
        del more
    yield waiting.pop().removeprefix(codecs.BOM_UTF8)
    yield from rest


_COMPRESSIONS = (
    (b"\x1f\x8b", "gzip", gzip.open),
    (b"BZh", "bz2", bz2.open),
    (b"\x28\xb5\x2f\xfd", "zstd", zstd.open),
)


class LogFile:
    """A log file opened for reading once, from start to end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        check_file(path)
        try:
            self._raw = path.open("rb")
        except OSError as error:
            raise LogError(f"{path}: cannot be opened ({error})") from None
        self.compression: str | None = None
        self._stream: Any = self._raw
        start = self._raw.read(4)
        self._raw.seek(0)
        for magic, name, unpack in _COMPRESSIONS:
            if start.startswith(magic):
                self.compression, self._stream = name, unpack(self._raw)
        self._hash, self._size = hashlib.sha256(), 0

    def chunks(self, size: int) -> Iterator[bytes]:
        """The unpacked bytes in pieces of `size`, the last one shorter."""
        while chunk := self._read(size):
            yield chunk

    def text(self, size: int, encoding: str = UTF_8, *, lists: bool = True) -> Iterator[bytes]:
        """The unpacked text in UTF-8, in pieces of about `size`; with `lists` those as lines."""
        try:
            yield from text_chunks(self.chunks(size), encoding, lists=lists)
        except LogError as error:
            raise self.named(error) from None

    def named(self, error: LogError) -> LogError:
        """The error with the name of the file."""
        return error if str(error).startswith(str(self.path)) else LogError(f"{self.path}: {error}")

    def position(self) -> int:
        """How many bytes of the file, compressed as it is, have been read."""
        return self._raw.tell()

    def content(self, sizes: Collection[int] = ()) -> "ContentHash":
        """Read the rest of the file, and hash all of it and its first N bytes, N of `sizes`."""
        beginnings = {}
        for size in sorted(size for size in set(sizes) if size >= self._size):
            while self._size < size and self._read(min(_CHUNK, size - self._size)):
                pass
            beginnings[size] = self._hash.hexdigest()
        while self._read(_CHUNK):
            pass
        shorter = {size: digest for size, digest in beginnings.items() if size < self._size}
        return ContentHash(self._hash.hexdigest(), self._size, shorter)

    def _read(self, size: int) -> bytes:
        try:
            chunk: bytes = self._stream.read(size)
        except (OSError, EOFError, zlib.error, zstd.ZstdError) as error:
            kind = self.compression or "plain"
            raise LogError(
                f"{self.path}: the {kind} data is truncated or damaged ({error}); "
                "copy the file again"
            ) from None
        # While it is read: reading it once more would take a tenth of the time of `prepare`.
        self._hash.update(chunk)
        self._size += len(chunk)
        return chunk

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()
        self._raw.close()


def find_files(paths: Sequence[Path]) -> list[Path]:
    """The files among `paths`, and for each folder its files by name, but for hidden ones."""
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = [
            file
            for file in sorted(path.rglob("*"))
            if not any(part.startswith(".") for part in file.relative_to(path).parts)
            and not file.is_dir()
        ]
        if not inside:
            raise LogError(f"{path}: a folder without files")
        files += inside
    return files


def check_file(path: Path) -> None:
    """Refuse what is not a readable file, and say what to give instead."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise LogError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise LogError(f"{path}: cannot be opened ({error})") from None
    if stat.S_ISDIR(mode):
        raise LogError(f"{path}: a folder, not a file; name its files, such as {path}/*")
    if not stat.S_ISREG(mode):
        raise LogError(f"{path}: a pipe or device, which may never end; write it to a file first")


_SAMPLE_BYTES = 64 << 10
_SAMPLE_LINES = 100
WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""How Excel's files start, new and old."""


@dataclass(frozen=True)
class Sample:
    """The first lines of a file, without line ends, and its first bytes; an empty file has none."""

    file: Path
    lines: tuple[str, ...]
    start: bytes = b""


def take_sample(path: Path, encoding: str = UTF_8) -> Sample:
    """Read the start of a file, unpacked if it is compressed."""
    with LogFile(path) as file:
        mark = next(file.chunks(16), b"")
    binary = mark.startswith((b"PAR1", *WORKBOOKS))
    with LogFile(path) as file:
        chunks = file.text(_SAMPLE_BYTES, UTF_8 if binary else encoding)
        start = chunk = next(chunks, b"")
        while chunk and _too_little(start):
            chunk = next(chunks, b"")
            start += chunk
    if b"\r" in start.rstrip(b"\r") and b"\n" not in start and not binary:
        raise LogError(f"{path}: its lines end in CR alone; turn every CR into LF first")
    text = start.decode("utf-8-sig", "replace")
    lines = tuple(line.removesuffix("\r") for line in text.split("\n"))
    # The last line may be cut off, unless the whole file fits.
    whole = lines if not chunk or len(lines) == 1 else lines[:-1]
    filled = whole[:-1] if whole[-1] == "" else whole
    return Sample(path, filled[:_SAMPLE_LINES], mark)


def _too_little(start: bytes) -> bool:
    """Whether more is needed; texts in other encodings come in smaller pieces."""
    return len(start) < _SAMPLE_BYTES or (b"\n" not in start and len(start) <= LONGEST_LINE)


_CHUNK = 1 << 20


@dataclass(frozen=True)
class ContentHash:
    """The unpacked bytes of a file: their SHA-256 and number."""

    sha256: str
    size: int
    beginnings: dict[int, str] = field(default_factory=dict)
    """The SHA-256 of its first N bytes, for some N smaller than `size`."""


def hash_content(path: Path, sizes: Collection[int] = ()) -> ContentHash:
    """Hash a file's unpacked bytes, and its first N bytes for each N of `sizes`."""
    with LogFile(path) as file:
        return file.content(sizes)
