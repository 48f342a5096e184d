"""Line numbers from Spark's ids, and what a worker does; the reading itself needs a cluster."""

from pathlib import Path

import polars as pl
import pytest

from nextquery.logs.formats.detection import choose_format
from nextquery.logs.reading import rejected_rows
from nextquery.logs.reading.samples import Sample
from nextquery.logs.reading.settings import ReadSettings

pytest.importorskip("pyspark")


def test_ids_of_partitions_become_line_numbers_of_files() -> None:
    from nextquery.logs.reading.spark_reader import _offsets

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
    from nextquery.logs.reading.spark_reader import _parse_batches

    monkeypatch.setattr(rejected_rows, "MOST_BEFORE_THE_FIRST", 4)
    good = '{"user": "u", "time": "2024-03-01T10:00:00", "query": "red"}'
    settings = ReadSettings("ndjson")
    sample = Sample(Path("bad"), (good,))
    layout = choose_format([sample], settings).format.layout(sample, settings)  # type: ignore[attr-defined]
    lines = [("bad", 1 + n, "{}") for n in range(6)] + [("bad", 7, good), ("late", 9, "{}")]
    lines += [("late", 10 + n, "{}") for n in range(6)] + [("late", 16, good)]
    frame = pl.DataFrame(
        [(file, line, line, text.encode()) for file, line, text in lines],
        schema=["file", "line", "row", "text"],
        orient="row",
    )
    batches = iter([each for part in frame.iter_slices(3) for each in part.to_arrow().to_batches()])
    found = pl.concat([pl.DataFrame(each) for each in _parse_batches(layout, settings, batches)])
    bad = found.filter(file="bad")
    assert bad["line"].to_list() == [1, 2, 3, 4, 5, 6]
    assert bad["reason"].to_list() == [rejected_rows.NO_USER] * 5 + [rejected_rows.GIVEN_UP]
    # Where the file does not begin in this part of it, nobody knows what came before.
    assert found.filter(file="late")["query"].to_list()[-1] == "red"
