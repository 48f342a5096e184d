"""The footer of a Parquet file: column names and sizes, which Polars does not report.

The sizes show before anything is unpacked whether a small file would unpack to a huge one. The
footer is a Thrift struct in the compact protocol, https://thrift.apache.org/docs/idl.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MAGIC = b"PAR1"
_LARGEST_FOOTER = 64 << 20
_DEEPEST = 16
"""Levels of nested structs; the footers of Parquet have six."""
_BOOLEANS, _BYTE, _INTEGERS, _DOUBLE, _BYTES, _LISTS, _MAP, _STRUCT = (
    (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 11, 12,
)  # fmt: skip
# The numbers of fields in parquet.thrift.
_SCHEMA, _ROWS, _GROUPS = 2, 3, 4
_NAME, _CHILDREN = 4, 5
_GROUP_COLUMNS, _GROUP_ROWS = 1, 3
_CHUNK_META = 3
_PATH, _UNPACKED, _PACKED = 3, 6, 7


@dataclass(frozen=True)
class ColumnChunk:
    """A column of a row group: its path, rows, and bytes before and after compression."""

    path: str
    rows: int
    unpacked: int
    packed: int


@dataclass(frozen=True)
class Footer:
    """What a Parquet file says of itself."""

    names: list[str]
    """Of the top-level columns."""
    rows: int
    groups: list[list[ColumnChunk]]
    """The columns of each row group."""


def read_footer(path: Path) -> Footer:
    """Read the footer of a file; a damaged one raises `ValueError`."""
    _, data = _read_end(path)
    try:
        return _footer(_Reader(data).struct())
    except (AttributeError, IndexError, KeyError, TypeError, UnicodeDecodeError):
        raise ValueError("damaged Parquet footer") from None


def find_arrow_schema(path: Path) -> int:
    """Where in the file the name of Arrow's description of the columns is."""
    start, data = _read_end(path)
    position = data.rfind(b"ARROW:schema")
    if position < 0:
        raise ValueError("damaged Parquet footer")
    return start + position


def _read_end(path: Path) -> tuple[int, bytes]:
    """The footer's bytes, and where they begin."""
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - 8))
        end = stream.read(8)
        length = int.from_bytes(end[:4], "little")
        if size < 12 or end[4:] != _MAGIC or length > min(size - 8, _LARGEST_FOOTER):
            raise ValueError("no Parquet footer: the file is damaged or cut off")
        start = stream.seek(size - 8 - length)
        return start, stream.read(length)


def _footer(metadata: dict[int, Any]) -> Footer:
    names, skip = [], 0
    for element in metadata[_SCHEMA][1:]:  # the first is the root
        if not skip:
            names.append(element[_NAME].decode())
        # Children follow their parent, each perhaps with children of its own.
        skip = max(0, skip - 1) + element.get(_CHILDREN, 0)
    groups = [
        [
            ColumnChunk(
                ".".join(part.decode() for part in chunk[_CHUNK_META][_PATH]),
                group[_GROUP_ROWS],
                chunk[_CHUNK_META][_UNPACKED],
                chunk[_CHUNK_META][_PACKED],
            )
            for chunk in group[_GROUP_COLUMNS]
        ]
        for group in metadata[_GROUPS]
    ]
    return Footer(names, int(metadata[_ROWS]), groups)


class _Reader:
    """Decodes a Thrift struct as a dictionary of field numbers and values."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > _DEEPEST:
            raise ValueError("damaged Parquet footer")
        fields: dict[int, Any] = {}
        number = 0
        while kind := self._byte():
            delta, kind = kind >> 4, kind & 15
            number = number + delta if delta else self._integer()
            fields[number] = kind == 1 if kind in _BOOLEANS else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _BOOLEANS or kind == _BYTE:
            return self._byte()
        if kind in _INTEGERS:
            return self._integer()
        if kind == _DOUBLE:
            return self._take(8)
        if kind == _BYTES:
            return self._take(self._unsigned())
        if kind in _LISTS:
            head = self._byte()
            count = self._unsigned() if head >> 4 == 15 else head >> 4
            self._check(count)
            return [self._value(head & 15, depth + 1) for _ in range(count)]
        if kind == _MAP:
            count = self._unsigned()
            self._check(count)
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._value(kinds >> 4, depth + 1)
                self._value(kinds & 15, depth + 1)
            return None
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise ValueError("damaged Parquet footer")

    def _integer(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)

    def _unsigned(self) -> int:
        number = shift = 0
        while (byte := self._byte()) & 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise ValueError("damaged Parquet footer")
        return number | byte << shift

    def _byte(self) -> int:
        byte = self._data[self._position]
        self._position += 1
        return byte

    def _take(self, size: int) -> bytes:
        self._check(size)
        self._position += size
        return self._data[self._position - size : self._position]

    def _check(self, size: int) -> None:
        """Refuse a length beyond the end; every item of a list takes at least one byte."""
        if size > len(self._data) - self._position:
            raise ValueError("damaged Parquet footer")
