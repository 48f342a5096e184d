"""The list of rejected rows, read back and written again."""

import gzip
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from nextquery.logs.reading import rejects
from nextquery.logs.reading.read_logs import FileRows
from nextquery.logs.reading.rejects import OWNERS, REJECTED, RejectedRows
from nextquery.logs.revise import Places, count_unattributed, read_list, write_list


def _rows(reasons: list[str]) -> pl.DataFrame:
    count = len(reasons)
    return pl.DataFrame(
        {
            "file": ["log"] * count,
            "line": range(1, count + 1),
            "reason": reasons,
            "excerpt": ['é"\t\\'] * count,
            "place": range(1, count + 1),
            "user": [None, *["7"] * count][:count],
            "time": [None] * count,
        },
        schema_overrides={"user": pl.String, "time": pl.Datetime("us")},
    )


def _written(folder: Path, rows: pl.DataFrame) -> pl.DataFrame:
    with RejectedRows(folder / REJECTED) as rejected:
        rejected.write(rows)
    return read_list(folder / REJECTED, folder / OWNERS)


@pytest.mark.parametrize("reasons", [[], ["a", "b", "a"]])
def test_a_list_comes_back_and_is_written_with_the_same_bytes(
    reasons: list[str], tmp_path: Path
) -> None:
    rows = _written(tmp_path, _rows(reasons))
    before = (tmp_path / REJECTED).read_bytes()
    nothing = Places(np.array([], dtype=np.int64), [FileRows("log", 5)])
    assert write_list(rows, nothing, tmp_path / REJECTED, excerpts=True) == {}
    assert (tmp_path / REJECTED).read_bytes() == before
    assert count_unattributed(rows) == min(1, len(reasons))


def test_rows_go_and_the_others_get_new_lines(tmp_path: Path) -> None:
    rows = _written(tmp_path, _rows(["a", "b", "a", rejects.UNKNOWN_QUERY, "b"]))
    places = Places(np.array([1, 3]), [FileRows("log", 5)])
    assert write_list(rows, places, tmp_path / REJECTED, excerpts=False) == {"a": 2}
    text = gzip.decompress((tmp_path / REJECTED).read_bytes()).splitlines()
    # What a join left out comes last.
    assert [(row["line"], row["reason"]) for row in map(json.loads, text)] == [
        (1, "b"),
        (3, "b"),
        (2, rejects.UNKNOWN_QUERY),
    ]


def test_a_reason_s_list_still_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejects, "MOST_LISTED", 2)
    rows = _rows(["a"] * 4)
    write_list(
        rows, Places(np.array([1]), [FileRows("log", 4)]), tmp_path / REJECTED, excerpts=True
    )
    assert len(gzip.decompress((tmp_path / REJECTED).read_bytes()).splitlines()) == 2
