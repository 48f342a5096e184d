import gzip
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.errors import LogError
from nextquery.logs.formats import base
from nextquery.logs.reading import lines, rejects
from nextquery.logs.reading.read_logs import ReadResult, read_logs
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
    text = gzip.decompress((folder / "work" / "rejected.ndjson.gz").read_bytes())
    return [json.loads(line) for line in text.splitlines()]


def test_plain_log(tmp_path: Path) -> None:
    result, rows = read(tmp_path, HEADER + MANY)
    assert (result.format, result.rows_read, result.rows_rejected) == ("aol", 200, 0)
    assert (
        result.reason == "its first line is the header AnonID, Query, QueryTime, ItemRank, ClickURL"
    )
    assert rows["row"].to_list() == list(range(2, 202))


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
        (b"7\tr\0d\t2006-03-01 07:17:12\t\t\n", rejects.NUL_BYTE),
        (b"7\tred\n", rejects.WRONG_COLUMNS),
        (HEADER, rejects.REPEATED_HEADER),
        (b"\n", rejects.EMPTY_LINE),
        (b"7\t\t2006-03-01 07:17:12\t\t\n", rejects.EMPTY_QUERY),
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


def test_header_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="the log has no rows"):
        read(tmp_path, HEADER)


def test_wrong_guess_can_be_overridden(tmp_path: Path) -> None:
    # Twelve digits: 1997 written as yymmddhhmmss, or milliseconds that end in the year 2000.
    result, rows = read(tmp_path, b"A\t970916105432\tred\n")
    assert (result.format, rows["time"].dt.year()[0]) == ("excite", 1997)
    columns = {"user": "1", "time": "2", "query": "3"}
    again = read_logs([tmp_path / "log-0"], ReadSettings("tsv", columns), tmp_path / "again")
    assert (again.format, again.reason) == ("tsv", "the format was given, not guessed")
    assert pl.read_parquet(tmp_path / "again" / "rows")["time"].dt.year()[0] == 2000


def test_csv_with_chosen_columns_and_zone(tmp_path: Path) -> None:
    content = b'id,what,when,who\n1,"red, blue",2006-03-01 02:17:12,7\n'
    columns = {"user": "who", "time": "when", "query": "what"}
    result, rows = read(tmp_path, content, columns=columns, time_zone="America/New_York")
    assert result.format == "csv"
    assert [str(value) for value in rows.row(0)[:3]] == ["7", "2006-03-01 07:17:12", "red, blue"]


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
    for name in ("one", "other"):
        read_logs(paths, ReadSettings(), tmp_path / name)
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.*"))
    assert len(files) > 10
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


LINES = st.lists(
    st.sampled_from(
        [ROW[:-1], HEADER[:-1], b"", b"\r", b"7\tred", b"\0", b"\xff", b'7\t"\t2006-03-01 07:17:12']
    )
    | st.binary(max_size=12),
    max_size=30,
)


@settings(max_examples=40)
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
    path = Path(__file__).parents[5] / "shared" / "data" / name
    if not path.exists():
        pytest.skip(f"../shared/data/{name} is not there: it may not be shipped")
    result = read_logs([path], ReadSettings(), tmp_path / "work")
    assert (result.format, result.rows_read, result.reasons) == (format, rows, reasons)


def test_a_file_whose_first_rows_are_all_bad_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejects, "MOST_BEFORE_THE_FIRST", 5)
    monkeypatch.setattr(lines, "BLOCK_LINES", 4)
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
    names = [each.lower().removeprefix("query") or "query" for each in header.split("\t")]
    fields = {"anonid": "7", "user": "7", "query": "red", "time": "2024-03-01 10:00:00"}
    log.write_text("\n".join([header, *["\t".join(fields[each] for each in names)] * 30]))
    if name == "auto" and "user" in names:  # a header that tsv knows
        read_logs([log], ReadSettings(name), tmp_path / "work")
        assert set(pl.read_parquet(tmp_path / "work" / "rows")["query"]) == {"red"}
        return
    with pytest.raises(LogError, match=r"another order|not recognised"):
        read_logs([log], ReadSettings(name), tmp_path / "work")
