"""The settings of the whole job, and what it hears and leaves behind."""

import stat
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl
import pytest

from nextquery.artifacts import open_artifact
from nextquery.errors import InputError, LogError
from nextquery.logs.prepare import prepare, split_rule
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


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"idle_minutes": 0}, "`idle_minutes`: must be 1 or more"),
        ({"idle_minutes": 10**30}, "`idle_minutes`: must be 1 or more, and at most 1,000,000"),
        ({"max_session_queries": 1}, "`max_session_queries`: must be 2 or more"),
        ({"vocabulary_size": 0}, "`vocabulary_size`: must be 1 or more"),
        ({"min_users": -1}, "`min_users`: must be 1 or more"),
        ({"max_user_repeats": 0}, "`max_user_repeats`: must be 1 or more"),
        ({"max_user_share": 0.0}, "`max_user_share` 0.0: give a share above 0"),
        ({"holdout_users": 1.0}, "`holdout_users` 1.0: give a share below 1"),
    ],
)
def test_values_that_make_no_sense_are_refused(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        PrepareSettings(**choice)


def test_the_command_line_reads_defaults_without_polars() -> None:
    code = (
        "import sys; import nextquery.cli.prepare; "
        "print(sorted({'polars', 'pyarrow', 'duckdb', 'torch', 'numpy'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_cuts_are_the_paper_s_proportions_or_those_given() -> None:
    span = pl.LazyFrame({"time": [datetime(2006, 3, 1), datetime(2006, 6, 1)]})
    days = [cut.day for cut in split_rule(nw.from_native(span), PrepareSettings()).cuts]
    assert days == [1, 15, 23]
    given = PrepareSettings(split_at="2006-04-01,2006-04-02,2006-04-03", holdout_users=0.5)
    rule = split_rule(nw.from_native(span), given)
    assert (rule.cuts[0], rule.holdout_users) == (datetime(2006, 4, 1), 0.5)


def test_a_log_without_sessions_before_the_first_cut_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text("a\tred\t2006-03-01 10:00:00\t\t\n" * 2)
    with pytest.raises(LogError, match="no session of two or more queries in the background"):
        prepare([tmp_path / "log.tsv"], tmp_path / "data", PrepareSettings(min_users=1))


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
