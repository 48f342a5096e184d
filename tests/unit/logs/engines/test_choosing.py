import gzip
from pathlib import Path

import pytest

from nextquery.errors import LogError
from nextquery.logs.engines.choosing import choose_engine, free_memory, unpacked_size

TEXT = b"".join(b"%d\tred shoes\t2006-03-01 07:17:12\n" % number for number in range(50_000))


def test_the_size_of_a_packed_file_is_about_that_of_its_text(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(TEXT)
    (tmp_path / "packed").write_bytes(gzip.compress(TEXT))
    assert unpacked_size(tmp_path / "plain") == len(TEXT)
    assert unpacked_size(tmp_path / "packed") == pytest.approx(len(TEXT), rel=0.1)


def test_polars_while_the_tables_fit_and_duckdb_beyond(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(TEXT)
    large = choose_engine([tmp_path / "log"], free=8 << 30)
    assert large.name == "polars"
    assert large.reason.startswith("the log has about 2 MB, for which Polars needs about 0.4 GB")
    assert choose_engine([tmp_path / "log"], free=256 << 20).name == "duckdb"


def test_free_memory_is_that_of_this_machine() -> None:
    assert 10 << 20 < free_memory() < 1 << 50


def test_a_missing_log_is_refused_as_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="no such file"):
        choose_engine([tmp_path / "none"])
