"""A line format reads whole files in blocks, whatever their size and compression."""

import gzip
from pathlib import Path

import pytest

from nextquery.logs.formats import base
from nextquery.logs.formats.base import read_line_blocks
from nextquery.logs.formats.delimited import EXCITE_LAYOUT, ExciteFormat
from nextquery.logs.reading.lines import LineBlock
from nextquery.logs.reading.open import LogFile, take_sample
from nextquery.logs.reading.rows import ParsedRows, parse_lines
from nextquery.logs.settings import ReadSettings

ROWS = b"".join(b"u\t970916105432\tquery %d\n" % number for number in range(50))


def _parse(block: LineBlock) -> ParsedRows:
    return parse_lines(EXCITE_LAYOUT, block.frame())


@pytest.mark.parametrize("packed", [False, True])
def test_blocks_hold_all_rows_and_say_how_far_they_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setattr(base, "BLOCK_BYTES", 200)
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(ROWS) if packed else ROWS)
    with LogFile(path) as file:
        blocks = list(read_line_blocks(file, _parse))
    assert len(blocks) > 3
    assert sum(block.rows for block in blocks) == 50
    assert blocks[-1].position == path.stat().st_size
    queries = [text for block in blocks for text in block.parse().accepted["query"]]
    assert queries == [f"query {number}" for number in range(50)]


def test_a_line_format_parses_by_its_layout(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(ROWS + b"broken\n")
    with LogFile(path) as file:
        (block,) = ExciteFormat().blocks(file, take_sample(path), ReadSettings())
    accepted, rejected = block.parse()
    assert (len(accepted), rejected["line"].to_list()) == (50, [51])
