"""Files cut into pieces that can be parsed side by side, whatever their format.

Knows which parser goes with which format, and counts rows and bytes on the way. Does not know what
becomes of a parsed piece.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nextquery.logs.formats.detection import Sample
from nextquery.logs.formats.layouts import layout_of
from nextquery.logs.formats.parquet import parse_batch, read_batches
from nextquery.logs.formats.ubi import parse_ubi
from nextquery.logs.reading.compression import LogFile
from nextquery.logs.reading.lines import BLOCK_BYTES, Block, blocks
from nextquery.logs.reading.plain import parse_block
from nextquery.logs.reading.rows import Parsed

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Piece:
    """A part of one file, still to be parsed; `rows_before` counts the lines of earlier files."""

    file: Path
    rows_before: int
    parse: Callable[[], Parsed]


@dataclass(frozen=True)
class _Part:
    """A number of rows of one file, and how far into the file they reach."""

    rows: int
    position: int
    parse: Callable[[], Parsed]


def cut(
    samples: Sequence[Sample],
    format: str,
    columns: Mapping[str, str] | None,
    time_zone: str,
    progress: Progress,
) -> Iterator[Piece]:
    """All files in order, as pieces that each fit in memory many times over."""
    sizes = [sample.file.stat().st_size for sample in samples]
    rows_before = 0
    for number, sample in enumerate(samples):
        rows = 0
        for part in _parts(sample, format, columns, time_zone):
            yield Piece(sample.file, rows_before, part.parse)
            rows += part.rows
            progress(sum(sizes[:number]) + part.position, sum(sizes))
        rows_before += rows


def _parts(
    sample: Sample, format: str, columns: Mapping[str, str] | None, time_zone: str
) -> Iterator[_Part]:
    if format == "parquet":
        return _parquet_parts(sample.file, columns, time_zone)
    if format == "ubi":
        return _line_parts(sample.file, partial(_parse_ubi_block, time_zone))
    layout = layout_of(format, columns, sample)
    return _line_parts(sample.file, partial(parse_block, layout, time_zone))


def _line_parts(path: Path, parse: Callable[[Block], Parsed]) -> Iterator[_Part]:
    with LogFile(path) as file:
        for block in blocks(file.chunks(BLOCK_BYTES)):
            yield _Part(block.count, file.position(), partial(parse, block))


def _parquet_parts(
    path: Path, columns: Mapping[str, str] | None, time_zone: str
) -> Iterator[_Part]:
    size = path.stat().st_size
    for share, batch in read_batches(path, columns):
        yield _Part(len(batch), int(size * share), partial(parse_batch, batch, time_zone))


def _parse_ubi_block(time_zone: str, block: Block) -> Parsed:
    return parse_ubi(block.frame(), time_zone)
