"""Opening a log file: decompression, encodings, and a sample of its start."""

import bz2
import codecs
import gzip
import hashlib
import json
import re
import stat
import sys
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

import numpy as np

from nextquery.errors import InputError, LogError
from nextquery.logs.reading.lines import LONGEST_LINE

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

UTF_8 = "utf-8"
LARGEST_OBJECT = 16 << 20
_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\{")
_BETWEEN = re.compile(r"[\s,\[\]\ufeff]*")
_LINE_ENDS = str.maketrans("\r\n", "  ")
_DECODER = json.JSONDecoder()
_LOOKED_AT = 64

MALFORMED = "\udc80"
"""Written for what cannot be decoded: half a character, which no UTF-8 has."""
_MARKING = "nextquery-malformed"
_CONTROLS = dict.fromkeys(range(0x80, 0xA0), MALFORMED)
"""The C1 controls, which nobody types: latin-1 reads the quotation marks of cp1252 as these."""
_MOJIBAKE = 4
"""So many characters of UTF-8, and nothing else beyond ASCII, are no accident. In encodings of two
bytes per character some are: there, so many different ones."""
_SHIFTED_LINE_END = 0x0A00
"""A line end of UTF-16 that is read from its second byte on; no character has this number."""
_MOST_SHIFTS = 1000


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return MALFORMED, error.end


codecs.register_error(_MARKING, _mark)


def check_encoding(name: str) -> None:
    """Refuse an encoding that Python does not know, or that is none of texts."""
    try:
        is_text = getattr(codecs.lookup(name), "_is_text_encoding", True)
        if is_text:  # some have a name and cannot read a log for all that: idna, undefined
            codecs.getincrementaldecoder(name)(_MARKING).decode(b"", True)
    except (LookupError, ValueError):
        is_text = False
    if not is_text:
        raise InputError(
            f"`encoding` {name!r} is unknown; use a name such as utf-8, utf-16 or cp1252"
        )


def text_chunks(
    chunks: Iterator[bytes], encoding: str = UTF_8, *, lists: bool = True
) -> Iterator[bytes]:
    """The same text in UTF-8, and with `lists` a list of JSON objects as lines.

    >>> b"".join(text_chunks(iter([b'[{"a": 1}, ', b'{"a": 2}]'])))
    b'{"a": 1}\\n{"a": 2}\\n'
    """
    start, chunks = _peeked(chunks)
    found = _encoding(start, encoding)
    if found != UTF_8:
        start, chunks = _peeked(_transcoded(chunks, found))
    return _objects(chunks) if lists and _LIST.match(start) else chunks


def _peeked(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes, and all chunks."""
    waiting = [next(chunks, b"")]
    return waiting[0][:_LOOKED_AT], _with_first(waiting, chunks)


def _with_first(waiting: list[bytes], chunks: Iterator[bytes]) -> Iterator[bytes]:
    yield waiting.pop()  # a chunk is large: nobody may keep it
    yield from chunks


def _encoding(start: bytes, given: str) -> str:
    """UTF-16 has a mark, or every other byte is NUL as long as letters are Latin ones."""
    if codecs.lookup(given).name not in (UTF_8, "utf-8-sig"):
        return given
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd = start[:_LOOKED_AT:2], start[1:_LOOKED_AT:2]
    for these, others, name in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        if len(these) > 3 and not any(these) and all(others):
            return name
    return UTF_8


def _transcoded(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    name = codecs.lookup(encoding).name
    try:
        if name.startswith("utf-16"):
            texts = _utf_16_texts(chunks, name)
        elif name.startswith("utf-32"):
            # Behind a missing byte all is malformed, and nobody can say how many rows that is.
            texts = _texts(chunks, name, "strict")
        else:
            texts = _checked_texts(chunks, encoding)
        for text in texts:
            if text:
                yield text.encode("utf-8", "surrogatepass")
    except UnicodeError as error:
        raise LogError(f"the text is not in the `encoding` {encoding} ({error})") from None


def _texts(chunks: Iterator[bytes], encoding: str, errors: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    for chunk in chunks:
        yield decoder.decode(chunk)
    yield decoder.decode(b"", True)


def _checked_texts(chunks: Iterator[bytes], encoding: str) -> Iterator[str]:
    """Texts in an encoding of bytes; one that is UTF-8 in truth is refused."""
    extends_ascii = is_ascii_superset(encoding)
    if extends_ascii and codecs.lookup(encoding).name != "ascii":
        chunks = _refuse_utf_8(chunks, encoding)
    for text in _texts(chunks, encoding, _MARKING):
        yield text.translate(_CONTROLS) if extends_ascii and not text.isascii() else text


def is_ascii_superset(encoding: str) -> bool:
    """Whether the bytes of ASCII mean the same in this encoding."""
    plain = bytes(range(0x20, 0x7F)) + b"\t\n"
    try:
        return plain.decode(encoding) == plain.decode("ascii")
    except UnicodeError:
        return False


def decode_bytes(data: bytes, encoding: str) -> str:
    """Text in UTF-8 or else in the named encoding; `UnicodeDecodeError` where it is in neither.

    >>> decode_bytes(b"caf\\xe9", "cp1252"), decode_bytes(b"caf\\xc3\\xa9", "cp1252")
    ('café', 'café')
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        if not is_ascii_superset(encoding):
            raise
    text = data.decode(encoding)
    if MALFORMED in text.translate(_CONTROLS):
        raise UnicodeDecodeError(encoding, data, 0, len(data), "a control character")
    return text


def _refuse_utf_8(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """The same chunks, unless all that is not ASCII in them is UTF-8."""
    decoder = codecs.getincrementaldecoder(UTF_8)("strict")
    single_bytes = len(b"\xc3\xa9".decode(encoding, "replace")) == 2
    count, different = 0, set[str]()
    for chunk in chunks:
        try:
            text = decoder.decode(chunk)
        except UnicodeDecodeError:
            yield chunk
            break
        count += len(text) - len(text.encode("ascii", "ignore"))
        different |= {character for character in set(text) if not character.isascii()}
        if (count if single_bytes else len(different)) >= _MOJIBAKE:
            raise LogError(f"the text is UTF-8, not {encoding}; leave out `encoding`")
        yield chunk
    yield from chunks


def _utf_16_texts(chunks: Iterator[bytes], name: str) -> Iterator[str]:
    """Texts in UTF-16. Behind a missing or added byte they are read on from the next line."""
    data = b""
    while len(data) < 2 and (chunk := next(chunks, b"")):
        data += chunk
    if name == "utf-16":
        marks = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
        if data and data[:2] not in marks:
            raise UnicodeError("it does not start with a byte-order mark")
        name, data = marks.get(data[:2], "utf-16-le"), data[2:]
    little = name == "utf-16-le"
    decoder, shifts, skipped = codecs.getincrementaldecoder(name)(_MARKING), 0, 0
    for chunk in chain([data], chunks):
        data = (b"" if chunk is data else data) + chunk
        while len(data) > skipped:
            data, skipped = data[skipped:], 0
            units = np.frombuffer(data, "<u2" if little else ">u2", len(data) // 2)
            shifted = units == _SHIFTED_LINE_END
            if not shifted.any():
                yield decoder.decode(data[: 2 * len(units)])
                data = data[2 * len(units) :]
                break
            place = 2 * int(shifted.argmax())
            yield decoder.decode(data[:place], True) + MALFORMED + "\n"
            decoder.reset()
            # The line end is the second byte of this unit and the one after it, or the byte before
            # this unit and its first one.
            data, skipped = data[place:], 3 if little else 1
            shifts += 1
            if shifts > _MOST_SHIFTS:
                raise LogError("UTF-16 that is damaged throughout; convert the file to UTF-8")
    yield decoder.decode(data[skipped:], True)


def _objects(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """A list of objects, one per line, some lines at a time."""
    lines: list[bytes] = []
    decoder = codecs.getincrementaldecoder(UTF_8)("surrogateescape")
    text, place, count, ended, depth = "", 0, 0, False, 0
    while True:
        between = _BETWEEN.match(text, place)
        assert between is not None  # it may be empty
        depth += between[0].count("[") - between[0].count("]")
        place = between.end()
        try:
            _, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            whole = ended and place == len(text) and depth == 0
            if lines and (whole or not ended):
                yield b"".join(lines)
                lines = []
            if whole:
                return
            if ended or len(text) - place > LARGEST_OBJECT:
                raise LogError(
                    f"a list of JSON that is damaged or cut off after {count:,} objects; "
                    "export or copy it again"
                ) from None
            chunk = next(chunks, b"")
            ended = not chunk
            text, place = text[place:] + decoder.decode(chunk, ended), 0
            continue
        count += 1
        # As it is written: what is not UTF-8 stays so, and the row is rejected.
        written = text[place:end].translate(_LINE_ENDS)
        lines.append(written.encode("utf-8", "surrogateescape") + b"\n")
        place = end


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
        """How many bytes of the file, compressed as it is, have been read."""
        return self._raw.tell()

    def _read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except (OSError, EOFError, zlib.error, zstd.ZstdError) as error:
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
    wanted = sorted(set(sizes))
    digest, size, beginnings = hashlib.sha256(), 0, {}
    with LogFile(path) as file:
        for chunk in file.chunks(_CHUNK):
            start = 0
            while wanted and wanted[0] < size + len(chunk):
                end = wanted[0] - size
                digest.update(chunk[start:end])
                beginnings[wanted.pop(0)] = digest.hexdigest()
                start = end
            digest.update(chunk[start:])
            size += len(chunk)
    return ContentHash(digest.hexdigest(), size, beginnings)


def stamp(path: Path) -> tuple[int, ...]:
    """What changes when a file is written to while it is read."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
