"""The settings of the whole job, and what it hears and leaves behind."""

import stat
from pathlib import Path
from typing import Any, cast

import pytest

from nextquery.artifacts import open_artifact
from nextquery.errors import InputError, LogError
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings, ReadSettings
from nextquery.logs.synthetic.log import write_log


def test_held_out_users_are_a_split_of_their_own(tmp_path: Path) -> None:
    write_log(tmp_path / "log.tsv", 200, 1)
    for share in (0.0, 0.2):
        settings = PrepareSettings(holdout_users=share, spelling=False)
        entries = prepare([tmp_path / "log.tsv"], tmp_path / f"data-{share}", settings)
        assert ("unseen_users" in entries["counts"]["sessions"]) == (share > 0)


def test_progress_hears_every_stage_in_order(tmp_path: Path) -> None:
    write_log(tmp_path / "log.tsv", 200, 1)
    heard: list[str] = []
    prepare(
        [tmp_path / "log.tsv"],
        tmp_path / "data",
        PrepareSettings(min_users=1),
        lambda stage, share: heard.append(stage),
    )
    stages = ["reading", "cleaning", "spelling", "sessions", "counting", "publishing"]
    assert list(dict.fromkeys(heard)) == stages


def test_what_is_returned_is_in_the_manifest(tmp_path: Path) -> None:
    write_log(tmp_path / "log.tsv", 200, 1)
    entries = prepare([tmp_path / "log.tsv"], tmp_path / "data", PrepareSettings(spelling=False))
    manifest = open_artifact(tmp_path / "data", "data").manifest
    assert manifest["counts"] == entries["counts"]
    assert manifest["settings"]["format"] == "aol"
    assert not (tmp_path / "data" / "work").exists()


def test_a_failed_job_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text("nonsense\n")
    with pytest.raises(LogError):
        prepare([tmp_path / "log.tsv"], tmp_path / "data", PrepareSettings())
    assert [path.name for path in tmp_path.iterdir()] == ["log.tsv"]


@pytest.mark.parametrize("name", ["idle_minutes", "vocabulary_size", "min_users"])
def test_numbers_beyond_all_logs_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"`{name}`: must be 1 or more, and at most 1,000,000"):
        PrepareSettings(**cast(dict[str, Any], {name: 10**30}))


def test_an_unknown_zone_is_one_error_with_cut_times_too() -> None:
    with pytest.raises(LogError, match="time zone 'Moon' is unknown"):
        PrepareSettings(
            read=ReadSettings(time_zone="Moon"), split_at="2006-05-01,2006-05-02,2006-05-03"
        )


def test_raw_rows_are_for_the_owner_s_eyes_while_the_job_runs(tmp_path: Path) -> None:
    write_log(tmp_path / "log.tsv", 200, 1)
    modes: list[int] = []

    def look(stage: str, share: float) -> None:
        modes.extend(stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("work"))

    prepare([tmp_path / "log.tsv"], tmp_path / "data", PrepareSettings(min_users=1), look)
    assert set(modes) == {0o700}
    listed = tmp_path / "data" / "rejected.ndjson.gz"
    assert stat.S_IMODE(listed.stat().st_mode) == 0o600
