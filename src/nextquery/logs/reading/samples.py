"""The start of a log file, by which its format is told."""

from dataclasses import dataclass
from pathlib import Path

from nextquery.errors import LogError
from nextquery.logs.reading.compression import LogFile

_SAMPLE_BYTES = 64 << 10
_SAMPLE_LINES = 100


@dataclass(frozen=True)
class Sample:
    """The first lines of a file, without line ends, and its first bytes; an empty file has none."""

    file: Path
    lines: tuple[str, ...]
    start: bytes = b""


def take_sample(path: Path) -> Sample:
    """Read the start of a file, unpacked if it is compressed."""
    with LogFile(path) as file:
        start = next(file.chunks(_SAMPLE_BYTES), b"")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise LogError(f"{path}: is UTF-16; convert it to UTF-8 first")
    text = start.decode("utf-8-sig", "replace")
    lines = tuple(line.removesuffix("\r") for line in text.split("\n"))
    # The last line is cut off, unless the whole file fits.
    whole = lines if len(start) < _SAMPLE_BYTES or len(lines) == 1 else lines[:-1]
    filled = whole[:-1] if whole[-1] == "" else whole
    return Sample(path, filled[:_SAMPLE_LINES], start[:16])
