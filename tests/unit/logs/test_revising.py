"""`forget` and `update`: which rows leave a data folder, and what stays."""

import gzip
import json
import threading
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

from nextquery.artifacts import open_artifact, write_manifest
from nextquery.errors import ArtifactError, InputError, LogError
from nextquery.logs.cleaning import ROWS
from nextquery.logs.data_folder import PreparedData, data_entry, forgotten_since
from nextquery.logs.prepare import prepare, read_into
from nextquery.logs.privacy import pseudonym
from nextquery.logs.reading import rejects
from nextquery.logs.reading.read_logs import FileRows
from nextquery.logs.reading.rejects import OWNERS, REJECTED, RejectedRows
from nextquery.logs.revise import (
    Places,
    Removal,
    count_unattributed,
    find_places,
    forget,
    gather,
    read_list,
    recorded_settings,
    update,
    write_list,
)
from nextquery.logs.settings import PrepareSettings, ReadSettings
from nextquery.logs.synthetic.log import write_log
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.popularity import Popularity

from .conftest import write_aol


def _users(data: Path) -> set[str]:
    opened = PreparedData(data)
    return {session.user for split in opened.splits for session in opened.sessions(split)}


def test_a_user_goes_by_the_name_of_the_log_or_by_pseudonym(data: Path) -> None:
    result = forget(data, ["ann"])
    # Ten queries and the broken row.
    assert (result.users_removed, result.rows_removed, result.unattributed_excerpts) == (1, 11, 0)
    assert result.counts["rows_rejected"] == 0
    assert forget(data, [str(pseudonym("bob"))], as_pseudonyms=True).users_removed == 1
    assert _users(data) == {str(pseudonym(user)) for user in ("cat", "dan")}


def test_another_folder_can_be_written(data: Path, tmp_path: Path) -> None:
    forget(data, ["ann"], tmp_path / "other")
    assert str(pseudonym("ann")) in _users(data)
    assert str(pseudonym("ann")) not in _users(tmp_path / "other")


def test_a_stranger_leaves_the_folder_as_it_is_but_for_the_note(data: Path) -> None:
    before = PreparedData(data).artifact.manifest
    result = forget(data, ["nobody"])
    assert (result.users_removed, result.rows_removed) == (0, 0)
    assert PreparedData(data).artifact.manifest["files"] == before["files"]


def test_an_empty_name_is_nobody(data: Path) -> None:
    with pytest.raises(InputError, match="nobody is named"):
        forget(data, [""])


FILES = (FileRows("one", 4), FileRows("two", 3), FileRows("three", 2))
ACCEPTED_ROWS = pl.LazyFrame(
    {
        "place": [2, 3, 5, 6, 9],
        "user": ["1", "2", "1", "2", "2"],
        "time": [datetime(2024, 1, day) for day in (1, 2, 3, 4, 5)],
    }
)
REJECTED_ROWS = pl.DataFrame(
    {"place": [4, 7, 8], "user": ["1", None, None], "time": [None, None, None]},
    schema={"place": pl.Int64, "user": pl.String, "time": pl.Datetime("us")},
)


def test_a_user_s_rows_go_accepted_and_rejected() -> None:
    positions = find_places(ACCEPTED_ROWS, REJECTED_ROWS, FILES, Removal(users=frozenset({"1"})))
    assert positions.removed.tolist() == [2, 4, 5]


@pytest.mark.parametrize(
    ("before", "removed"),
    [(datetime(2024, 1, 3), [2, 3, 4]), (datetime(2024, 1, 5), [2, 3, 4, 5, 6, 7])],
)
def test_a_rejected_row_without_a_time_goes_with_its_neighbour_in_the_file(
    before: datetime, removed: list[int]
) -> None:
    # 4 comes after one of 2 January, 7 one of 4 January, 8 comes before one of 5 January.
    places = find_places(ACCEPTED_ROWS, REJECTED_ROWS, FILES, Removal(before=before))
    assert places.removed.tolist() == removed


def test_lines_and_files_move_up() -> None:
    positions = Places(np.array([2, 4, 8, 9]), FILES)
    assert positions.moved(pl.Series([1, 3, 5, 6, 7])).to_list() == [1, 2, 3, 4, 5]
    assert positions.lines(pl.Series([1, 3, 5, 6, 7])).to_list() == [1, 2, 1, 2, 3]
    assert positions.remaining_files() == (FileRows("one", 2), FileRows("two", 3))


def test_settings_come_back_with_cut_times_in_utc(log: Path, tmp_path: Path) -> None:
    cuts = "2006-03-01,2006-04-01,2006-05-01"
    chosen = PrepareSettings(
        min_users=2, split_at=cuts, holdout_users=0.25, idle_minutes=5, max_session_queries=40
    )
    prepare([log], tmp_path / "data", chosen)
    result = recorded_settings(PreparedData(tmp_path / "data"), with_recogniser=True)
    assert result.split_at == ",".join(f"{day}T00:00:00+00:00" for day in cuts.split(","))
    assert (result.min_users, result.holdout_users, result.idle_minutes) == (2, 0.25, 5)
    assert result.max_session_queries == 40
    assert result.read.format == "aol"


def test_days_at_the_end_and_the_encoding_come_back(log: Path, tmp_path: Path) -> None:
    read = ReadSettings(encoding="windows-1252")
    prepare([log], tmp_path / "data", PrepareSettings(read, min_users=1, split_days="1,1,1"))
    result = recorded_settings(PreparedData(tmp_path / "data"), with_recogniser=False)
    assert (result.split_at, result.split_days) == (None, "1,1,1")
    assert result.read.encoding == "windows-1252"


def test_old_and_new_rows_are_put_together(data: Path, log: Path, tmp_path: Path) -> None:
    source = PreparedData(data)
    settings = recorded_settings(source, with_recogniser=False)
    result = gather(source, settings, [log], tmp_path / "new", lambda stage, share: None)
    assert (result.rows_read, result.rows_added) == (82, 41)
    assert [file.rows for file in result.files] == [42, 42]
    assert result.reasons == {"wrong number of columns": 2}
    assert result.rejected["place"].to_list() == [42, 84]
    assert len(result.rows.collect()) == 80


class Named:
    """A site's own rule: an object with a lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, text: str) -> bool:
        with self.lock:
            return "boots" in text


names_boots = Named()


def test_an_object_as_recogniser_is_asked_again_by_update(log: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    settings = PrepareSettings(min_users=1, spelling=False, recogniser=names_boots)
    (tmp_path / "hats.tsv").write_text(log.read_text().replace("red boots", "red hats"))
    prepare([tmp_path / "hats.tsv"], data, settings)
    update(data, [log])
    # Of the 40 rows of the new log the 20 with boots are dropped, and no others.
    counts = PreparedData(data).artifact.entry("counts")
    assert counts["rows_dropped"]["personal"] == 20


def test_update_refuses_a_recogniser_that_it_cannot_find(log: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    settings = PrepareSettings(min_users=1, spelling=False, recogniser=lambda text: False)
    prepare([log], data, settings)
    before = (data / "manifest.json").read_bytes()
    with pytest.raises(InputError, match="cannot be imported; give it a name"):
        update(data, [log])
    assert (data / "manifest.json").read_bytes() == before


def test_spark_refuses_what_it_cannot_send_before_it_reads(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    settings = PrepareSettings(engine="spark", recogniser=Named())
    with pytest.raises(InputError, match="cannot be sent to Spark's workers"):
        read_into(cast(Any, None), [tmp_path / "no.tsv"], settings, tmp_path, lambda *_: None)


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
    positions = Places(np.array([1, 3]), [FileRows("log", 5)])
    assert write_list(rows, positions, tmp_path / REJECTED, excerpts=False) == {"a": 2}
    text = gzip.decompress((tmp_path / REJECTED).read_bytes()).splitlines()
    # What a join left out comes last.
    assert [(row["line"], row["reason"]) for row in map(json.loads, text)] == [
        (1, "b"),
        (3, "b"),
        (2, rejects.UNKNOWN_QUERY),
    ]


def test_notes_are_kept_in_order_and_name_nobody(data: Path) -> None:
    for user in ("ann", "bob"):
        forget(data, [user])
    notes = PreparedData(data).artifact.manifest["revisions"]
    assert [sorted(note) for note in notes] == [["date", "forgotten_users"]] * 2
    assert [note["forgotten_users"] for note in notes] == [1, 1]


def test_everybody_cannot_go(data: Path) -> None:
    before = (data / "manifest.json").read_bytes()
    with pytest.raises(LogError, match="no row would be left"):
        forget(data, ["ann", "bob", "cat", "dan"])
    assert (data / "manifest.json").read_bytes() == before


def test_what_another_job_did_meanwhile_is_not_undone(data: Path, log: Path) -> None:
    def meanwhile(stage: str, share: float) -> None:
        if stage == "sessions":
            prepare([log, log], data, PrepareSettings(min_users=1, spelling=False))

    with pytest.raises(ArtifactError, match="replaced while it was in use"):
        forget(data, ["ann"], progress=meanwhile)
    assert PreparedData(data).artifact.manifest["counts"]["rows_read"] == 82


def test_new_rows_come_after_the_old_ones(data: Path, log: Path) -> None:
    before = pl.read_parquet(data / ROWS)
    result = update(data, [log])
    after = pl.read_parquet(data / ROWS)
    assert (result.rows_added, result.rows_removed) == (41, 0)
    assert after.head(len(before)).equals(before)
    # The file has 42 rows, its header included.
    assert after["place"].to_list()[len(before)] == before["place"][0] + 42


@pytest.mark.parametrize(("days", "first"), [(31, 4), (30, 5), (1, 5), (100_000, 1)])
def test_the_last_days_are_kept_the_last_one_included(data: Path, days: int, first: int) -> None:
    update(data, [], keep_days=days)
    assert pl.read_parquet(data / ROWS)["time"].min() == datetime(2006, first, 1, 10, 0)


def moved_to(year: int, log: Path, file: Path) -> Path:
    """Write the rows of a log again, in another year."""
    file.write_text(log.read_text().replace("2006", str(year)))
    return file


def test_a_job_that_is_run_again_adds_nothing_twice(data: Path, log: Path, tmp_path: Path) -> None:
    later = moved_to(2007, log, tmp_path / "later.tsv")
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
    new = [moved_to(2007, log, tmp_path / name) for name in ("new.tsv", "copy.tsv")]
    assert update(data, [*new, new[0]], new_only=True).rows_added == 41


def test_another_log_of_a_known_name_is_added(data: Path, log: Path) -> None:
    moved_to(2007, log, log)
    assert update(data, [log], new_only=True).rows_added == 41


def test_a_file_that_has_grown_is_refused(data: Path, log: Path) -> None:
    with log.open("a") as stream:
        stream.write("eve\tgreen hats\t2006-06-01 10:00:00\t\t\n")
    with pytest.raises(InputError, match="has grown"):
        update(data, [log], new_only=True)


def test_a_file_that_begins_with_the_header_of_an_empty_one_is_new(
    data: Path, log: Path, tmp_path: Path
) -> None:
    header = write_aol(tmp_path / "header.tsv", [])
    update(data, [moved_to(2007, log, tmp_path / "second.tsv"), header], new_only=True)
    third = moved_to(2008, log, tmp_path / "third.tsv")
    assert update(data, [third], new_only=True).rows_added == 41


def test_a_forgotten_person_does_not_come_back_with_their_file(data: Path, tmp_path: Path) -> None:
    rows = [("eve", f"red {word}", f"2006-06-01 10:0{n}:00") for n, word in enumerate("abc")]
    theirs = write_aol(tmp_path / "eve.tsv", rows)
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


def test_a_model_made_before_a_removal_is_outdated(tmp_path: Path) -> None:
    write_log(tmp_path / "log.tsv", 200, 1)
    prepare([tmp_path / "log.tsv"], tmp_path / "data", PrepareSettings(spelling=False))
    fit_model(Popularity, PreparedData(tmp_path / "data")).save(tmp_path / "model")
    rows = PreparedData(tmp_path / "data").session_rows("background")
    users = rows.select(pl.col("user").unique(maintain_order=True)).collect()["user"][:2].to_list()
    forget(tmp_path / "data", users, as_pseudonyms=True)
    data = PreparedData(tmp_path / "data")
    model = open_artifact(tmp_path / "model").manifest
    assert forgotten_since(model, data) == 2
    assert forgotten_since({"kind": "popularity"}, data) is None
    fit_model(Popularity, data).save(tmp_path / "model")
    again = open_artifact(tmp_path / "model").manifest
    assert forgotten_since(again, data) == 0
    assert [note["users"] for note in again["data"]["forgotten"]] == [2]
    assert data_entry(data)["folder"] != model["data"]["folder"]
    Popularity.load(tmp_path / "model").save(tmp_path / "copy")
    assert open_artifact(tmp_path / "copy").manifest["data"] == again["data"]
