"""The bytes of a log file, unpacked on the way.

The compression is told by the file's first bytes, never by its name. A file that ends early or is
damaged stops the job: nobody can say how many rows are missing.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from nextquery.errors import LogError
from nextquery.logs.reading.encodings import UTF_8, text_chunks

_MAGIC = ((b"\x1f\x8b", "gzip"), (b"BZh", "bz2"), (b"\x28\xb5\x2f\xfd", "zstd"))


class LogFile:
    """A log file opened for reading once, from start to end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        check_file(path)
        try:
            self._raw: Any = pa.OSFile(os.fsencode(path), "rb")  # a name may be any bytes
        except OSError as error:
            raise LogError(f"{path}: cannot be opened ({error})") from None
        self.compression = _compression(self._raw)
        self._stream: Any = (
            pa.CompressedInputStream(self._raw, self.compression) if self.compression else self._raw
        )

    def chunks(self, size: int) -> Iterator[bytes]:
        """The unpacked bytes in pieces of `size`, the last one shorter."""
        while chunk := self._read(size):
            yield chunk

    def text(self, size: int, encoding: str = UTF_8, *, lists: bool = True) -> Iterator[bytes]:
        """The unpacked text in UTF-8, in pieces of about `size`; with `lists` those as lines."""
        try:
            yield from text_chunks(self.chunks(size), encoding, lists=lists)
        except LogError as error:
            known = str(error).startswith(str(self.path))
            raise error if known else LogError(f"{self.path}: {error}") from None

    def position(self) -> int:
        """How many bytes of the file, as it lies on disk, have been read."""
        return int(self._raw.tell())

    def _read(self, size: int) -> bytes:
        try:
            return bytes(self._stream.read(size))
        except (OSError, pa.ArrowException) as error:
            kind = self.compression or "plain"
            raise LogError(
                f"{self.path}: the {kind} data is truncated or damaged ({error}); "
                "copy the file again"
            ) from None

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
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = [file for file in sorted(path.rglob("*")) if _is_visible_file(file, path)]
        if not inside:
            raise LogError(f"{path}: a folder without files")
        found += inside
    return found


def _is_visible_file(file: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return not hidden and not file.is_dir()


def check_file(path: Path) -> None:
    """Refuse what is not a readable file, with a word on what to give instead."""
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


def _compression(raw: Any) -> str | None:
    start = bytes(raw.read(4))
    raw.seek(0)
    return next((name for magic, name in _MAGIC if start.startswith(magic)), None)
