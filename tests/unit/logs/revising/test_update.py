import gzip
import json
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from nextquery.artifacts import write_manifest
from nextquery.errors import InputError
from nextquery.logs.cleaning import ROWS
from nextquery.logs.revise import forget, update


def test_new_rows_come_after_the_old_ones(data: Path, log: Path) -> None:
    before = pl.read_parquet(data / ROWS)
    found = update(data, [log])
    after = pl.read_parquet(data / ROWS)
    assert (found.rows_added, found.rows_removed) == (41, 0)
    assert after.head(len(before)).equals(before)
    # The file has 42 rows, its header included.
    assert after["place"].to_list()[len(before)] == before["place"][0] + 42


@pytest.mark.parametrize(("days", "first"), [(31, 4), (30, 5), (1, 5), (100_000, 1)])
def test_the_last_days_are_kept_the_last_one_included(data: Path, days: int, first: int) -> None:
    update(data, [], keep_days=days)
    assert pl.read_parquet(data / ROWS)["time"].min() == datetime(2006, first, 1, 10, 0)


def test_something_must_be_done(data: Path) -> None:
    with pytest.raises(InputError, match="nothing to do"):
        update(data, [])
    with pytest.raises(InputError, match="`keep_days`"):
        update(data, [], keep_days=0)


def test_a_job_that_is_run_again_adds_nothing_twice(data: Path, log: Path, tmp_path: Path) -> None:
    later = tmp_path / "later.tsv"
    later.write_bytes(log.read_bytes().replace(b"2006", b"2007"))
    assert update(data, [log, later], new_only=True).rows_added == 41, "the folder has the first"
    before = (data / "manifest.json").read_bytes()
    again = update(data, [log, later], new_only=True)
    assert (again.rows_added, (data / "manifest.json").read_bytes()) == (0, before)
    update(data, [log, later], new_only=True, out=tmp_path / "out")
    assert (tmp_path / "out" / ROWS).read_bytes() == (data / ROWS).read_bytes()


def test_a_file_is_recognised_by_its_content(
    data: Path, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (data / "manifest.json").read_bytes()
    moved = tmp_path / "archive"
    moved.mkdir()
    packed = moved / "log.tsv.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    (moved / "copy.tsv").write_bytes(log.read_bytes())
    (tmp_path / "link.tsv").symlink_to(log)
    monkeypatch.chdir(tmp_path)
    again = [Path("log.tsv"), Path("archive/../log.tsv"), packed, moved, tmp_path / "link.tsv"]
    assert update(data, again, new_only=True).rows_added == 0
    assert (data / "manifest.json").read_bytes() == before


def test_a_file_given_twice_is_added_once(data: Path, log: Path, tmp_path: Path) -> None:
    new = [tmp_path / "new.tsv", tmp_path / "copy.tsv"]
    for file in new:
        file.write_bytes(log.read_bytes().replace(b"2006", b"2007"))
    assert update(data, [*new, new[0]], new_only=True).rows_added == 41


def test_another_log_of_a_known_name_is_added(data: Path, log: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b"2006", b"2007"))
    assert update(data, [log], new_only=True).rows_added == 41


def test_a_file_that_has_grown_is_refused(data: Path, log: Path) -> None:
    with log.open("a") as stream:
        stream.write("eve\tgreen hats\t2006-06-01 10:00:00\t\t\n")
    with pytest.raises(InputError, match="has grown"):
        update(data, [log], new_only=True)


def test_a_file_that_begins_with_the_header_of_an_empty_one_is_new(
    data: Path, log: Path, tmp_path: Path
) -> None:
    header = tmp_path / "header.tsv"
    header.write_text(log.read_text().splitlines(keepends=True)[0])
    second = tmp_path / "second.tsv"
    second.write_bytes(log.read_bytes().replace(b"2006", b"2007"))
    third = tmp_path / "third.tsv"
    third.write_bytes(log.read_bytes().replace(b"2006", b"2008"))
    update(data, [second, header], new_only=True)
    assert update(data, [third], new_only=True).rows_added == 41


def test_a_forgotten_person_does_not_come_back_with_their_file(
    data: Path, log: Path, tmp_path: Path
) -> None:
    theirs = tmp_path / "eve.tsv"
    header = log.read_text().splitlines()[0]
    rows = [f"eve\tred {what}\t2006-06-01 10:0{n}:00\t\t" for n, what in enumerate("abc")]
    theirs.write_text("\n".join([header, *rows]) + "\n")
    assert update(data, [theirs], new_only=True).rows_added == 3
    forget(data, ["eve"])
    assert update(data, [theirs], new_only=True).rows_added == 0
    assert update(data, [theirs]).rows_added == 3, "unless asked for"


def test_a_folder_without_hashes_goes_by_the_name_and_refuses_to_guess(
    data: Path, log: Path, tmp_path: Path
) -> None:
    manifest = json.loads((data / "manifest.json").read_text())
    manifest["logs"] = [{"file": log["file"], "rows": log["rows"]} for log in manifest["logs"]]
    write_manifest(data, "data", manifest)
    assert update(data, [log], new_only=True).rows_added == 0
    (tmp_path / "archive").mkdir()
    moved = log.rename(tmp_path / "archive" / "log.tsv")
    with pytest.raises(InputError, match="without a hash"):
        update(data, [moved], new_only=True)
