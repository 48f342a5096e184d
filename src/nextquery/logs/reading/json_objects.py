"""Values in JSON text of any length: a list, a document with a list, or one after the other.

A streaming parser such as ijson would read the same, but refuses a whole file for one byte that is
not UTF-8, and does not give the text of an object as it is written.
"""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

from nextquery.errors import LogError

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
