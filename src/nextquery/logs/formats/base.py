"""What a log format is: how it is recognised, cut into blocks, and turned into rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import polars as pl

from nextquery.logs.reading.compression import LogFile
from nextquery.logs.reading.encodings import UTF_8
from nextquery.logs.reading.lines import BLOCK_BYTES, LineBlock, line_blocks
from nextquery.logs.reading.rows import Layout, ParsedRows, parse_lines
from nextquery.logs.reading.samples import Sample
from nextquery.logs.reading.settings import ReadSettings


@dataclass(frozen=True)
class FileBlock:
    """Some consecutive rows of one file, still to be parsed."""

    rows: int
    position: int
    """How many bytes of the file, as it lies on disk, have been read with it."""
    parse: Callable[[], ParsedRows]


class LogFormat(ABC):
    """A format of raw logs. A new one is a file with a subclass, and a row in `FORMATS`."""

    name: ClassVar[str]
    takes_columns: ClassVar[bool] = False
    """Whether the setting `columns` says where the fields are."""
    takes_parameter: ClassVar[bool] = False
    """Whether the setting `parameter` says which parameter of an address holds the query."""

    @abstractmethod
    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Why a file that is not empty has this format, as a clause; None if it has not."""

    @abstractmethod
    def blocks(self, sample: Sample, settings: ReadSettings) -> Iterator[FileBlock]:
        """The whole file in blocks that fit in memory many times over."""


class LineFormat(LogFormat):
    """A format in which every row is a line of text, so that lines can be parsed anywhere."""

    @abstractmethod
    def layout(self, sample: Sample, settings: ReadSettings) -> Layout:
        """Where the fields of this file's lines are."""

    def blocks(self, sample: Sample, settings: ReadSettings) -> Iterator[FileBlock]:
        """The lines of the file."""
        layout = self.layout(sample, settings)
        parse = partial(self.parse, layout, settings.time_zone)
        return read_line_blocks(sample.file, parse, settings.encoding)

    def parse(self, layout: Layout, time_zone: str, block: LineBlock) -> ParsedRows:
        """The rows of a block."""
        return parse_lines(layout, block.frame(), time_zone)


class JoinedRows(NamedTuple):
    """The number of rows that a join wrote, and the staged rows that it left out."""

    written: int
    rejected: pl.DataFrame
    """file, line, place, reason, excerpt, user, time"""


class JoinedFormat(LogFormat):
    """A format whose rows are put together from several: they are staged first, then joined."""

    staged_columns: ClassVar[tuple[str, ...]]
    """The columns of accepted rows that the join needs."""

    @abstractmethod
    def join(self, staged: Path, rows: Path) -> JoinedRows:
        """Write the rows of the folder `staged`, joined, into the folder `rows`."""


def read_line_blocks(
    path: Path, parse: Callable[[LineBlock], ParsedRows], encoding: str = UTF_8
) -> Iterator[FileBlock]:
    """A text file, plain or compressed, in blocks of whole lines."""
    with LogFile(path) as file:
        for block in line_blocks(file.text(BLOCK_BYTES, encoding)):
            yield FileBlock(block.count, file.position(), partial(parse, block))
