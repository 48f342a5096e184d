"""Encodings of text logs: everything becomes UTF-8, and a list of JSON objects becomes lines.

`scan_objects` reads JSON text. A streaming parser such as ijson would read the same, but refuses a
whole file for one byte that is not UTF-8, and does not give the text of an object as it is written.
"""

import codecs
import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from nextquery.errors import InputError, LogError

UTF_8 = "utf-8"
_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\{")
_LINE_ENDS = str.maketrans("\r\n", "  ")
_LOOKED_AT = 64

MALFORMED = "\udc80"
"""Stands for bytes that cannot be decoded: a lone surrogate, which valid UTF-8 cannot contain."""
_MARKING = "nextquery-malformed"
_CONTROLS = dict.fromkeys(range(0x80, 0xA0), MALFORMED)
"""The C1 controls, which are never typed: latin-1 reads the quotation marks of cp1252 as these."""
_MOJIBAKE = 4
"""A text with this number of UTF-8 characters, and nothing else beyond ASCII, is UTF-8. Encodings
of two bytes per character produce some by accident: there, this number of different ones."""
_SHIFTED_LINE_END = 0x0A00
"""A line end of UTF-16 that is read from its second byte on; no character has this number."""
_MOST_SHIFTS = 1000


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return MALFORMED, error.end


codecs.register_error(_MARKING, _mark)


def check_encoding(name: str) -> None:
    """Refuse an encoding that Python does not know or that is not for text."""
    try:
        is_text = getattr(codecs.lookup(name), "_is_text_encoding", True)
        if is_text:  # some have a name but cannot decode a log: idna, undefined
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
    detected = _encoding(start, encoding)
    if detected != UTF_8:
        start, chunks = _peeked(_transcoded(chunks, detected))
    return _as_lines(chunks) if lists and _LIST.match(start) else chunks


def _peeked(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes, and all chunks."""
    waiting = [next(chunks, b"")]
    return waiting[0][:_LOOKED_AT], _with_first(waiting, chunks)


def _with_first(waiting: list[bytes], chunks: Iterator[bytes]) -> Iterator[bytes]:
    yield waiting.pop()  # chunks are large: keep no reference
    yield from chunks


def _encoding(start: bytes, given: str) -> str:
    """UTF-16 has a mark, or every other byte is NUL as long as letters are Latin ones."""
    if codecs.lookup(given).name not in (UTF_8, "utf-8-sig"):
        return given
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd = start[:_LOOKED_AT:2], start[1:_LOOKED_AT:2]
    for zeros, letters, name in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        if len(zeros) > 3 and not any(zeros) and all(letters):
            return name
    return UTF_8


def _transcoded(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    name = codecs.lookup(encoding).name
    try:
        if name.startswith("utf-16"):
            texts = _utf_16_texts(chunks, name)
        elif name.startswith("utf-32"):
            # After a missing byte everything is malformed, in an unknown number of rows.
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
    """Texts in UTF-16. After a missing or added byte they continue on the next line."""
    import numpy as np  # imported here: `--help` imports this module

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
            end = 2 * int(shifted.argmax())
            yield decoder.decode(data[:end], True) + MALFORMED + "\n"
            decoder.reset()
            # The line end is the second byte of this unit and the one after it, or the byte before
            # this unit and its first one.
            data, skipped = data[end:], 3 if little else 1
            shifts += 1
            if shifts > _MOST_SHIFTS:
                raise LogError("UTF-16 that is damaged throughout; convert the file to UTF-8")
    yield decoder.decode(data[skipped:], True)


def _as_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """A list of objects, one per line, in pieces about as large as those that come in."""
    waiting = [next(chunks, b"")]
    most = len(waiting[0])
    lines, size = [], 0
    for written, _ in scan_objects(_with_first(waiting, chunks)):
        # As it is written: what is not UTF-8 stays so, and the row is rejected.
        line = written.translate(_LINE_ENDS).encode("utf-8", "surrogateescape") + b"\n"
        lines.append(line)
        size += len(line)
        if size >= most:
            yield b"".join(lines)
            lines, size = [], 0
    yield b"".join(lines)


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
