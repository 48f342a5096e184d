import gzip
from pathlib import Path

import pytest

from nextquery.errors import LogError
from nextquery.logs.engines import base, duckdb
from nextquery.logs.engines.base import allowed_memory, choose_engine, free_memory, unpacked_size

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


def test_a_missing_log_is_refused_as_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="no such file"):
        choose_engine([tmp_path / "none"])


VERSION_1 = {
    "memory/job/1/memory.limit_in_bytes": "9223372036854771712",
    "memory/job/memory.limit_in_bytes": str(600 << 20),
    "memory/job/memory.usage_in_bytes": str(500 << 20),
    "memory/job/memory.stat": f"cache 7\ninactive_file 7\ntotal_inactive_file {300 << 20}\n",
}
VERSION_2 = {
    "job/1/memory.max": "max",
    "job/memory.max": str(600 << 20),
    "job/memory.current": str(500 << 20),
    "job/memory.stat": f"anon 7\ninactive_file {300 << 20}\n",
}
CONTAINER = {name.removeprefix("job/"): text for name, text in VERSION_2.items()}


@pytest.mark.parametrize(
    ("own", "files"),
    [
        ("9:cpu,memory:/job/1\n1:name=systemd:/\n0::/\n", VERSION_1),
        ("0::/job/1\n", VERSION_2),
        ("0::/somewhere/else\n", CONTAINER),
    ],
)
def test_the_limit_of_a_control_group_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, files: dict[str, str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "own").write_text(own)
    monkeypatch.setattr(base, "_CGROUPS", tmp_path)
    monkeypatch.setattr(base, "_OWN_CGROUPS", tmp_path / "own")
    assert allowed_memory() == 600 << 20
    assert free_memory() == 400 << 20
    assert duckdb._memory_limit() == 300


def test_without_a_limit_it_is_the_machine_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_OWN_CGROUPS", tmp_path / "none")
    assert allowed_memory() >= free_memory()
    assert 64 <= duckdb._memory_limit() <= 2048
