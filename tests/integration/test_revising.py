"""Forgetting, adding days and letting old ones go, against preparing the changed log."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import run_command
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.errors import ArtifactError, InputError, LogError
from nextquery.logs.prepare import prepare
from nextquery.logs.privacy import pseudonym
from nextquery.logs.revise import forget, update
from nextquery.logs.settings import PrepareSettings, ReadSettings
from nextquery.logs.synthetic.log import write_log
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import COUNT_MODELS, count_model

ENGINES = ["polars", "duckdb"]  # Spark: tests/integration/test_prepare.py
Lines = list[str]


def _made_up(folder: Path, sessions: int = 250) -> Lines:
    """The lines of a log, some of them bad or single; users have a few of each kind."""
    write_log(folder / "synthetic.tsv", sessions, 3)
    header, *lines = (folder / "synthetic.tsv").read_text(encoding="utf-8").splitlines(True)
    user, other = _users(lines)[3], _users(lines)[7]
    bad = [
        f"{user}\tone field too few\n",
        f"{user}\t\t2006-03-01 10:00:00\t\t\n",
        f"{other}\tred shoes\tnot a time\t\t\n",
        "broken\n",
        f"{user}\tme@example.com\t2006-03-01 10:00:00\t\thttp://secret.example\n",
    ]
    added = bad + [  # sessions of one query, of users with and without others
        f"{name}\tsingle search\t2006-03-02 1{n}:30:00\t\t\n"
        for n, name in enumerate([user, other, "x1", "x2"])
    ]
    for number, line in enumerate(added):
        lines.insert(len(lines) * (number + 1) // 11, line)
    return [header, *lines]


def _users(lines: Lines) -> Lines:
    return sorted(
        {_user(line) for line in lines if line.count("\t") == 4 and _user(line) != "AnonID"}
    )


def _user(line: str) -> str:
    return line.split("\t")[0]


def _settings(engine: str = "polars", **changed: object) -> PrepareSettings:
    limits = {"max_user_repeats": 1, "max_user_share": 0.001}
    values: dict[str, object] = {"min_users": 2, "holdout_users": 0.1, **limits, **changed}
    return PrepareSettings(engine=engine, **values)  # type: ignore[arg-type]


def _write(file: Path, lines: Lines) -> Path:
    file.write_text("".join(lines), encoding="utf-8")
    return file


def _same_bytes(revised: Path, fresh: Path) -> None:
    """Every file is the same, and of the manifest all but the revision and the logs' hashes."""
    names = sorted(str(path.relative_to(fresh)) for path in fresh.rglob("*") if path.is_file())
    assert names == sorted(
        str(path.relative_to(revised)) for path in revised.rglob("*") if path.is_file()
    )
    names.remove("manifest.json")
    changed = [
        name for name in names if (revised / name).read_bytes() != (fresh / name).read_bytes()
    ]
    assert not changed
    one, other = (json.loads((path / "manifest.json").read_text()) for path in (revised, fresh))
    assert one.pop("revisions")
    for manifest in (one, other):
        manifest.pop("checksum")
        for log in manifest["logs"]:  # by which a file is recognised that was added already
            del log["sha256"], log["size"]
    assert one == other


@pytest.mark.parametrize("engine", ENGINES)
def test_forgetting_leaves_what_a_log_without_the_person_gives(engine: str, tmp_path: Path) -> None:
    lines = _made_up(tmp_path)
    gone = {_users(lines)[3], _users(lines)[11]}
    log = _write(tmp_path / "log.tsv", lines)
    prepare([log], tmp_path / "data", _settings(engine))
    revised = forget(tmp_path / "data", gone)
    left = [line for line in lines if _user(line) not in gone]
    assert revised.users_removed == 2
    assert revised.rows_removed == len(lines) - len(left)
    _write(log, left)
    prepare([log], tmp_path / "fresh", _settings(engine))
    _same_bytes(tmp_path / "data", tmp_path / "fresh")


def test_nothing_of_a_forgotten_person_is_left_in_any_file(tmp_path: Path) -> None:
    lines = _made_up(tmp_path)
    user = _users(lines)[3]
    secret = [
        f"{user}\tquixotic zanzibar {word}\t2006-03-01 1{n}:00:00\t\thttp://zanzibar.example\n"
        for n, word in enumerate(("map", "map", "hotel"))
    ]
    log = _write(tmp_path / "log.tsv", lines + secret)
    prepare([log], tmp_path / "data", _settings(min_users=1))
    assert _holds(tmp_path / "data", "zanzibar")
    forget(tmp_path / "data", [user])
    assert not _holds(tmp_path / "data", "zanzibar")
    assert not _holds(tmp_path / "data", str(pseudonym(user)))


def _holds(folder: Path, text: str) -> bool:
    import gzip

    import polars as pl

    tables = [pl.read_parquet(file).write_ndjson() for file in folder.rglob("*.parquet")]
    rejected = gzip.decompress((folder / "rejected.ndjson.gz").read_bytes()).decode()
    plain = [file.read_text() for file in folder.rglob("*") if file.suffix in (".txt", ".json")]
    return any(text in content for content in (*tables, rejected, *plain))


@pytest.mark.parametrize("engine", ENGINES)
def test_updating_gives_what_preparing_everything_at_once_gives(
    engine: str, tmp_path: Path
) -> None:
    header, *lines = _made_up(tmp_path)
    lines.sort(key=lambda line: line.split("\t")[2] if line.count("\t") == 4 else "")
    cut = len(lines) * 3 // 4
    old = _write(tmp_path / "1.tsv", [header, *lines[:cut]])
    new = _write(tmp_path / "2.tsv", [header, *lines[cut:]])
    prepare([old], tmp_path / "data", _settings(engine))
    update(tmp_path / "data", [new])
    prepare([old, new], tmp_path / "fresh", _settings(engine))
    _same_bytes(tmp_path / "data", tmp_path / "fresh")


@pytest.mark.parametrize(
    "cuts", [{"split_at": "2006-05-01,2006-05-15,2006-05-23"}, {"split_days": "9,3,2"}]
)
def test_updating_day_by_day_gives_the_same_with_other_cuts(
    cuts: dict[str, str], tmp_path: Path
) -> None:
    header, *lines = _made_up(tmp_path)
    files = [
        _write(tmp_path / f"{n}.tsv", [header, *lines[n::5]]) for n in range(5)
    ]  # users and sessions are spread over all days
    settings = _settings(**cuts)
    prepare(files[:1], tmp_path / "data", settings)
    for file in files[1:]:
        update(tmp_path / "data", [file])
    prepare(files, tmp_path / "fresh", settings)
    _same_bytes(tmp_path / "data", tmp_path / "fresh")


def test_old_days_go_with_their_rejected_rows(tmp_path: Path) -> None:
    header, *lines = _made_up(tmp_path)
    good = [line for line in lines if line.count("\t") == 4 and "not a time" not in line]
    last = max(line.split("\t")[2] for line in good)
    assert last.startswith("2006-05-30")
    old, new = good[: len(good) // 2], [*good[len(good) // 2 :], "broken\n"]
    first = _write(tmp_path / "1.tsv", [header, *old, "also broken\n"])
    second = _write(tmp_path / "2.tsv", [header, *new])
    prepare([first], tmp_path / "data", _settings())
    revised = update(tmp_path / "data", [second], keep_days=30)
    kept = []
    for file, body in ((first, [*old, "also broken\n"]), (second, new)):
        left, recent = [], False
        for line in body:
            if line.count("\t") == 4:
                recent = line.split("\t")[2] >= "2006-05-01"
            left += [line] if recent else []
        kept.append(_write(file, [header, *left]))
    prepare(kept, tmp_path / "fresh", _settings())
    _same_bytes(tmp_path / "data", tmp_path / "fresh")
    assert revised.rows_removed > 0


def _ubi(user: str, number: int, query: str, minute: int) -> Lines:
    """A query, a click on it, a page view, and a click on nothing, by one user."""
    at = f"2024-01-0{1 + number % 9}T10:{minute:02}:00Z"
    name = f"{user}-{number}-{minute}"
    event = {"client_id": user, "timestamp": at, "query_id": name}
    target = {"event_attributes": {"object": {"object_id": f"page {query}"}}}
    rows = [
        {"client_id": user, "timestamp": at, "user_query": query, "query_id": name},
        {**event, "action_name": "click", **target},
        {**event, "action_name": "page_view"},
        {**event, "action_name": "click", **target, "query_id": f"lost {name}"},
    ]
    return [json.dumps(row) + "\n" for row in rows]


def _ubi_lines() -> Lines:
    words = ("red", "blue", "green", "shoes", "boots")
    return [
        line
        for n in range(60)
        for minute in (1, 2, 3)
        for line in _ubi(f"u{n % 12}", n, f"{words[n % 5]} {words[(n + minute) % 5]}", minute)
    ]


def _belongs(line: str, user: str) -> bool:
    return bool(json.loads(line)["client_id"] == user)


def test_joined_logs_forget_a_person_s_events_too(tmp_path: Path) -> None:
    lines = _ubi_lines()
    log = _write(tmp_path / "log.ndjson", lines)
    settings = _settings(holdout_users=0.0)
    prepare([log], tmp_path / "data", settings)
    assert forget(tmp_path / "data", ["u3"]).users_removed == 1
    _write(log, [line for line in lines if not _belongs(line, "u3")])
    prepare([log], tmp_path / "fresh", settings)
    _same_bytes(tmp_path / "data", tmp_path / "fresh")


def test_joined_logs_are_updated_file_by_file(tmp_path: Path) -> None:
    lines = _ubi_lines()
    old, new = _write(tmp_path / "1", lines[:400]), _write(tmp_path / "2", lines[400:])
    settings = _settings(holdout_users=0.0, read=ReadSettings(format="ubi"))
    prepare([old], tmp_path / "data", settings)
    update(tmp_path / "data", [new])
    prepare([old, new], tmp_path / "fresh", settings)
    _same_bytes(tmp_path / "data", tmp_path / "fresh")


@pytest.mark.parametrize("kind", sorted(COUNT_MODELS))
def test_count_models_of_a_folder_that_forgot_never_saw_the_person(
    kind: str, forgotten_and_fresh: tuple[Path, Path], tmp_path: Path
) -> None:
    from nextquery.logs.data_folder import PreparedData

    folders = []
    for data in forgotten_and_fresh:
        model_type = count_model(kind)
        model = fit_model(model_type, PreparedData(data), model_type.settings_type())
        model.save(tmp_path / data.name)
        folders.append(tmp_path / data.name)
    one, other = (
        {
            file.name: file.read_bytes()
            for file in folder.rglob("*")
            if file.name != "manifest.json" and file.is_file()
        }
        for folder in folders
    )
    assert one == other


@pytest.fixture(scope="module")
def forgotten_and_fresh(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("forgotten")
    lines = _made_up(folder)
    user = _users(lines)[3]
    log = _write(folder / "log.tsv", lines)
    prepare([log], folder / "data", _settings())
    forget(folder / "data", [user])
    prepare(
        [_write(log, [line for line in lines if _user(line) != user])],
        folder / "fresh",
        _settings(),
    )
    return folder / "data", folder / "fresh"


def _refused(work: Callable[[], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        work()


def test_impossible_changes_are_refused(tmp_path: Path) -> None:
    log = _write(tmp_path / "log.tsv", _made_up(tmp_path))
    data = tmp_path / "data"
    prepare([log], data, _settings(journal=False))
    _refused(lambda: forget(data, ["1"]), ArtifactError, "has no journal.*prepare the log again")
    _refused(lambda: update(data, [log]), ArtifactError, "has no journal")
    prepare([log], data, _settings())
    before = (data / "manifest.json").read_bytes()
    users = _users(log.read_text().splitlines(True))
    _refused(lambda: forget(data, []), InputError, "nobody is named")
    _refused(lambda: forget(data, ["jane"], as_pseudonyms=True), InputError, "is a number")
    _refused(lambda: forget(data, users), LogError, "no row would be left|no session")
    _refused(lambda: update(data, []), InputError, "nothing to do")
    _refused(lambda: update(data, [log], keep_days=0), InputError, "`keep_days`")
    assert (data / "manifest.json").read_bytes() == before


def test_the_commands_report_what_they_changed(tmp_path: Path) -> None:
    lines = _made_up(tmp_path)
    log = _write(tmp_path / "log.tsv", lines)
    data = tmp_path / "data"
    prepare([log], data, _settings())
    listed = _write(tmp_path / "users", [f"{_users(lines)[4]}\n", "\n", "nobody\n"])
    shown = CliRunner().invoke(app, ["forget", str(data), "--users-file", str(listed)])
    assert "1 of 2 users had rows" in shown.stdout
    assert "1 rejected rows with an excerpt name nobody" in shown.stdout
    document = json.loads(run_command("update", data, log, "--keep-days", "30", "--json"))
    assert document["rows_added"] == len(lines) - 1
    assert [sorted(note) for note in document["revisions"]] == [
        ["date", "forgotten_users"],
        ["added_files", "date", "keep_days"],
    ]
