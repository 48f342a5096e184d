"""From a synthetic raw log to a data folder, through the command that people use."""

import json
import os
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from importlib import util
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.conftest import run_command
from typer.testing import CliRunner

from nextquery.artifacts import open_artifact
from nextquery.cli.main import app, in_options, option_names
from nextquery.errors import InputError, NextqueryError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.revise import forget
from nextquery.logs.synthetic.log import write_log

AOL_SAMPLE = Path(__file__).parents[3] / "shared" / "data" / "aol-sample" / "log.tsv.gz"
HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
CUTS = "2024-02-01,2024-03-01,2024-04-01"
Row = tuple[str, str, datetime, str]
"""User, query, time and clicked URL."""


def _prepare(log: Path | str, out: Path, *options: str) -> dict[str, Any]:
    printed = run_command("prepare", log, "--out", out, "--json", *options)
    document: dict[str, Any] = json.loads(printed)
    return document


def _write(path: Path, rows: list[Row]) -> Path:
    path.write_text(HEADER + "".join(map(_line, rows)), encoding="utf-8")
    return path


def _line(row: Row) -> str:
    user, query, time, url = row
    return f"{user}\t{query}\t{time:%Y-%m-%d %H:%M:%S}\t\t{url}\n"


def _session(user: str, day: str, *queries: str) -> list[Row]:
    start = datetime.fromisoformat(day)
    return [(user, query, start + timedelta(minutes=n), "") for n, query in enumerate(queries)]


@pytest.fixture(scope="module")
def made_up_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with everything in it: clicks, repeats, other scripts, personal data, bad rows, bots.

    Its first half is ordered by user, the second one by time.
    """
    path = tmp_path_factory.mktemp("log") / "log.tsv"
    write_log(path, 600, 3)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    half = len(lines) // 2
    by_time = sorted(lines[half:], key=lambda line: line.split("\t")[2])
    path.write_text("".join(lines[:half] + by_time), encoding="utf-8")
    queries = ("Ünïcode Straße", "東京 ホテル", "me@example.com", "???", "bj's")
    odd = [(*row[:3], "http://x.example") for row in _session("é", "2006-04-03", *queries)]
    with path.open("a", encoding="utf-8") as stream:
        stream.write("".join(map(_line, odd)) + "broken row\n" + "".join(map(_line, _robot())))
        stream.write("".join(map(_line, _monitor())))
    return path


def _monitor() -> list[Row]:
    """A program that asks for the same four things all the time, once a minute."""
    return _session("monitor", "2006-04-03", *("up", "status", "login", "search") * 130)


def _robot() -> list[Row]:
    """A program that asks for the words of a list, twelve a minute."""
    start = datetime(2006, 4, 3, 12)
    listed = [f"robotic part {chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(300)]
    return [("bot", text, start + timedelta(seconds=5 * n), "") for n, text in enumerate(listed)]


@pytest.fixture(scope="module")
def reference(made_up_log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("polars") / "data"
    _prepare(made_up_log, out, "--holdout-users", "0.1", "--min-users", "2")
    return out


def test_the_manifest_keeps_its_shape(reference: Path) -> None:
    artifact = open_artifact(reference, "data")
    artifact.verify()
    counts = artifact.manifest["counts"]
    splits = ["background", "training", "validation", "test", "unseen_users"]
    assert list(counts["sessions"]) == list(counts["queries"]) == splits
    assert counts["rows_read"] == counts["rows_accepted"] + counts["rows_rejected"]
    assert counts["rows_rejected"] == 1
    assert counts["rows_dropped"] == {"empty": 1, "personal": 1, "url": 0}
    assert artifact.manifest["settings"]["min_users"] == 2
    assert counts["robots"] == {"users": 1, "rows": 300}
    assert artifact.manifest["settings"]["robots"].startswith("more than 200 different queries")
    assert len(artifact.manifest["spelling"]["corrections"]) <= 10


def test_likely_bots_are_excluded_unless_kept(
    reference: Path, made_up_log: Path, tmp_path: Path
) -> None:
    left = PreparedData(reference).session_rows("background").collect()
    assert not left["query"].str.contains("robotic").any()
    kept = _prepare(made_up_log, tmp_path / "data", "--keep-robots")
    assert kept["counts"]["robots"] == {"users": 0, "rows": 0}
    assert "robots" not in kept["settings"]
    rows = PreparedData(tmp_path / "data").session_rows("background").collect()
    assert rows["query"].str.contains("robotic").sum() == 300


def test_sessions_of_a_program_that_never_pauses_are_cut(reference: Path) -> None:
    data = PreparedData(reference)
    rows = pl.concat([data.session_rows(split) for split in data.splits])
    lengths = rows.group_by("session").len().collect()["len"]
    assert lengths.max() == data.artifact.entry("settings")["max_session_queries"] == 500
    assert data.artifact.entry("counts")["sessions_cut"] == 1


def test_counts_in_the_manifest_are_those_of_the_files(reference: Path) -> None:
    data = PreparedData(reference)
    counts = data.artifact.manifest["counts"]
    for split in data.splits:
        sessions = list(data.sessions(split))
        assert len(sessions) == counts["sessions"][split]
        assert sum(len(session.queries) for session in sessions) == counts["queries"][split]
        assert all(len(session.queries) > 1 for session in sessions)
        rows = data.session_rows(split).collect()
        assert rows.equals(rows.sort("session", "position"))


def test_held_out_users_are_in_no_other_split_and_no_count(reference: Path) -> None:
    data = PreparedData(reference)
    seen = {session.user for split in data.splits[:-1] for session in data.sessions(split)}
    unseen = {session.user for session in data.sessions("unseen_users")}
    assert unseen
    assert not seen & unseen
    typed = set(data.search_rows("background").collect()["query"])
    assert set(data.counts("queries").collect()["query"]) <= typed


@pytest.mark.parametrize("within_sessions", [False, True])
def test_counts_are_those_of_a_plain_loop(reference: Path, within_sessions: bool) -> None:
    data = PreparedData(reference)
    data = data.within_sessions() if within_sessions else data
    users: dict[tuple[str, str], set[str]] = {}
    counts: dict[tuple[str, str], int] = {}
    for user, query in data.search_rows("background").select("user", "query").collect().rows():
        for kind, texts in (("queries", [query]), ("words", query.split())):
            for text in texts:
                users.setdefault((kind, text), set()).add(user)
                counts[kind, text] = counts.get((kind, text), 0) + 1
    for kind, column in (("queries", "query"), ("words", "word")):
        expected = [
            (text, counts[kind, text], len(typed_by))
            for (of, text), typed_by in users.items()
            if of == kind and len(typed_by) >= 2
        ]
        expected.sort(key=lambda row: (-row[1], row[0]))
        assert data.counts(kind).select(column, "count", "users").collect().rows() == expected
    every = PreparedData(reference)
    assert every.words() == every.counts("words").collect()["word"].to_list()


def test_followers_are_those_of_a_plain_loop(reference: Path) -> None:
    data = PreparedData(reference)
    known = set(data.counts("queries").collect()["query"])
    counts: dict[tuple[str, str], int] = {}
    for session in data.sessions("background"):
        for pair in zip(session.queries, session.queries[1:], strict=False):
            if known.issuperset(pair):
                counts[pair] = counts.get(pair, 0) + 1
    expected = sorted(
        ((*pair, count) for pair, count in counts.items()), key=lambda r: (-r[2], *r[:2])
    )
    assert data.counts("followers").collect().drop("users").rows() == expected


def _same_tables(one: Path, other: Path) -> None:
    files = sorted(path.relative_to(one) for path in one.rglob("*.parquet"))
    assert files == sorted(path.relative_to(other) for path in other.rglob("*.parquet"))
    for file in files:
        left, right = pl.read_parquet(one / file), pl.read_parquet(other / file)
        assert left.schema == right.schema, file
        assert left.equals(right), file
    assert (one / "vocabulary.txt").read_bytes() == (other / "vocabulary.txt").read_bytes()
    manifests = [json.loads((path / "manifest.json").read_text()) for path in (one, other)]
    assert manifests[0]["counts"] == manifests[1]["counts"]
    assert manifests[0]["spelling"] == manifests[1]["spelling"]


@pytest.mark.parametrize(
    "engine", ["duckdb", pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_every_engine_writes_and_forgets_the_same(
    engine: str, made_up_log: Path, reference: Path, tmp_path: Path
) -> None:
    if engine == "spark" and not (util.find_spec("pyspark") and shutil.which("java")):
        pytest.skip("Spark needs the extra 'spark' and Java")
    # Spark reads the log itself, by address, as it would from a cluster's file system.
    log = made_up_log.as_uri() if engine == "spark" else str(made_up_log)
    options = ("--holdout-users", "0.1", "--min-users", "2", "--engine", engine)
    _prepare(log, tmp_path / "data", *options, "--spark-master", "local[1]")
    _same_tables(reference, tmp_path / "data")
    users = sorted({line.split("\t")[0] for line in made_up_log.read_text().splitlines()[1:]})
    copy = Path(shutil.copytree(reference, tmp_path / "reference"))
    for folder in (copy, tmp_path / "data"):
        assert forget(folder, [users[3], users[11], "é"]).users_removed == 3
    _same_tables(copy, tmp_path / "data")


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_the_same_input_gives_the_same_bytes(
    engine: str, made_up_log: Path, tmp_path: Path
) -> None:
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "nextquery", "prepare", str(made_up_log)]
        options = ["--engine", engine, "--out", str(tmp_path / seed)]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "POLARS_MAX_THREADS": seed}
        subprocess.run([*command, *options], env=environment, check=True)
    one, other = tmp_path / "1", tmp_path / "2"
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(other) for path in other.rglob("*") if path.is_file())
    assert not [file for file in files if (one / file).read_bytes() != (other / file).read_bytes()]


KILL = """
import os, signal, sys
from pathlib import Path
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings

log, out, *stages = sys.argv[1:]

def progress(stage, share):
    if stage == last:
        os.kill(os.getpid(), signal.SIGKILL)

for last in stages:
    if not os.fork():
        prepare([Path(log)], Path(out), PrepareSettings(), progress)
        os._exit(0)
    assert os.wait()[1] == signal.SIGKILL, last
"""
"""Prepares a log in a child for each stage, and kills the child at that stage."""


def test_a_killed_job_leaves_the_old_folder_and_can_be_repeated(
    made_up_log: Path, tmp_path: Path
) -> None:
    out = tmp_path / "data"

    def kill_at(*stages: str) -> None:
        subprocess.run([sys.executable, "-c", KILL, made_up_log, out, *stages], check=True)

    kill_at("publishing")
    assert not out.exists()
    _prepare(made_up_log, out)
    before = (out / "manifest.json").read_bytes()
    kill_at("reading", "spelling", "counting", "publishing")
    assert (out / "manifest.json").read_bytes() == before
    open_artifact(out, "data").verify()
    _prepare(made_up_log, out, "--min-users", "2")
    assert (out / "manifest.json").read_bytes() != before
    assert [path.name for path in tmp_path.iterdir()] == ["data"], "what was left is removed"


def test_one_user_cannot_pass_the_k_user_rule_by_repeating(tmp_path: Path) -> None:
    rows = []
    for n in range(600):
        hour = f"2024-01-{n % 28 + 1:02}T{n // 28:02}:00"
        rows += _session("loud", hour, "secret plan", "secret")
    for user in ("a", "b", "c"):
        rows += _session(user, "2024-01-05", "red shoes", "red boots")
    rows += _session("d", "2024-04-05", "red shoes", "red boots")
    log = _write(tmp_path / "log.tsv", rows)
    document = _prepare(log, tmp_path / "data", "--split-at", CUTS)
    assert document["counts"]["queries"]["background"] > 200  # within the limits of one visitor
    data = PreparedData(tmp_path / "data")
    assert sorted(data.words()) == ["boots", "red", "shoes"]
    for table in ("queries", "words", "followers", "clicks"):
        assert "secret" not in data.counts(table).collect().write_json()


def test_personal_data_is_dropped_unless_asked_for(tmp_path: Path) -> None:
    rows = _session("a", "2024-01-05", "call 555-123-4567", "red shoes", "red boots")
    log = _write(tmp_path / "log.tsv", rows)
    options = ("--split-at", CUTS, "--min-users", "1")
    dropped = _prepare(log, tmp_path / "without", *options)
    kept = _prepare(log, tmp_path / "with", *options, "--keep-personal-data")
    assert dropped["counts"]["rows_dropped"]["personal"] == 1
    assert dropped["counts"]["queries"]["background"] == 2
    assert kept["counts"]["queries"]["background"] == 3


def test_a_user_is_written_as_a_pseudonym(tmp_path: Path) -> None:
    log = _write(tmp_path / "log.tsv", _session("jane", "2024-01-05", "red shoes", "red boots"))
    _prepare(log, tmp_path / "data", "--split-at", CUTS, "--min-users", "1")
    (session,) = PreparedData(tmp_path / "data").sessions("background")
    assert session.user.isdigit()
    assert session.queries == ("red shoes", "red boots")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "abacus"], "--engine abacus"),
        (["hdfs://host/log.tsv"], "need --engine spark"),
        (["--holdout-users", "1.5"], "--holdout-users"),
        (["--split-at", "2024-01-01"], "--split-at"),
        (["--split-at", "1999-01-01,1999-01-02,1999-01-03"], "--split-at or --split-days leave"),
        (["--format", "csv"], "say which with --columns user="),
        (["--format", "ndjson"], "check --format and --columns"),
    ],
)
def test_bad_options_are_one_clear_error(options: list[str], message: str, tmp_path: Path) -> None:
    log = _write(tmp_path / "log.tsv", _session("a", "2024-01-05", "red shoes", "red boots"))
    with pytest.raises(NextqueryError) as raised:
        run_command("prepare", log, "--out", tmp_path / "data", *options)
    assert message in in_options(str(raised.value), option_names(app))
    assert raised.value.exit_code == 2
    assert not (tmp_path / "data").exists()


def test_an_option_out_of_range_is_refused_with_its_range(tmp_path: Path) -> None:
    log = _write(tmp_path / "log.tsv", _session("a", "2024-01-05", "red shoes", "red boots"))
    out = tmp_path / "data"
    result = CliRunner().invoke(app, ["prepare", str(log), "--out", str(out), "--min-users", "0"])
    assert result.exit_code == 2
    assert "'--min-users'" in result.output
    assert "greater than or equal to 1" in " ".join(result.output.split())
    assert not out.exists()


def test_inspect_shows_the_log(reference: Path, tmp_path: Path) -> None:
    figure = tmp_path / "lengths.png"
    assert "unseen_users" in run_command("inspect", reference, "--figure", figure)
    assert figure.exists()
    facts = json.loads(run_command("inspect", reference, "--json"))
    shares = facts["lengths"]["background"]
    assert sum(shares.values()) == pytest.approx(1)


@pytest.mark.skipif(not AOL_SAMPLE.exists(), reason="the AOL sample is not in ../shared/data")
def test_the_aol_sample_gives_the_counts_of_an_independent_script(tmp_path: Path) -> None:
    cuts = "2006-05-01,2006-05-15,2006-05-23"
    options = ("--no-spelling", "--min-users", "1", "--keep-personal-data", "--split-at", cuts)
    limits = ("--max-user-repeats", "1000000", "--max-user-share", "1")
    counts = _prepare(AOL_SAMPLE, tmp_path / "data", *options, *limits)["counts"]
    expected = {"background": 44_861, "training": 10_548, "validation": 4_468, "test": 5_482}
    for split, count in expected.items():
        assert counts["sessions"][split] == pytest.approx(count, rel=0.005)
    assert counts["queries"]["background"] == pytest.approx(138_222, rel=0.005)


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_a_site_gives_a_recogniser_of_its_own(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"rules_{engine}.py").write_text(
        "def names_jane(query):\n    return 'Jane' in query\n", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    rows = _session("a", "2024-01-05", "Jane Doe", "8.8.8.8", "red shoes", "red boots")
    log = _write(tmp_path / "log.tsv", rows)
    recogniser = f"rules_{engine}:names_jane"
    options = ("--split-at", CUTS, "--min-users", "1", "--engine", engine)
    document = _prepare(log, tmp_path / "data", *options, "--recogniser", recogniser)
    assert document["counts"]["rows_dropped"]["personal"] == 2
    assert document["settings"]["recogniser"] == recogniser
    with pytest.raises(InputError):
        run_command("prepare", log, "--out", tmp_path / "x", "--recogniser", "nowhere:rule")
    assert not (tmp_path / "x").exists()
