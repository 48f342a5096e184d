"""The file of a made-up log: its bytes and its form."""

import gzip
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from nextquery.errors import InputError
from nextquery.guard.guard import read_hits
from nextquery.logs.synthetic.log import Satisfaction, make_log, write_log
from nextquery.normalise import normalise_query

# Another value means another log for the same seed: experiments would no longer compare.
SHA256_OF_500_SESSIONS = "31be4ddf21f41961acc5a4a2329da88f6efbef1f4924b2da77e48bc20aef1f7f"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_same_seed_gives_the_same_bytes_everywhere(tmp_path: Path) -> None:
    out = tmp_path / "log.tsv"
    command = f"-m nextquery synth {out} --sessions 500 --seed 7".split()
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    subprocess.run([sys.executable, *command], check=True, env=environment, capture_output=True)
    assert _sha256(out) == SHA256_OF_500_SESSIONS


@pytest.mark.parametrize(
    ("satisfaction", "shuffled", "extra_words", "right"),
    [
        ("none", False, 0, "7057d7c3c614ea47494a5be53ce080587f76e861c3ff8c53df570bd20a5f65d5"),
        ("none", True, 0, "1f91af2dd501d5a0153dc3cdae23432c283ee45ad45b3b3a8b554bbdb48cb097"),
        ("outcome", False, 0, "daab446c838d251b2beca82e2a43c487ee45ea66f320bbcde6fe3fa6c1c7a498"),
        ("none", False, 5000, "faecfb94ea82ccb95b13dcd4405e097c5a6927f6013d0c2662fe1fa1b77a1738"),
    ],
)
def test_a_log_of_several_parts_is_the_same_bytes_too(
    tmp_path: Path, satisfaction: Satisfaction, shuffled: bool, extra_words: int, right: str
) -> None:
    """Sessions are drawn and written in parts of 32,768 and 65,536."""
    write_log(
        tmp_path / "log.tsv",
        70_000,
        seed=3,
        shuffled=shuffled,
        satisfaction=satisfaction,
        extra_words=extra_words,
    )
    assert _sha256(tmp_path / "log.tsv") == right


def test_the_summary_is_of_the_file(tmp_path: Path) -> None:
    found = write_log(tmp_path / "log.tsv", 3000, seed=2)
    _, *lines = (tmp_path / "log.tsv").read_text(encoding="utf-8").splitlines()
    users, queries, times = (
        set(column) for column in list(zip(*(line.split("\t") for line in lines), strict=True))[:3]
    )
    assert found.rows == len(lines)
    assert (found.users, found.distinct_queries) == (len(users), len(queries))
    assert (found.first, found.last) == (min(times), max(times))


def test_another_seed_gives_another_log(tmp_path: Path) -> None:
    write_log(tmp_path / "one.tsv", 50, seed=1)
    write_log(tmp_path / "two.tsv", 50, seed=2)
    assert _sha256(tmp_path / "one.tsv") != _sha256(tmp_path / "two.tsv")


def test_a_compressed_log_is_the_same_log(tmp_path: Path) -> None:
    for name in ("log.tsv", "log.tsv.gz", "again.tsv.gz"):
        write_log(tmp_path / name, 200, seed=3)
    plain = (tmp_path / "log.tsv").read_bytes()
    assert gzip.decompress((tmp_path / "log.tsv.gz").read_bytes()) == plain
    assert _sha256(tmp_path / "log.tsv.gz") == _sha256(tmp_path / "again.tsv.gz")
    assert len(list(tmp_path.iterdir())) == 3, "something was left beside the logs"


def test_the_file_is_in_aol_format_with_a_row_a_click(tmp_path: Path) -> None:
    header, *lines = _lines(tmp_path, sessions=300)
    assert header == "AnonID\tQuery\tQueryTime\tItemRank\tClickURL"
    for line in lines:
        user, query, time, rank, url = line.split("\t")
        assert user.isdigit()
        assert query == normalise_query(query) != ""
        assert len(time) == len("2006-03-01 00:00:00")
        assert bool(rank) == bool(url)
        assert not url or url.endswith(".example")
    clicks = make_log(300, seed=1).queries["clicks"].cast(int)
    assert sum(not line.endswith("\t\t") for line in lines) == clicks.sum()
    assert len(lines) == clicks.clip(1).sum()


def _lines(folder: Path, sessions: int) -> list[str]:
    write_log(folder / "log.tsv", sessions, seed=1)
    return (folder / "log.tsv").read_text(encoding="utf-8").splitlines()


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a folder"):
        write_log(tmp_path, 10, seed=1)
    with pytest.raises(InputError):
        write_log(tmp_path / "log.tsv", 0, seed=1)
    assert list(tmp_path.iterdir()) == []


def test_titles_hold_every_query_but_the_slips(tmp_path: Path) -> None:
    write_log(tmp_path / "plain.tsv", 400, seed=3)
    write_log(tmp_path / "log.tsv", 400, seed=3, titles=tmp_path / "titles")
    assert (tmp_path / "log.tsv").read_bytes() == (tmp_path / "plain.tsv").read_bytes()
    hits = read_hits(tmp_path / "titles")
    queries = make_log(400, seed=3).queries
    _, *lines = (tmp_path / "log.tsv").read_text(encoding="utf-8").splitlines()
    assert set(queries["text"]) == {line.split("\t")[1] for line in lines}
    right = queries.filter(~pl.col("slip"))["text"]
    assert all(hits(normalise_query(text)) for text in right)
    wrong = queries.filter("slip")["text"]
    assert len(wrong) > 10
    assert sum(hits(normalise_query(text)) for text in wrong) < 0.1 * len(wrong)
