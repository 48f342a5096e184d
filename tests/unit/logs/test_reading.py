"""Reading whole logs: every row is accepted or rejected with file, line and reason."""

import codecs
import gzip
import json
import os
import shutil
import signal
import stat
import sys
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.errors import InputError, LogError
from nextquery.logs.engines import open_engine
from nextquery.logs.formats import base
from nextquery.logs.formats.detection import choose_format
from nextquery.logs.reading import open, rejects
from nextquery.logs.reading.open import LONGEST_LINE, Sample
from nextquery.logs.reading.read_logs import ReadResult, read_logs
from nextquery.logs.reading.rejects import RejectedRows, check_share
from nextquery.logs.reading.rows import rows_frame, validate_rows
from nextquery.logs.settings import ReadSettings

HEADER = b"AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
ROW = b"7\tred shoes\t2006-03-01 07:17:12\t1\thttp://a.example\n"
MANY = ROW * 200
CANONICAL = {
    "user": pl.String(),
    "time": pl.Datetime("us"),
    "query": pl.String(),
    "click": pl.String(),
    "row": pl.Int64(),
}


def write(folder: Path, *contents: bytes) -> list[Path]:
    paths = []
    for number, content in enumerate(contents):
        paths.append(folder / f"log-{number}")
        paths[-1].write_bytes(content)
    return paths


def read(folder: Path, *contents: bytes, **choices: Any) -> tuple[ReadResult, pl.DataFrame]:
    result = read_logs(write(folder, *contents), ReadSettings(**choices), folder / "work")
    rows = pl.read_parquet(folder / "work" / "rows")
    assert dict(rows.schema) == CANONICAL
    assert result.rows_accepted == len(rows)
    assert result.rows_read == result.rows_accepted + result.rows_rejected
    assert sum(result.reasons.values()) == result.rows_rejected == len(rejected(folder))
    return result, rows


def rejected(folder: Path) -> list[dict[str, Any]]:
    return read_rejected(folder / "work" / "rejected.ndjson.gz")


def read_rejected(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


@pytest.mark.parametrize("block", [100, 1000, 8 << 20])
def test_order_runs_over_files_and_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(base, "BLOCK_BYTES", block)
    texts = [b"7\tquery %d\t2006-03-01 07:17:12\t\t\n" % number for number in range(90)]
    _, rows = read(
        tmp_path,
        HEADER + b"".join(texts[:30]),
        gzip.compress(b"".join(texts[30:60])),
        b"",
        HEADER + b"".join(texts[60:]),
    )
    assert rows["query"].to_list() == [f"query {number}" for number in range(90)]
    assert rows["row"].to_list() == sorted(set(rows["row"]))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"7\tred\xff\t2006-03-01 07:17:12\t\t\n", rejects.MALFORMED_TEXT),
        (HEADER, rejects.REPEATED_HEADER),
    ],
)
def test_bad_row_is_listed_with_file_line_and_reason(
    tmp_path: Path, bad: bytes, reason: str
) -> None:
    result, _ = read(tmp_path, HEADER + MANY, HEADER + ROW * 2 + bad + ROW)
    assert result.reasons == {reason: 1}
    (row,) = rejected(tmp_path)
    assert (row["file"], row["line"], row["reason"]) == (str(tmp_path / "log-1"), 4, reason)
    assert result.rows_read == 204


@pytest.mark.slow
def test_hundred_megabyte_line_is_skipped_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(HEADER + MANY + b"7\t")
        for _ in range(100):
            stream.write(b"x" * (1 << 20))
        stream.write(b"\t2006-03-01 07:17:12\t\t\n" + ROW)
    tracemalloc.start()
    result = read_logs([path], ReadSettings(), tmp_path / "work")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (result.rows_accepted, result.reasons) == (201, {rejects.TOO_LONG: 1})
    assert [row["line"] for row in rejected(tmp_path)] == [202]
    # A few blocks of 16 MB, never all 100 MB.
    assert peak < 50 << 20


def test_too_many_bad_rows_stop_the_job(tmp_path: Path) -> None:
    bad = b"7\tred\n" * 9 + b"7\tred\tnever\t\t\n" * 3 + b"\t\t\t\t\n" * 2 + b"\xff\n"
    with pytest.raises(LogError) as caught:
        read(tmp_path, HEADER + MANY + bad)
    assert "15 of 215 rows are bad (7.0%, at most 5.0% allowed)" in str(caught.value)
    assert "wrong number of columns: 9; time not understood: 3; no user: 2;" in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("content", [b"", b"\n\n\n"])
def test_empty_log_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(LogError):
        read(tmp_path, content)
    with pytest.raises(LogError):
        read_logs(write(tmp_path, content), ReadSettings(format="aol"), tmp_path / "again")


def test_wrong_guess_can_be_overridden(tmp_path: Path) -> None:
    # Twelve digits: 1997 written as yymmddhhmmss, or milliseconds that end in the year 2000.
    result, rows = read(tmp_path, b"A\t970916105432\tred\n")
    assert (result.format, rows["time"].dt.year()[0]) == ("excite", 1997)
    columns = {"user": "1", "time": "2", "query": "3"}
    again = read_logs([tmp_path / "log-0"], ReadSettings("tsv", columns), tmp_path / "again")
    assert (again.format, again.reason) == ("tsv", "the format was given, not guessed")
    assert pl.read_parquet(tmp_path / "again" / "rows")["time"].dt.year()[0] == 2000


def test_ndjson_and_parquet_with_chosen_columns(tmp_path: Path) -> None:
    table = pl.DataFrame({"who": ["7"], "when": [1141197432], "what": ["red"]})
    columns = {"user": "who", "time": "when", "query": "what"}
    for name in ("parquet", "ndjson"):
        path = tmp_path / name
        getattr(table, f"write_{name}")(path)
        result = read_logs([path], ReadSettings(columns=columns), tmp_path / f"{name}-work")
        assert (result.format, result.rows_accepted) == (name, 1)


def test_progress_grows_to_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BLOCK_BYTES", 1000)
    heard: list[tuple[int, int]] = []
    paths = write(tmp_path, MANY, gzip.compress(MANY))
    total = sum(path.stat().st_size for path in paths)
    read_logs(paths, ReadSettings(), tmp_path / "work", lambda *seen: heard.append(seen))
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)
    assert heard[-1] == (total, total)


def test_same_input_gives_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BLOCK_BYTES", 1000)
    paths = write(tmp_path, HEADER + MANY + b"\xff\n" + MANY)
    contents = []
    for name in ("one", "other"):
        read_logs(paths, ReadSettings(), tmp_path / name)
        files = sorted((tmp_path / name).rglob("*.*"))
        contents.append({file.relative_to(tmp_path / name): file.read_bytes() for file in files})
    assert len(contents[0]) > 10
    assert contents[0] == contents[1]


LINES = st.lists(
    st.sampled_from(
        [ROW[:-1], HEADER[:-1], b"", b"\r", b"7\tred", b"\0", b"\xff", b'7\t"\t2006-03-01 07:17:12']
    )
    | st.binary(max_size=12),
    max_size=30,
)


@pytest.mark.slow
@settings(max_examples=20)
@given(lines=LINES, ended=st.booleans(), block=st.integers(1, 300))
def test_accepted_and_rejected_are_the_rows_read(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], ended: bool, block: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    content = ROW + b"\n".join(lines) + (b"\n" if ended else b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "BLOCK_BYTES", block)
        result, _ = read(folder, content, format="aol", max_rejected=1.0)
    whole = content.split(b"\n")
    assert result.rows_read == len(whole) - (whole[-1] == b"")


@pytest.mark.parametrize(
    ("name", "format", "rows", "reasons"),
    [
        ("aol-sample/log.tsv.gz", "aol", 360_956, {}),
        ("excite-1997/excite-small.log", "excite", 4_501, {rejects.EMPTY_QUERY: 533}),
    ],
)
def test_real_logs(
    tmp_path: Path, name: str, format: str, rows: int, reasons: dict[str, int]
) -> None:
    path = Path(__file__).parents[4] / "shared" / "data" / name
    if not path.exists():
        pytest.skip(f"../shared/data/{name} is not there: it may not be shipped")
    result = read_logs([path], ReadSettings(), tmp_path / "work")
    assert (result.format, result.rows_read, result.reasons) == (format, rows, reasons)


def test_a_file_whose_first_rows_are_all_bad_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejects, "MOST_BEFORE_THE_FIRST", 5)
    monkeypatch.setattr(open, "BLOCK_LINES", 4)
    good = b'{"user": "u", "time": "2024-03-01T10:00:00", "query": "red"}\n'
    settings = ReadSettings(max_rejected=0.9)
    paths = write(tmp_path, good * 9, b"{}\n" * 12 + good * 30)
    with pytest.raises(LogError, match=r"log-1: none of its first 5 rows .*often: no user.*format"):
        read_logs(paths, settings, tmp_path / "a")
    assert read_logs(paths, replace(settings, max_rejected=1.0), tmp_path / "b").rows_accepted == 39
    # One usable row among the first, and the share of bad rows decides, as ever.
    paths = write(tmp_path, good * 9, b"{}\n" * 3 + good + b"{}\n" * 9)
    assert read_logs(paths, settings, tmp_path / "c").rows_accepted == 10
    # Well-formed rows without a query may be any number.
    paths = write(tmp_path, good * 9, good.replace(b"red", b"") * 12 + good)
    assert read_logs(paths, settings, tmp_path / "d").rows_accepted == 10


ORDERS = {
    "csv": ("user,query,time", "query,user,time", "Query,USER,time", "time,query,user"),
    "tsv": ("user\tquery\ttime", "query\tuser\ttime", "time\tuser\tquery"),
    "aol": (
        "AnonID\tQuery\tQueryTime\tItemRank\tClickURL",
        "Query\tAnonID\tQueryTime\tItemRank\tClickURL",
    ),
}


@pytest.mark.parametrize(
    ("name", "second"), [(name, header) for name, (_, *rest) in ORDERS.items() for header in rest]
)
def test_a_second_header_in_another_order_is_refused(
    name: str, second: str, tmp_path: Path
) -> None:
    separator = "," if name == "csv" else "\t"
    row = separator.join(("7", "red", "2024-03-01 10:00:00", "", "")[: 5 if name == "aol" else 3])
    log = tmp_path / "log"
    log.write_text("\n".join([ORDERS[name][0], *[row] * 30, second, *[row] * 30]))
    with pytest.raises(LogError, match=r"log, line 32: a second header .* another order"):
        read_logs([log], ReadSettings(name), tmp_path / "work")
    log.write_text("\n".join([ORDERS[name][0], *[row] * 30, ORDERS[name][0], *[row] * 30]))
    assert read_logs([log], ReadSettings(name), tmp_path / "again").rows_accepted == 60


@pytest.mark.parametrize("name", ["auto", "aol", "excite"])
@pytest.mark.parametrize(
    "header", ["Query\tAnonID\tQueryTime", "query\tuser\ttime", "TIME\tUSER\tQUERY"]
)
def test_users_are_never_taken_for_queries_of_a_fixed_format(
    name: str, header: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    names = [item.lower().removeprefix("query") or "query" for item in header.split("\t")]
    fields = {"anonid": "7", "user": "7", "query": "red", "time": "2024-03-01 10:00:00"}
    log.write_text("\n".join([header, *["\t".join(fields[item] for item in names)] * 30]))
    if name == "auto" and "user" in names:  # a header that tsv can read
        read_logs([log], ReadSettings(name), tmp_path / "work")
        assert set(pl.read_parquet(tmp_path / "work" / "rows")["query"]) == {"red"}
        return
    with pytest.raises(LogError, match=r"another order|not recognised"):
        read_logs([log], ReadSettings(name), tmp_path / "work")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"reason": "odd", "user": ""}, "odd"),
        ({"user": " ", "time_text": ""}, rejects.NO_USER),
        ({"time_text": None, "fault": "late"}, rejects.NO_TIME),
        ({"fault": "late", "query": ""}, "late"),
        ({"query": None}, rejects.EMPTY_QUERY),
    ],
)
def test_the_first_fault_in_the_order_of_the_rules_is_named(
    changed: dict[str, str | None], reason: str
) -> None:
    row = {"text": "t", "reason": None, "user": "u", "time_text": "x", "query": "q", "fault": None}
    fields = pl.DataFrame([row | changed], dict.fromkeys(row, pl.String)).with_columns(line=1)
    times = fields.select("fault", time=pl.lit(None, pl.Datetime("us")))
    assert validate_rows(fields.drop("fault"), times).rejected["reason"].to_list() == [reason]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("été", None),
        ("half \ud800", rejects.MALFORMED_TEXT),
        ("nul \0", rejects.NUL_BYTE),
        ("é" * LONGEST_LINE, rejects.TOO_LONG),
        ("x" * (LONGEST_LINE + 1), rejects.TOO_LONG),
    ],
)
def test_invalid_texts_have_a_reason(query: str, reason: str | None) -> None:
    frame = rows_frame([{"query": "red"}, {"query": query, "text": query}], ("query",), 7)
    assert frame["line"].to_list() == [7, 8]
    assert frame["reason"].to_list() == [None, reason]
    assert frame["query"].to_list() == ["red", query if reason is None else None]


def listed(*reasons: str) -> pl.DataFrame:
    count = len(reasons)
    return pl.DataFrame(
        {
            "file": ["log"] * count,
            "line": range(count),
            "reason": reasons,
            "excerpt": ['"é'] * count,
            "place": range(count),
            "user": [None] * count,
            "time": [None] * count,
        }
    )


def test_rows_are_written_one_a_line_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "rejected.ndjson.gz"
    with RejectedRows(file) as rejected:
        rejected.add(listed("b", "a", "b"))
        rejected.add(listed())
        rejected.add(listed("c"))
    assert list(rejected.most_common().items()) == [("b", 2), ("a", 1), ("c", 1)]
    rows = read_rejected(file)
    assert rows[1] == {"file": "log", "line": 1, "reason": "a", "excerpt": '"é'}
    assert len(rows) == 4
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_excluded_rows_do_not_stop_the_job_unless_nothing_is_left() -> None:
    aside = dict.fromkeys(sorted(rejects.SET_ASIDE), 1000)
    check_share(1, aside, 0.0)
    with pytest.raises(LogError, match="no row is usable"):
        check_share(0, aside, 1.0)
    with pytest.raises(LogError, match=r"1 of 11 rows are bad"):
        check_share(10, aside | {rejects.NO_USER: 1}, 0.05)


def test_the_list_ends_after_very_many_rows_of_a_reason_and_the_counts_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejects, "MOST_LISTED", 3)
    file = tmp_path / "rejected.ndjson.gz"
    with RejectedRows(file) as rejected:
        for _ in range(3):
            rejected.add(listed("a", "b", "a"))
    assert rejected.most_common() == {"a": 6, "b": 3}
    assert [row["reason"] for row in read_rejected(file)] == ["a", "b", "a", "a", "b", "b"]


def test_a_path_that_is_not_utf_8_can_be_written() -> None:
    assert rejects.printable(Path(os.fsdecode(b"l\xffg"))) == "l\\xffg"


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_share_outside_0_to_1_is_refused(share: float) -> None:
    with pytest.raises(InputError, match=r"`max_rejected` .*: give a share from 0 to 1"):
        ReadSettings(max_rejected=share)


pytest.importorskip("pyspark")


def test_ids_of_partitions_become_line_numbers_of_files() -> None:
    from nextquery.logs.engines.spark import _offsets

    part = 1 << 33
    sizes = [
        {"file": "b", "part": 2, "first": 2 * part, "n": 7},
        {"file": "a", "part": 1, "first": part, "n": 2},
        {"file": "a", "part": 0, "first": 0, "n": 3},
    ]
    result = {(file, number): (shift, before) for file, number, shift, before in _offsets(sizes)}
    # The third line of a's second part has the id part + 2: two parts of 3 and 2 lines before it.
    shift, before = result["a", 1]
    assert (part + 1 + shift, before) == (5, 0)
    shift, before = result["b", 2]
    assert (2 * part + shift, before) == (1, 5)


def test_a_worker_reads_a_file_no_further_whose_first_rows_are_all_bad(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from nextquery.logs.engines.spark import _parse_batches

    monkeypatch.setattr(rejects, "MOST_BEFORE_THE_FIRST", 4)
    good = '{"user": "u", "time": "2024-03-01T10:00:00", "query": "red"}'
    settings = ReadSettings("ndjson")
    sample = Sample(Path("bad"), (good,))
    layout = choose_format([sample], settings).format.layout(sample, settings)  # type: ignore[attr-defined]
    layouts = dict.fromkeys(("bad", "late"), layout)
    lines = [("bad", 1 + n, "{}") for n in range(6)] + [("bad", 7, good), ("late", 9, "{}")]
    lines += [("late", 10 + n, "{}") for n in range(6)] + [("late", 16, good)]
    frame = pl.DataFrame(
        [(file, line, line, text.encode()) for file, line, text in lines],
        schema=["file", "line", "row", "text"],
        orient="row",
    )
    batches = iter([item for part in frame.iter_slices(3) for item in part.to_arrow().to_batches()])
    result = pl.concat([pl.DataFrame(item) for item in _parse_batches(layouts, settings, batches)])
    bad = result.filter(file="bad")
    assert bad["line"].to_list() == [1, 2, 3, 4, 5, 6]
    assert bad["reason"].to_list() == [rejects.NO_USER] * 5 + [rejects.GIVEN_UP]
    # Where the file does not begin in this part of it, what came before is unknown.
    assert result.filter(file="late")["query"].to_list()[-1] == "red"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Spark in this process, whose start leaves the environment and Ctrl-C alone."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYSPARK_PYTHON", raising=False)
        before = {key for key in os.environ if "PYTHON" in key}, signal.getsignal(signal.SIGINT)
        engine = cast(Any, open_engine("spark", tmp_path_factory.mktemp("spark"), "local[1]"))
        after = {key for key in os.environ if "PYTHON" in key}, signal.getsignal(signal.SIGINT)
    yield engine
    engine.close()
    assert after == before  # Spark would take Ctrl-C for itself


@pytest.mark.slow
def test_workers_run_this_python(spark: Any) -> None:
    result = spark.session.sparkContext.parallelize([0], 1).map(lambda _: sys.executable)
    assert result.collect() == [sys.executable]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_each_file_has_its_own_columns_and_line_ends(spark: Any, tmp_path: Path) -> None:
    from nextquery.logs.engines.spark import read_addresses

    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "1.csv").write_bytes(b"user,query,time\nann,red,2024-03-01 10:00:00\n")
    (logs / "2.csv").write_bytes(b"query,time,user\r\nblue,2024-03-01 11:00:00,bob\r\n")
    mark = codecs.BOM_UTF8
    (logs / "3.csv").write_bytes(mark + b"time;click;user;query\n2024-03-01 12:00:00;;cat;green\n")
    (logs / "4.csv").write_bytes(b"Site search\n\nUSER,TIME,QUERY\ndan,2024-03-01 13:00:00,white\n")
    (logs / "5.csv").write_bytes(b"")
    read = read_addresses(spark.session, [logs.as_uri()], ReadSettings(), tmp_path / "work")
    rows = pl.read_parquet(tmp_path / "work" / "rows" / "*.parquet").sort("row")
    local = read_logs(sorted(logs.iterdir()), ReadSettings(), tmp_path / "local")
    expected = pl.read_parquet(tmp_path / "local" / "rows").sort("row")
    assert rows.select(expected.columns).equals(expected)
    assert rows.select("user", "query").rows() == [
        *(("ann", "red"), ("bob", "blue"), ("cat", "green"), ("dan", "white"))
    ]
    assert (read.format, read.reasons) == (local.format, local.reasons)
