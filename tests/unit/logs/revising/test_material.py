import threading
from pathlib import Path
from typing import Any, cast

import pytest

from nextquery.errors import ArtifactError, InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare, read_into
from nextquery.logs.revise import gather, recorded_settings, update
from nextquery.logs.settings import PrepareSettings, ReadSettings


def test_settings_come_back_with_cut_times_in_utc(log: Path, tmp_path: Path) -> None:
    cuts = "2006-03-01,2006-04-01,2006-05-01"
    chosen = PrepareSettings(
        min_users=2, split_at=cuts, holdout_users=0.25, idle_minutes=5, max_session_queries=40
    )
    prepare([log], tmp_path / "data", chosen)
    found = recorded_settings(PreparedData(tmp_path / "data"), with_recogniser=True)
    assert found.split_at == ",".join(f"{day}T00:00:00+00:00" for day in cuts.split(","))
    assert (found.min_users, found.holdout_users, found.idle_minutes) == (2, 0.25, 5)
    assert found.max_session_queries == 40
    assert found.read.format == "aol"


def test_days_at_the_end_and_the_encoding_come_back(log: Path, tmp_path: Path) -> None:
    read = ReadSettings(encoding="windows-1252")
    prepare([log], tmp_path / "data", PrepareSettings(read, min_users=1, split_days="1,1,1"))
    found = recorded_settings(PreparedData(tmp_path / "data"), with_recogniser=False)
    assert (found.split_at, found.split_days) == (None, "1,1,1")
    assert found.read.encoding == "windows-1252"


def test_cuts_by_proportion_stay_so(data: Path) -> None:
    assert recorded_settings(PreparedData(data), with_recogniser=False).split_at is None


def test_a_folder_without_a_journal_is_refused_with_a_way_out(log: Path, tmp_path: Path) -> None:
    prepare([log], tmp_path / "old", PrepareSettings(min_users=1, journal=False))
    with pytest.raises(ArtifactError, match=r"old: has no journal.*prepare the log again"):
        recorded_settings(PreparedData(tmp_path / "old"), with_recogniser=False)


def test_old_and_new_rows_are_put_together(data: Path, log: Path, tmp_path: Path) -> None:
    source = PreparedData(data)
    settings = recorded_settings(source, with_recogniser=False)
    found = gather(source, settings, [log], tmp_path / "new", lambda stage, share: None)
    assert (found.rows_read, found.rows_added) == (82, 41)
    assert [file.rows for file in found.files] == [42, 42]
    assert found.reasons == {"wrong number of columns": 2}
    assert found.rejected["place"].to_list() == [42, 84]
    assert len(found.rows.collect()) == 80


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
    hats = tmp_path / "hats.tsv"
    hats.write_text(log.read_text().replace("red boots", "red hats"))
    prepare([hats], data, settings)
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
