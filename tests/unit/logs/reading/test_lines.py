import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.logs.reading import lines
from nextquery.logs.reading.lines import line_blocks

NO_LINES = pl.DataFrame(schema={"line": pl.Int64, "text": pl.Binary})


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@given(st.binary(max_size=200), st.integers(1, 50))
def test_blocks_hold_every_line_once_with_its_number(data: bytes, size: int) -> None:
    data = data.removeprefix(b"\xef\xbb\xbf")
    expected = data.split(b"\n")
    expected = expected[:-1] if expected[-1] == b"" else expected
    frames = [block.frame() for block in line_blocks(cut(data, size))]
    found = pl.concat([frame.cast({"text": pl.Binary}) for frame in frames] or [NO_LINES])
    assert found["text"].to_list() == expected
    assert found["line"].to_list() == list(range(1, len(expected) + 1))


def test_byte_order_mark_is_no_part_of_the_first_line() -> None:
    (block,) = line_blocks([b"\xef\xbb\xbfuser\n"])
    assert block.frame()["text"].to_list() == ["user"]


@pytest.mark.parametrize("size", [1, 7, 64])
def test_long_line_is_cut_and_the_lines_after_it_keep_their_numbers(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 20)
    data = b"short\n" + b"x" * 500 + b"\nlast"
    found = pl.concat(block.frame() for block in line_blocks(cut(data, size)))
    assert found["line"].to_list() == [1, 2, 3]
    assert found["text"][0] == "short"
    assert len(found["text"][1]) > 20
    assert found["text"][2] == "last"


def test_no_more_than_the_limit_is_held_of_an_endless_line() -> None:
    def endless() -> "list[bytes]":
        return [b"x" * (1 << 20)] * 100

    (block,) = line_blocks(endless())
    assert len(block.data) == lines.LONGEST_LINE + 2  # one byte beyond, and the line end


@given(st.binary(max_size=200), st.integers(1, 50), st.integers(1, 5))
def test_no_block_has_more_lines_than_the_limit(data: bytes, size: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_LINES", most)
        found = list(line_blocks(cut(data, size)))
    assert all(1 <= block.count <= most for block in found)
    assert all(block.data.count(b"\n") == block.count for block in found)
    firsts = [block.first for block in found]
    assert firsts == [
        1 + sum(block.count for block in found[:number]) for number in range(len(found))
    ]
    whole = b"".join(block.data for block in found)
    assert whole.rstrip(b"\n") == data.removeprefix(b"\xef\xbb\xbf").rstrip(b"\n")


def test_empty_lines_are_many_rows_and_few_bytes() -> None:
    blocks = list(line_blocks([b"\n" * 1_000_000]))
    assert [block.count for block in blocks] == [400_000, 400_000, 200_000]
