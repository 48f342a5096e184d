import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.errors import InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.privacy import pseudonym
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.popularity import Popularity


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_log(tmp_path / "log.tsv", 200, 1)
    prepare([tmp_path / "log.tsv"], tmp_path / "data", PrepareSettings(spelling=False))
    return tmp_path / "data"


def test_a_model_that_is_behind_is_named(data: Path, tmp_path: Path) -> None:
    fit_model(Popularity, PreparedData(data)).save(tmp_path / "model")
    (session, *_) = PreparedData(data).sessions("background")
    command = ["forget", str(data), "--user", session.user, "--pseudonyms"]
    shown = CliRunner().invoke(app, [*command, "--model", str(tmp_path / "model")])
    assert "1 of 1 users had rows" in shown.stdout
    assert "made before 1 users were forgotten; make it again" in shown.stdout
    again = CliRunner().invoke(app, [*command, "--model", str(tmp_path / "model"), "--json"])
    assert json.loads(again.stdout)["models_forgotten_since"] == {str(tmp_path / "model"): 1}


def test_an_approximate_removal_is_called_so(data: Path, tmp_path: Path) -> None:
    """A model that went on from one that knew somebody: its manifest says of how many."""
    model = fit_model(Popularity, PreparedData(data))
    notes = [{"date": "2026-11-16", "users": 2}, {"date": "2026-11-17", "users": 3}]
    model.data_entry = {**(model.data_entry or {}), "forgotten": notes, "approximately": 1}
    model.save(tmp_path / "model")
    command = ["forget", str(data), "--user", "nobody", "--model", str(tmp_path / "model")]
    assert "the removal of 3 users is approximate" in CliRunner().invoke(app, command).stdout


def test_a_file_that_cannot_be_read_is_named(data: Path, tmp_path: Path) -> None:
    arguments = ["forget", str(data), "--users-file", str(tmp_path / "none")]
    with pytest.raises(InputError, match="`users_file`"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


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
    arguments = ["forget", str(people), "--users-file", str(tmp_path / "users.txt")]
    shown = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert (shown.exit_code, "2 of 2 users had rows" in shown.stdout) == (0, True)
    assert {session.user for session in PreparedData(people).sessions("background")} == {
        str(pseudonym(user)) for user in ("cat", "dan")
    }


def test_who_is_not_found_is_named_and_the_others_go(people: Path) -> None:
    arguments = ["forget", str(people), "--user", "ann", "--user", "zoe", "--user", "bob "]
    shown = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert shown.exit_code == 1
    assert shown.stderr.splitlines() == ["not found: 'bob '", "not found: 'zoe'"]
    assert "1 of 3 users had rows" in shown.stdout
    assert len({session.user for session in PreparedData(people).sessions("background")}) == 3
    again = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert (again.exit_code, json.loads(again.stdout)["users_not_found"]) == (
        1,
        ["ann", "bob ", "zoe"],
    )


def test_a_list_in_utf_16_is_refused(people: Path, tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_bytes("ann\n".encode("utf-16"))
    arguments = ["forget", str(people), "--users-file", str(tmp_path / "users.txt")]
    with pytest.raises(InputError, match="`users_file`"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
