from pathlib import Path

import pytest

from nextquery.errors import ArtifactError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.reading.settings import ReadSettings
from nextquery.logs.revising.material import gather, recorded_settings
from nextquery.logs.settings import PrepareSettings


def test_settings_come_back_with_cut_times_in_utc(log: Path, tmp_path: Path) -> None:
    cuts = "2006-03-01,2006-04-01,2006-05-01"
    chosen = PrepareSettings(min_users=2, split_at=cuts, holdout_users=0.25, idle_minutes=5)
    prepare([log], tmp_path / "data", chosen)
    found = recorded_settings(PreparedData(tmp_path / "data"), with_recogniser=True)
    assert found.split_at == ",".join(f"{day}T00:00:00+00:00" for day in cuts.split(","))
    assert (found.min_users, found.holdout_users, found.idle_minutes) == (2, 0.25, 5)
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
