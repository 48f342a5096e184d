"""Promises about raw logs: mutated files, bombs, pipes, equal engines, signals.

Each control is the same test on something that lacks the promise: a reader without rules, blocks
without a bound, another setting, a signal that nobody can hear.
"""

import csv
import gzip
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))

from nextquery.errors import NextqueryError
from nextquery.logs.formats.table import FORMATS
from nextquery.logs.prepare import prepare
from nextquery.logs.reading.read_logs import read_logs
from nextquery.logs.reading.settings import ReadSettings
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log
from promises.log_files import mutate, seeds, workbook
from promises.rows import Row
from promises.stopped_jobs import Ending, end_in_the_middle, names, nextquery

AREA = "logs"
_MOST_MEMORY = 900  # MB
_LIMIT = 12 << 30  # a control may not take the machine with it
_PEAK = """
import resource, sys
from pathlib import Path
from nextquery.errors import LogError
from nextquery.logs.formats import parquet
from nextquery.logs.reading import lines
from nextquery.logs.reading.read_logs import read_logs
from nextquery.logs.reading.settings import ReadSettings
if sys.argv[3] == "unbounded":
    lines.BLOCK_LINES = parquet.BLOCK_BYTES = 1 << 40
if sys.argv[3] == "uncut":
    from nextquery.logs.formats import clicks
    clicks._LONGEST_TEXT = 1 << 40
try:
    read_logs([Path(sys.argv[1])], ReadSettings(max_rejected=1.0), Path(sys.argv[2]))
except LogError:
    if sys.argv[3] != "refused":
        raise
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nextquery-logs-") as name:
        yield Path(name)


def mutated_logs(quick: bool) -> Row:
    """Files of every format after accidents: rows, reasons or one error."""
    files, tried, held, broken = seeds(), 60 if quick else 4000, 0, 0
    for number in range(tried):
        chance = random.Random(number)
        name = chance.choice(sorted(files))
        data = mutate(chance, files[name])
        given = chance.choice(["auto", name if name in FORMATS else "auto", *FORMATS])
        held += _reads_or_refuses(data, given)
        broken += not _plain_reader_survives(name, data)
    promise = "a mutated log of any format gives rows, reasons or one error of one line"
    return Row(AREA, promise, tried, held, "readers of the standard library and Polars", broken)


def _reads_or_refuses(data: bytes, format: str) -> bool:
    with _folder() as folder:
        (folder / "log").write_bytes(data)
        try:
            settings = ReadSettings(format, max_rejected=1.0)
            found = read_logs([folder / "log"], settings, folder / "work")
        except NextqueryError as error:
            return str(error).isprintable()
        except Exception:  # what the promise rules out
            return False
        return found.rows_read == found.rows_accepted + sum(found.reasons.values())


def _plain_reader_survives(name: str, data: bytes) -> bool:
    try:
        if name == "excel":
            zipfile.ZipFile(io.BytesIO(data)).testzip()
        elif name.startswith("parquet"):
            pl.read_parquet(io.BytesIO(data))
        elif name == "gzip":
            gzip.decompress(data).decode()
        elif name in ("ndjson", "elastic", "ubi", "ga4", "matomo", "algolia"):
            for line in data.decode().splitlines():
                json.loads(line)
        else:
            list(csv.reader(data.decode().splitlines(), strict=True))
    except Exception:  # any, as a traceback would be
        return False
    return True


def bombs(quick: bool) -> Iterator[Row]:
    """Small files that unpack to large ones."""
    with _folder() as folder:
        for name, path in (
            ("a gzip of empty lines", _empty_lines(folder, 6 if quick else 143)),
            ("a Parquet column of one long text", _long_text(folder, 4_500 if quick else 100_000)),
        ):
            size = path.stat().st_size
            peak = _peak(path, folder, "bounded")
            unbounded = _peak(path, folder, "unbounded")
            yield Row(
                AREA,
                f"{name} is read in under {_MOST_MEMORY} MB of memory",
                1,
                int(peak < _MOST_MEMORY),
                "blocks without a bound in rows or bytes",
                int(unbounded > max(_MOST_MEMORY, 2 * peak)),
                f"{size / 1000:.0f} kB; peak {peak} MB, unbounded {unbounded} MB",
            )


def workbook_bombs(quick: bool) -> Row:
    """Workbooks of a few kilobytes that span a huge table or unpack to one."""
    rows: list[list[object]] = [["time", "user", "query"], ["2024-03-01 10:00:00", "u", "red"]]
    sheet = "xl/worksheets/sheet1.xml"
    corners = ((1_048_576, b"XFD"), (40_000, b"XFD"), (1_048_576, b"AA"))
    far = [b'<row r="%d"><c r="%s%d"><v>1</v></c></row>' % (n, col, n) for n, col in corners]
    blank = b" " * 450_000_000
    held = 0
    with _folder() as folder:
        for number, addition in enumerate([*far, *([] if quick else [blank])]):
            path = folder / f"bomb{number}.xlsx"
            path.write_bytes(_with_part(workbook(rows), sheet, addition))
            held += _peak(path, folder, "refused") < _MOST_MEMORY
        code = "import sys, python_calamine as c; c.load_workbook(sys.argv[1])"
        code += ".get_sheet_by_index(0).to_python()"
        command = [sys.executable, "-c", code, str(folder / "bomb1.xlsx")]
        plain = subprocess.run(command, capture_output=True, preexec_fn=_limited)
    return Row(
        AREA,
        f"a workbook that spans or unpacks to a huge table takes under {_MOST_MEMORY} MB",
        len(far) + (not quick),
        held,
        "its library alone (12 GB of memory allowed)",
        int(plain.returncode != 0),
    )


def _with_part(book: bytes, name: str, addition: bytes) -> bytes:
    """A workbook with more at the end of a sheet."""
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(book)) as old,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for each in old.namelist():
            end = addition + b"</sheetData>" if each == name else b"</sheetData>"
            new.writestr(each, old.read(each).replace(b"</sheetData>", end))
    return stream.getvalue()


def long_queries(quick: bool) -> Iterator[Row]:
    """UBI queries of 100,000 letters by the thousand; the control joins them as they are.

    Left out of the quick form: a unit test holds that they are cut.
    """
    if quick:
        return
    line = (
        b'{"query_id":"q%d","client_id":"c","timestamp":"2024-03-01T10:00:00Z","user_query":"%s"}\n'
    )
    with _folder() as folder:
        path = folder / "ubi.json.gz"
        with gzip.open(path, "wb", compresslevel=1) as stream:
            for number in range(3000):
                stream.write(line % (number, b"y" * 100_000))
        peak = _peak(path, folder, "bounded")
        uncut = _peak(path, folder, "uncut")
    promise = f"UBI queries of 100,000 letters are read in under {_MOST_MEMORY} MB of memory"
    control = "texts are not cut before the join"
    note = f"peak {peak} MB"
    yield Row(AREA, promise, 1, int(peak < _MOST_MEMORY), control, int(uncut > peak), note)


def _empty_lines(folder: Path, millions: int) -> Path:
    path = folder / "empty.gz"
    with gzip.open(path, "wb") as stream:
        stream.write(seeds()["aol"])
        for _ in range(millions):
            stream.write(b"\n" * 1_000_000)
    return path


def _long_text(folder: Path, rows: int) -> Path:
    path = folder / "long.parquet"
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows), pa.array(["x" * 80_000]))
    table = pa.table({"user": ["u"] * rows, "time": [1_141_197_432] * rows, "query": texts})
    pq.write_table(table, path, compression="zstd")
    return path


def _peak(path: Path, folder: Path, bound: str) -> int:
    work = folder / f"{path.name}-{bound}"
    command = [sys.executable, "-c", _PEAK, str(path), str(work), bound]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=_limited)
    return int(done.stdout) if done.returncode == 0 else _LIMIT >> 20


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_LIMIT, _LIMIT))


def endless_inputs(quick: bool) -> Row:
    """A pipe that nobody writes to, and a device without end."""
    with _folder() as folder:
        os.mkfifo(folder / "pipe")
        held = 0
        for path in (folder / "pipe", Path("/dev/zero")):
            command = [sys.executable, "-m", "nextquery", "prepare", str(path)]
            held += _ends([*command, "--out", str(folder / "data")], 200) == 2
        reader = [sys.executable, "-c", "import sys; open(sys.argv[1]).read()"]
        hangs = _ends([*reader, str(folder / "pipe")], 2) is None
    promise = "a pipe without a writer and an endless device are refused"
    return Row(AREA, promise, 2, held, "a program that opens the pipe (2 s)", int(hangs))


def _ends(command: list[str], seconds: float) -> int | None:
    try:
        return subprocess.run(command, capture_output=True, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        return None


def equal_engines(quick: bool) -> Row:
    """Polars and DuckDB write the same tables."""
    tried = 1 if quick else 10
    held = differs = 0
    for seed in range(tried):
        with _folder() as folder:
            write_log(folder / "log.tsv", 150 if quick else 2000, seed)
            for name, settings in (
                ("polars", PrepareSettings(min_users=2)),
                ("duckdb", PrepareSettings(min_users=2, engine="duckdb")),
                ("other", PrepareSettings(min_users=2, idle_minutes=2)),
            ):
                prepare([folder / "log.tsv"], folder / name, settings)
            held += _same_tables(folder / "polars", folder / "duckdb")
            differs += not _same_tables(folder / "polars", folder / "other")
    promise = "every engine writes the same tables"
    return Row(AREA, promise, tried, held, "another `idle_minutes`", differs)


def _same_tables(one: Path, other: Path) -> bool:
    files = sorted(path.relative_to(one) for path in one.rglob("*.parquet"))
    return all(pl.read_parquet(one / file).equals(pl.read_parquet(other / file)) for file in files)


def signals(quick: bool) -> Row:
    """SIGINT and SIGTERM at any moment of the job."""
    chance, tried, held, left = random.Random(1), 2 if quick else 60, 0, 0
    with _folder() as folder:
        write_log(folder / "log.tsv", 5000, 1)
        for number in range(tried):
            chosen = (signal.SIGINT, signal.SIGTERM)[number % 2]
            engine = ("polars", "duckdb")[(number + number // 2) % 2]
            ending, remains = _stopped(folder, engine, chosen, 0.3 * chance.random())
            held += ending.is_orderly(chosen) and not ending.late and not remains
        for _ in range(1 if quick else 5):
            left += _stopped(folder, "polars", signal.SIGKILL, 0.0)[1] != []
    promise = "a signal ends `prepare` in one line with 130 or 143 and leaves nothing"
    return Row(AREA, promise, tried, held, "SIGKILL leaves a folder behind", left)


def _stopped(
    folder: Path, engine: str, number: signal.Signals, delay: float
) -> tuple[Ending, list[str]]:
    """How the job ended, and what lies where its folder would be."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        ending = end_in_the_middle(
            nextquery("prepare", folder / "log.tsv", "--out", place / "data", "--engine", engine),
            number,
            published=(place / "data").exists,
            begun=lambda: any(place.iterdir()),
            clear=lambda: shutil.rmtree(place / "data", ignore_errors=True),
            delay=delay,
        )
        return ending, names(place)


TESTS = (mutated_logs, bombs, workbook_bombs, long_queries, endless_inputs, equal_engines, signals)
