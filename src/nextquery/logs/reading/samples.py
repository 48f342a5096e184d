"""The start of a log file, by which its format is told."""

from dataclasses import dataclass
from pathlib import Path

from nextquery.errors import LogError
from nextquery.logs.reading.compression import LogFile
from nextquery.logs.reading.encodings import UTF_8
from nextquery.logs.reading.lines import LONGEST_LINE

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
        chunks = file.text(_SAMPLE_BYTES, encoding)
        start = more = next(chunks, b"")
        while more and _too_little(start):
            more = next(chunks, b"")
            start += more
    binary = start.startswith((b"PAR1", *WORKBOOKS))
    if b"\r" in start.rstrip(b"\r") and b"\n" not in start and not binary:
        raise LogError(f"{path}: its lines end in CR alone; turn every CR into LF first")
    text = start.decode("utf-8-sig", "replace")
    lines = tuple(line.removesuffix("\r") for line in text.split("\n"))
    # The last line may be cut off, unless the whole file fits.
    whole = lines if not more or len(lines) == 1 else lines[:-1]
    filled = whole[:-1] if whole[-1] == "" else whole
    return Sample(path, filled[:_SAMPLE_LINES], start[:16])


def _too_little(start: bytes) -> bool:
    """Whether more is needed; texts in other encodings come in smaller pieces."""
    return len(start) < _SAMPLE_BYTES or (b"\n" not in start and len(start) <= LONGEST_LINE)
