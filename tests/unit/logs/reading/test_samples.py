import gzip
from pathlib import Path

import pytest

from nextquery.errors import LogError
from nextquery.logs.reading.open import take_sample


def sample(tmp_path: Path, content: bytes) -> tuple[str, ...]:
    path = tmp_path / "log"
    path.write_bytes(content)
    return take_sample(path).lines


def test_lines_come_without_ends_and_without_a_byte_order_mark(tmp_path: Path) -> None:
    assert sample(tmp_path, b"\xef\xbb\xbfa\r\nb\nc") == ("a", "b", "c")
    assert sample(tmp_path, gzip.compress(b"a\nb\n")) == ("a", "b")
    assert sample(tmp_path, b"") == ()


def test_a_cut_line_is_left_out_and_lines_are_few(tmp_path: Path) -> None:
    lines = sample(tmp_path, b"x" * 40_000 + b"\n" + b"y" * 40_000)
    assert [len(line) for line in lines] == [40_000]
    assert len(sample(tmp_path, b"a\n" * 1000)) == 100
    assert len(sample(tmp_path, b"x" * (3 << 20))[0]) <= (1 << 20) + (64 << 10)


def test_the_first_bytes_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"PAR1 and more")
    assert take_sample(path).start.startswith(b"PAR1")


def test_utf_16_is_read(tmp_path: Path) -> None:
    assert sample(tmp_path, "user\tq\n".encode("utf-16")) == ("user\tq",)


def test_a_header_of_many_columns_is_seen_whole(tmp_path: Path) -> None:
    header = ",".join(f"column {number}" for number in range(20_000))
    assert sample(tmp_path, header.encode() + b"\n1,2\n")[0] == header


def test_lines_that_end_in_cr_alone_are_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="its lines end in CR alone"):
        sample(tmp_path, b"user,time,query\r1,2,red\r")
    assert sample(tmp_path, b"user,time,query\r\n") == ("user,time,query",)
