"""Line numbers from Spark's ids, and what a worker does; the reading itself needs a cluster."""

import codecs
import shutil
from pathlib import Path

import polars as pl
import pytest

from nextquery.logs.formats.detection import choose_format
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import Sample
from nextquery.logs.reading.read_logs import read_logs
from nextquery.logs.settings import ReadSettings

pytest.importorskip("pyspark")


def test_ids_of_partitions_become_line_numbers_of_files() -> None:
    from nextquery.logs.reading.spark import _offsets

    part = 1 << 33
    sizes = [
        {"file": "b", "part": 2, "first": 2 * part, "n": 7},
        {"file": "a", "part": 1, "first": part, "n": 2},
        {"file": "a", "part": 0, "first": 0, "n": 3},
    ]
    found = {(file, number): (shift, before) for file, number, shift, before in _offsets(sizes)}
    # The third line of a's second part has the id part + 2: two parts of 3 and 2 lines before it.
    shift, before = found["a", 1]
    assert (part + 1 + shift, before) == (5, 0)
    shift, before = found["b", 2]
    assert (2 * part + shift, before) == (1, 5)


def test_a_worker_reads_a_file_no_further_whose_first_rows_are_all_bad(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from nextquery.logs.reading.spark import _parse_batches

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
    batches = iter([each for part in frame.iter_slices(3) for each in part.to_arrow().to_batches()])
    found = pl.concat([pl.DataFrame(each) for each in _parse_batches(layouts, settings, batches)])
    bad = found.filter(file="bad")
    assert bad["line"].to_list() == [1, 2, 3, 4, 5, 6]
    assert bad["reason"].to_list() == [rejects.NO_USER] * 5 + [rejects.GIVEN_UP]
    # Where the file does not begin in this part of it, nobody knows what came before.
    assert found.filter(file="late")["query"].to_list()[-1] == "red"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_each_file_has_its_own_columns_and_line_ends(tmp_path: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    from nextquery.logs.engines.spark import SparkEngine
    from nextquery.logs.reading.spark import read_addresses

    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "1.csv").write_bytes(b"user,query,time\nann,red,2024-03-01 10:00:00\n")
    (logs / "2.csv").write_bytes(b"query,time,user\r\nblue,2024-03-01 11:00:00,bob\r\n")
    mark = codecs.BOM_UTF8
    (logs / "3.csv").write_bytes(mark + b"time;click;user;query\n2024-03-01 12:00:00;;cat;green\n")
    (logs / "4.csv").write_bytes(b"Site search\n\nUSER,TIME,QUERY\ndan,2024-03-01 13:00:00,white\n")
    (logs / "5.csv").write_bytes(b"")
    engine = SparkEngine(tmp_path / "spark", "local[1]")
    try:
        addresses = [logs.as_uri()]
        read = read_addresses(engine.session, addresses, ReadSettings(), tmp_path / "work")
        rows = pl.read_parquet(tmp_path / "work" / "rows" / "*.parquet").sort("row")
    finally:
        engine.close()
    local = read_logs(sorted(logs.iterdir()), ReadSettings(), tmp_path / "local")
    expected = pl.read_parquet(tmp_path / "local" / "rows").sort("row")
    assert rows.select(expected.columns).equals(expected)
    assert rows.select("user", "query").rows() == [
        *(("ann", "red"), ("bob", "blue"), ("cat", "green"), ("dan", "white"))
    ]
    assert (read.format, read.reasons) == (local.format, local.reasons)
