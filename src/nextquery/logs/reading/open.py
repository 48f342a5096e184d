"""Open log files, decompress them, sample and hash them."""

import bz2
import gzip
import hashlib
import stat
import sys
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

from nextquery.errors import LogError
from nextquery.logs.reading.encodings import UTF_8, text_chunks
from nextquery.logs.reading.lines import LONGEST_LINE

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_MAGIC = ((b"\x1f\x8b", "gzip"), (b"BZh", "bz2"), (b"\x28\xb5\x2f\xfd", "zstd"))


class LogFile:
    """A log file opened for reading once, from start to end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        check_file(path)
        try:
            self._raw = path.open("rb")
        except OSError as error:
            raise LogError(f"{path}: cannot be opened ({error})") from None
        self.compression = _compression(self._raw)
        self._stream = _unpacked(self._raw, self.compression)
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
        known = {size: digest for size, digest in beginnings.items() if size < self._size}
        return ContentHash(self._hash.hexdigest(), self._size, known)

    def _read(self, size: int) -> bytes:
        try:
            chunk = self._stream.read(size)
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()
        self._raw.close()


def find_files(paths: Sequence[Path]) -> list[Path]:
    """The files among `paths`, and for each folder its files by name, but for hidden ones."""
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = [file for file in sorted(path.rglob("*")) if _is_visible_file(file, path)]
        if not inside:
            raise LogError(f"{path}: a folder without files")
        files += inside
    return files


def _is_visible_file(file: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return not hidden and not file.is_dir()


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


def _compression(raw: BinaryIO) -> str | None:
    start = raw.read(4)
    raw.seek(0)
    return next((name for magic, name in _MAGIC if start.startswith(magic)), None)


def _unpacked(raw: BinaryIO, compression: str | None) -> BinaryIO:
    if compression == "gzip":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    if compression == "bz2":
        return cast(BinaryIO, bz2.BZ2File(raw))
    if compression == "zstd":
        return cast(BinaryIO, zstd.ZstdFile(raw))
    return raw


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
        start = more = next(chunks, b"")
        while more and _too_little(start):
            more = next(chunks, b"")
            start += more
    if b"\r" in start.rstrip(b"\r") and b"\n" not in start and not binary:
        raise LogError(f"{path}: its lines end in CR alone; turn every CR into LF first")
    text = start.decode("utf-8-sig", "replace")
    lines = tuple(line.removesuffix("\r") for line in text.split("\n"))
    # The last line may be cut off, unless the whole file fits.
    whole = lines if not more or len(lines) == 1 else lines[:-1]
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


def stamp(path: Path) -> tuple[int, ...]:
    """What changes when a file is written to while it is read."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
