"""Hostile logs and interrupted jobs: rows, reasons or one line; bounded memory; nothing left."""

import gzip
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nextquery.errors import InputError, NextqueryError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.formats.detection import FORMATS
from nextquery.logs.prepare import prepare
from nextquery.logs.reading.read_logs import read_logs
from nextquery.logs.settings import PrepareSettings, ReadSettings
from nextquery.logs.synthetic.log import write_log

from .log_files import mutate, seeds
from .stopped_jobs import end_in_the_middle, end_job, held_at, names, nextquery

SEEDS = seeds()
COLUMNS = st.sampled_from(
    [
        *[None] * 6,
        {"user": "user", "time": "time", "query": "query"},
        {"user": "1", "time": "2", "query": "3"},
        {"user": "²", "time": "2", "query": "9" * 50},
        {"user": "a.b|c", "time": "$", "query": "''", "click": "[0]"},
        {"user": 'a"b', "time": "..", "query": ".", "click": "\0"},
    ]
)


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(sorted(SEEDS)),
    random=st.randoms(use_true_random=False),
    given_format=st.sampled_from(["own", "auto", *FORMATS]),
    columns=COLUMNS,
    zone=st.sampled_from(["UTC", "Europe/Paris"]),
)
def test_a_mutated_log_gives_rows_reasons_or_one_printable_error(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    random: Random,
    given_format: str,
    columns: dict[str, str] | None,
    zone: str,
) -> None:
    folder = tmp_path_factory.mktemp("mutated")
    (folder / "log").write_bytes(mutate(random, SEEDS[name]))
    named = name if name in FORMATS else "auto"
    chosen = named if given_format == "own" else given_format
    try:
        choice = ReadSettings(chosen, columns, zone, max_rejected=1.0)
        result = read_logs([folder / "log"], choice, folder / "work")
        parts = [pl.read_parquet(part) for part in (folder / "work" / "rows").iterdir()]
        assert sum(map(len, parts)) == result.rows_accepted
        assert result.rows_read == result.rows_accepted + sum(result.reasons.values())
        message = "no error"
    except NextqueryError as error:
        message = str(error)
    finally:
        shutil.rmtree(folder)
    assert message.isprintable(), "a control character would act on the terminal"


MOST_MEMORY = 900  # MB
MEMORY_LIMIT = 12 << 30  # a control may not take the machine with it
PEAK = """
import sys
from pathlib import Path
from nextquery.logs.formats import parquet
from nextquery.logs.reading import open
from nextquery.logs.prepare import prepare
from nextquery.logs.reading.read_logs import read_logs
from nextquery.logs.settings import PrepareSettings, ReadSettings
if sys.argv[3] == "unbounded":
    open.BLOCK_LINES = parquet.BLOCK_BYTES = 1 << 40
read_logs([Path(sys.argv[1])], ReadSettings(max_rejected=1.0), Path(sys.argv[2]))
status = Path("/proc/self/status").read_text()  # `ru_maxrss` would include the process that forked
print(int(status.split("VmHWM:")[1].split()[0]) // 1024)
"""


def peak_memory(path: Path, bound: str) -> int:
    """MB that a process needs to read a log."""
    work = path.with_name(f"{path.name}-{bound}")
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(path), str(work), bound],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT)),
    )
    assert bound == "unbounded" or done.returncode == 0, done.stderr
    return int(done.stdout) if done.returncode == 0 else MEMORY_LIMIT >> 20


def write_empty_lines(path: Path) -> None:
    with gzip.open(path, "wb") as stream:
        stream.write(SEEDS["aol"])
        for _ in range(6):
            stream.write(b"\n" * 1_000_000)


def write_long_texts(path: Path) -> None:
    rows = 4_500
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows), pa.array(["x" * 80_000]))
    table = pa.table({"user": ["u"] * rows, "time": [1_141_197_432] * rows, "query": texts})
    pq.write_table(table, path, compression="zstd")


@pytest.mark.parametrize("write", [write_empty_lines, write_long_texts])
def test_a_small_file_that_unpacks_to_a_large_one_is_read_in_bounded_memory(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / ("log.gz" if write is write_empty_lines else "log.parquet")
    write(path)
    assert path.stat().st_size < 10_000
    peak = peak_memory(path, "bounded")
    assert peak < MOST_MEMORY
    assert peak_memory(path, "unbounded") > MOST_MEMORY + 100, "control: no bound"


@pytest.mark.parametrize("name", ["pipe", "/dev/zero"])
def test_a_pipe_without_a_writer_and_an_endless_device_are_refused(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if name == "pipe":
        os.mkfifo(path)
    with pytest.raises(NextqueryError):
        prepare([path], tmp_path / "data", PrepareSettings())


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.tsv"
    write_log(path, 6000, 1)
    return path


@pytest.fixture(scope="module")
def small_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.tsv"
    write_log(path, 300, 1)
    return path


@pytest.mark.parametrize(
    ("engine", "number", "after"),
    [
        ("polars", signal.SIGINT, "work"),
        ("polars", signal.SIGTERM, "sessions"),
        ("duckdb", signal.SIGTERM, "work"),
        ("duckdb", signal.SIGINT, "sessions"),
    ],
)
def test_a_signal_ends_the_job_in_one_line_and_leaves_nothing(
    engine: str, number: signal.Signals, after: str, log: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    ending = end_in_the_middle(
        nextquery("prepare", log, "--out", data, "--engine", engine),
        number,
        published=data.exists,
        begun=lambda: any(tmp_path.rglob(after)),
        clear=lambda: shutil.rmtree(data, ignore_errors=True),
    )
    assert not ending.late
    assert ending.is_orderly(number), ending
    assert names(tmp_path) == []


def test_a_signal_after_the_folder_is_in_its_place_leaves_all_of_it(
    small_log: Path, tmp_path: Path
) -> None:
    data, number = tmp_path / "data", signal.SIGTERM
    # Next to the target is an empty folder by then; its removal is the last step.
    held = held_at("os.rmdir", ".partial", "prepare", small_log, "--out", data)
    ending = end_job(held, number, published=data.exists)
    assert ending.late
    assert ending.code == 128 + number, "it was told to end before it had said what it did"
    assert ending.is_orderly(number), ending
    assert names(tmp_path) == ["data"]
    assert PreparedData(data).artifact.entry("counts")["rows_read"] > 300


ODD_NAMES = (b"a [b] {c} *?", b"back\\slash 'q' \"z\"", b"no utf-8 \xff\xfe")


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_log_and_folder_may_have_any_name(engine: str, small_log: Path, tmp_path: Path) -> None:
    names = [tmp_path / os.fsdecode(name) / os.fsdecode(name) for name in ODD_NAMES]
    for odd in names:
        odd.parent.mkdir()
        shutil.copy(small_log, odd)
        with odd.open("ab") as stream:
            stream.write(b"broken\n")
        prepare([odd], odd.parent / "data", PrepareSettings(engine=engine, spelling=False))
        assert PreparedData(odd.parent / "data").artifact.entry("counts")["rows_rejected"] == 1
    with pytest.raises(InputError, match="Spark opens UTF-8 names only"):
        prepare([small_log], names[-1].parent / "data", PrepareSettings(engine="spark"))
