"""How line numbers are put together from Spark's ids; the reading itself needs a cluster."""

import pytest

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
