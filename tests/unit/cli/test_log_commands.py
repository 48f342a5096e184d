"""Commands that read and revise logs: init, synth, prepare, inspect, trends, update, forget."""

import json
import shlex
import shutil
from pathlib import Path

import polars as pl
import pytest
from tests.conftest import run_cli

from nextquery.artifacts import files
from nextquery.errors import ArtifactError, InputError
from nextquery.logs import inspect
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.privacy import pseudonym
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.popularity import Popularity


def test_a_log_is_described_and_the_next_commands_are_named(tmp_path: Path) -> None:
    log = tmp_path / "log.tsv"
    write_log(log, sessions=500, seed=1)

    output = run_cli("init", log).output
    assert "format    aol" in output
    assert f"nextquery prepare {log} --out DATA" in output
    assert "nextquery fit DATA --kind adjacency" in output
    assert list(tmp_path.iterdir()) == [log]


def test_the_commands_that_it_prints_run_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_log(Path("log.tsv"), sessions=500, seed=1)
    lines = run_cli("init", "log.tsv").stdout.splitlines()
    printed = [shlex.split(line)[1:] for line in lines if line.startswith("  nextquery ")]

    assert [words[0] for words in printed] == ["prepare", "fit", "fit", "train", "suggest"]
    for words in printed:
        if words[0] != "train":  # that takes minutes
            run_cli(*words)


def test_what_had_to_be_said_is_part_of_the_next_command(tmp_path: Path) -> None:
    log = tmp_path / "a log.csv"
    rows = [f"u{n % 9},2024-01-{n % 27 + 1:02} 10:0{n % 9}:00,query {n % 5}\n" for n in range(200)]
    log.write_text("who,when,what\n" + "".join(rows))
    columns = "user=who,time=when,query=what"

    result = run_cli("init", log, "--columns", columns, "--format", "csv")
    command = f"nextquery prepare '{log}' --columns {columns} --format csv --out DATA"
    assert command in result.output


def test_json_says_what_was_written(tmp_path: Path) -> None:
    out = tmp_path / "new folder" / "log.tsv"
    results = json.loads(run_cli("synth", out, "--sessions", "100", "--seed", "5", "--json").stdout)
    lines = out.read_text(encoding="utf-8").splitlines()
    assert results["rows"] == len(lines) - 1
    assert results["users"] == len({line.split("\t")[0] for line in lines[1:]})
    assert results["first"] <= lines[1].split("\t")[2] <= results["last"]
    assert results["shuffled"] is False


@pytest.mark.parametrize("bad", [("--sessions", "0"), ("--seed", "-1"), ("--sessions", "many")])
def test_a_bad_number_is_refused_with_exit_code_2(tmp_path: Path, bad: tuple[str, str]) -> None:
    run_cli("synth", tmp_path / "log.tsv", *bad, code=2)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder"):
        run_cli("synth", tmp_path)


@pytest.fixture(scope="module")
def raw_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.tsv"
    write_log(path, 200, 1)
    return path


def test_options_become_the_settings_of_the_manifest(raw_log: Path, tmp_path: Path) -> None:
    options = ["--idle-minutes", "20", "--min-users", "2", "--no-spelling", "--max-rejected", "0.2"]
    said = run_cli("prepare", raw_log, "--out", tmp_path / "data", *options, "--json").stdout
    result = json.loads(said)["settings"]
    assert (result["idle_minutes"], result["min_users"], result["spelling"]) == (20, 2, False)
    assert (result["max_rejected"], result["engine"]) == (0.2, "polars")


def test_a_column_without_a_name_is_refused(raw_log: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`columns` lacks user, time, query"):
        run_cli("prepare", raw_log, "--out", tmp_path / "data", "--columns", "user")


def test_the_engine_is_chosen_and_the_choice_explained(raw_log: Path, tmp_path: Path) -> None:
    said = run_cli("prepare", raw_log, "--out", tmp_path / "data", "--engine", "auto").stdout
    assert "engine polars: the log has about" in said
    settings = json.loads((tmp_path / "data" / "manifest.json").read_text())["settings"]
    assert settings["engine"] == "polars"
    assert "Polars needs about" in settings["engine_reason"]


def test_a_folder_of_days_is_one_log(raw_log: Path, tmp_path: Path) -> None:
    header, *rows = raw_log.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "days").mkdir()
    for number, part in enumerate((rows[:300], rows[300:])):
        (tmp_path / "days" / f"{number}.tsv").write_text(header + "".join(part), encoding="utf-8")
    whole, days = (
        json.loads(run_cli("prepare", log, "--out", tmp_path / name, "--json").stdout)["counts"]
        for name, log in (("one", raw_log), ("two", tmp_path / "days"))
    )
    assert days == whole


@pytest.fixture(scope="module")
def shared_data(raw_log: Path) -> Path:
    """A data folder for tests that do not change it."""
    prepare([raw_log], raw_log.with_name("data"), PrepareSettings(spelling=False))
    return raw_log.with_name("data")


@pytest.fixture
def data(shared_data: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(shared_data, tmp_path / "data"))


def test_the_table_has_a_line_for_every_split(shared_data: Path) -> None:
    starts = {line.split(" ")[0] for line in run_cli("inspect", shared_data).stdout.splitlines()}
    assert {"background", "training", "validation", "test", "rows", "users"} <= starts


def test_a_folder_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = PrepareSettings(min_users=1, spelling=False)
    for name, sessions in (("one", 200), ("other", 300)):
        write_log(tmp_path / f"{name}.tsv", sessions, 1)
        prepare([tmp_path / f"{name}.tsv"], tmp_path / name, settings)
    expected = run_cli("inspect", tmp_path / "other", "--json").stdout
    read = inspect._repetition
    replaced: list[bool] = []

    def replace(data: PreparedData, later: list[str]) -> inspect.Repetition:
        if not replaced:
            replaced.append(files.exchange(tmp_path / "one", tmp_path / "other"))
        return read(data, later)

    monkeypatch.setattr(inspect, "_repetition", replace)
    assert run_cli("inspect", tmp_path / "one", "--json").stdout == expected
    assert replaced == [True]


def test_a_folder_without_prepared_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no such folder"):
        run_cli("inspect", tmp_path / "none")


def test_drift_is_shown_in_words_and_as_json(tmp_path: Path) -> None:
    write_log(tmp_path / "log.tsv", 400, 1)
    rows = pl.read_csv(tmp_path / "log.tsv", separator="\t", quote_char=None)
    early = rows.filter(rows["QueryTime"] < "2006-05-01")
    early.write_csv(tmp_path / "old.tsv", separator="\t", quote_style="never")
    settings = PrepareSettings(spelling=False, min_users=2)
    for name in ("old", "log"):
        prepare([tmp_path / f"{name}.tsv"], tmp_path / name, settings)
    fit_model(Popularity, PreparedData(tmp_path / "old")).save(tmp_path / "model")
    command = "inspect", tmp_path / "log", "--against", tmp_path / "old"
    message = run_cli(*command, "--model", tmp_path / "model").stdout
    assert "unknown to the earlier log" in message
    assert "(popularity): perplexity" in message
    assert "retrain: " in message
    result = json.loads(run_cli(*command, "--json").stdout)
    assert result["new_sessions"] > 50
    assert result["fit"] is None
    with pytest.raises(InputError, match="--against"):
        run_cli("inspect", tmp_path / "log", "--model", tmp_path / "model")


def test_trends_are_shown_as_text_and_as_data(shared_data: Path) -> None:
    command = "trends", shared_data, "--min-users", "5"
    assert "against the days from" in run_cli(*command).stdout
    document = json.loads(run_cli(*command, "--json").stdout)
    assert set(document) == {"first_day", "last_day", "past_from", "queries_tested", "trends"}


def test_what_was_added_is_said(shared_data: Path, raw_log: Path, tmp_path: Path) -> None:
    rows = len(raw_log.read_text().splitlines()) - 1
    shown = run_cli("update", shared_data, raw_log, "--out", tmp_path / "more")
    assert f"{rows:,} rows added, 0 removed" in shown.stdout
    assert (tmp_path / "more" / "manifest.json").is_file()


def test_an_outdated_model_is_named(data: Path, tmp_path: Path) -> None:
    fit_model(Popularity, PreparedData(data)).save(tmp_path / "model")
    (session, *_) = PreparedData(data).sessions("background")
    model = tmp_path / "model"
    command = "forget", data, "--user", session.user, "--pseudonyms", "--model", model
    shown = run_cli(*command).stdout
    assert "1 of 1 users had rows" in shown
    assert "made before 1 users were forgotten; make it again" in shown
    again = run_cli(*command, "--json", code=1)
    assert json.loads(again.stdout)["models_forgotten_since"] == {str(tmp_path / "model"): 1}


def test_an_approximate_removal_is_called_so(data: Path, tmp_path: Path) -> None:
    """A model that was continued from one that knew somebody: its manifest says of how many."""
    model = fit_model(Popularity, PreparedData(data))
    notes = [{"date": "2026-11-16", "users": 2}, {"date": "2026-11-17", "users": 3}]
    model.data_entry = {**(model.data_entry or {}), "forgotten": notes, "approximately": 1}
    model.save(tmp_path / "model")
    shown = run_cli("forget", data, "--user", "nobody", "--model", tmp_path / "model", code=1)
    assert "the removal of 3 users is approximate" in shown.stdout


def test_a_file_that_cannot_be_read_is_named(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`users_file`"):
        run_cli("forget", data, "--users-file", tmp_path / "none")
    (tmp_path / "users.txt").write_bytes("ann\n".encode("utf-16"))
    with pytest.raises(InputError, match="`users_file`"):
        run_cli("forget", data, "--users-file", tmp_path / "users.txt")


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A log of four named users, prepared."""
    rows = [
        f"{user}\tred {thing}\t2006-0{month}-01 10:0{minute}:00\t\t\n"
        for user in ("ann", "bob", "cat", "dan")
        for month in (1, 2, 3, 4, 5)
        for minute, thing in enumerate(("shoes", "boots"))
    ]
    header = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
    (tmp_path / "people.tsv").write_text(header + "".join(rows))
    settings = PrepareSettings(min_users=1, spelling=False)
    prepare([tmp_path / "people.tsv"], tmp_path / "people", settings)
    return tmp_path / "people"


@pytest.mark.parametrize(
    "listed",
    [
        *("\ufeffann\nbob\n", "ann  \n bob\t\n\n", "ann\r\nbob\r\n", "\ufeffann \r\nbob"),
        *("ann\u00a0\nbob\u3000\n", "ann\nann\nbob\n"),
    ],
)
def test_marks_and_blanks_of_a_list_are_not_part_of_the_names(
    people: Path, tmp_path: Path, listed: str
) -> None:
    (tmp_path / "users.txt").write_bytes(listed.encode())
    shown = run_cli("forget", people, "--users-file", tmp_path / "users.txt")
    assert "2 of 2 users had rows" in shown.stdout
    assert {session.user for session in PreparedData(people).sessions("background")} == {
        str(pseudonym(user)) for user in ("cat", "dan")
    }


def test_who_is_not_found_is_named_and_the_others_go(people: Path) -> None:
    command = "forget", people, "--user", "ann", "--user", "zoe", "--user", "bob "
    shown = run_cli(*command, code=1)
    assert shown.stderr.splitlines() == ["not found: 'bob '", "not found: 'zoe'"]
    assert "1 of 3 users had rows" in shown.stdout
    assert len({session.user for session in PreparedData(people).sessions("background")}) == 3
    again = run_cli(*command, "--json", code=1)
    assert json.loads(again.stdout)["users_not_found"] == ["ann", "bob ", "zoe"]
