"""Bytes of a log as lines of UTF-8, whatever encoding they came in, and lists of JSON as lines.

UTF-16, which Excel and Matomo write, is told by its first bytes; any other encoding has to be
named. A file that is one list of JSON objects, as consoles save query results, becomes one object
per line, so that every format of such lines can read it.
"""

import codecs
import json
import re
from collections.abc import Iterator

from nextquery.errors import InputError, LogError

UTF_8 = "utf-8"
LARGEST_OBJECT = 16 << 20
_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\{")
_BETWEEN = re.compile(r"[\s,\[\]\ufeff]*")
_DECODER = json.JSONDecoder()
_LOOKED_AT = 64


def check_encoding(name: str) -> None:
    """Refuse an encoding that Python does not know, or that is none of texts."""
    try:
        is_text = getattr(codecs.lookup(name), "_is_text_encoding", True)
        if is_text:  # some have a name and cannot read a log for all that: idna, undefined
            codecs.getincrementaldecoder(name)("replace").decode(b"", True)
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
    if codecs.lookup(given).name != UTF_8:
        return given
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd = start[:_LOOKED_AT:2], start[1:_LOOKED_AT:2]
    for these, others, name in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        if len(these) > 3 and not any(these) and all(others):
            return name
    return UTF_8


def _transcoded(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    while True:
        chunk = next(chunks, b"")
        try:
            text = decoder.decode(chunk, not chunk)
        except UnicodeError as error:  # what cannot be replaced, such as a missing mark of UTF-16
            raise LogError(f"the text is not in the `encoding` {encoding} ({error})") from None
        if text:
            yield text.encode("utf-8", "replace")
        if not chunk:
            return


def _objects(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """A list of objects, one per line, some lines at a time."""
    lines: list[bytes] = []
    decoder = codecs.getincrementaldecoder(UTF_8)("replace")
    text, place, count, ended = "", 0, 0, False
    while True:
        between = _BETWEEN.match(text, place)
        assert between is not None  # it may be empty
        place = between.end()
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            if ended and place == len(text):
                if lines:
                    yield b"".join(lines)
                return
            if ended or len(text) - place > LARGEST_OBJECT:
                raise LogError(
                    f"a list of JSON that is damaged or cut off after {count:,} objects"
                ) from None
            if lines:
                yield b"".join(lines)
                lines = []
            chunk = next(chunks, b"")
            ended = not chunk
            text, place = text[place:] + decoder.decode(chunk, ended), 0
            continue
        count += 1
        lines.append(json.dumps(value, ensure_ascii=True).encode() + b"\n")
