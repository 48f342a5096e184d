"""The other commands: audit, experiment, export, feedback, study, demo, doctor."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tests.conftest import run_cli, run_command
from tests.simulated_visitors import START
from tests.unit.feedback.test_events import write
from typer.core import TyperGroup

from nextquery import prepare
from nextquery.cli import experiment, start
from nextquery.cli.main import app
from nextquery.cli.start import COMMANDS, _import
from nextquery.errors import EXTRAS, InputError
from nextquery.evaluation.systems import identity
from nextquery.feedback.events import (
    Arm,
    ListedSuggestion,
    ServedList,
    ShadowList,
    ShownList,
    TakenSuggestion,
    Trial,
)
from nextquery.logs.synthetic.log import write_log
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model

SESSIONS = [
    (f"user{n}-{k}", (f"word{n} word{(n + 1) % 30}", f"word{n} word{(n + 9) % 30}"))
    for n in range(30)
    for k in range(3)
]


@pytest.fixture
def arguments(prepared: Any, tiny_log: Any, tmp_path: Path) -> list[str]:
    data = prepared(tiny_log(SESSIONS, min_users=3))
    fit_model(Adjacency, data).save(tmp_path / "model")
    few = ["--canaries", "1", "--contexts", "1", "--min-users", "3"]
    return ["audit", str(tmp_path / "model"), str(data.path), *few]


def test_it_prints_json(arguments: list[str]) -> None:
    result = json.loads(run_cli(*arguments, "--json").stdout)
    assert {item["kind"] for item in result["poisoning"]} == {"adjacency"}
    assert result["poisoning"][0]["needed"] == 3


def test_it_prints_a_page(arguments: list[str]) -> None:
    page = run_cli(*arguments).stdout
    assert "1. Does the model give away what few people typed?" in page
    assert "No blocklist was given" in page


def test_a_folder_without_a_name_is_called_by_its_kind(served_models: dict[str, Path]) -> None:
    folder = served_models["adjacency"]
    assert experiment._named("model", [str(folder), f"mine={folder}"]) == {
        "adjacency": folder,
        "mine": folder,
    }
    with pytest.raises(InputError, match=r"^`feature_from` .*: the name 'adjacency' is taken"):
        experiment._named("feature_from", [str(folder), str(folder)])


def test_several_folders_are_an_ensemble(served_models: dict[str, Path]) -> None:
    one, two = served_models["adjacency"], served_models["popularity"]
    result = experiment._with_ensembles([f"both={one},{two}", str(one)])
    assert result == {"both": (one, two), "adjacency": one}
    with pytest.raises(InputError, match="the name 'both' is taken"):
        experiment._with_ensembles([f"both={one},{two}", f"both={one}"])


def test_runs_have_names(tmp_path: Path) -> None:
    file = tmp_path / "run.txt"
    file.write_text("1 Q0 a 1 2.0 x\n")
    twice = [f"theirs={file}", f"theirs={file}"]
    assert experiment._run_files(twice) == {"theirs": (file, file)}
    with pytest.raises(InputError, match=r"`runs` .*: write NAME=FILE"):
        experiment._run_files([str(file)])
    with pytest.raises(InputError, match=r"`runs` .*gone.txt: no such file"):
        experiment._run_files([f"theirs={tmp_path / 'gone.txt'}"])


def test_systems_of_ones_own_are_imported_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_systems.py").write_text(
        "from nextquery.records import ScoredQuery\n"
        "class Flat:\n"
        "    identity = 'flat 1'\n"
        "    def score(self, context, candidates):\n"
        "        return [ScoredQuery(text, 0.0, 1) for text in candidates]\n"
        "def flat(): return Flat()\n"
        "def several(): return {'one': Flat(), 'two': Flat()}\n"
        "def wrong(): return 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert list(experiment._features([], ["own_systems:flat", "own_systems:several"])) == [
        "flat", "one", "two",
    ]  # fmt: skip
    model = experiment._with_ensembles(["mine=own_systems:flat"])["mine"]
    assert identity(model) == "flat 1"
    for function, problem in {
        "own_systems:wrong": "wrong is a int without score",
        "own_systems:gone": "has no attribute 'gone'",
        "nowhere:flat": "No module named 'nowhere'",
    }.items():
        with pytest.raises(InputError, match=f"`features` {function}: .*{problem}"):
            experiment._features([], [function])
    with pytest.raises(InputError, match="must give one object"):
        experiment._with_ensembles(["mine=own_systems:several"])


def test_suggestions_are_written(served_models: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = "export", served_models["adjacency"], "--to", "json", "--out", out, "--json"
    facts = json.loads(run_cli(*command, "--queries", "3", "--next-queries", "2").stdout)
    assert (facts["out"], facts["target"], facts["queries"]) == (str(out), "json", 3)
    assert facts["next_queries"] <= 6
    assert (out / "manifest.json").is_file()


PLACES = (ListedSuggestion("boots", "seen", "A"), ListedSuggestion("socks", "synthetic", "B"))
TRIAL = Trial("interleave", (Arm("A", "1"), Arm("B", "1")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Thirty visitors who all prefer what B placed."""
    for number in range(30):
        who = f"list-{number}", f"visitor-{number}", START + timedelta(minutes=number), "shoes"
        for event in (
            ServedList(*who, model="A+B", suggestions=PLACES, trial=TRIAL),
            ShadowList(*who, model="C", suggestions=PLACES),
            ShownList(*who, suggestions=("boots", "socks")),
            TakenSuggestion(*who, suggestion="socks", position=2),
        ):
            write(tmp_path / "feedback", event)
    return tmp_path / "feedback"


def test_a_report_is_summarised_in_a_few_lines(folder: Path, tmp_path: Path) -> None:
    message = run_command(
        "feedback", "report", folder, "--out", tmp_path / "report", "--per-visitor", "1"
    )
    assert "30 lists, 30 visitors: accepted from 100.0%" in message
    assert "B: 30 of 30 suggestions accepted" in message
    assert (tmp_path / "report" / "index.html").exists()


def test_a_comparison_names_the_winner(folder: Path) -> None:
    message = run_command("feedback", "compare", folder, "--smallest-effect", "1")
    assert "interleave A against B: B is better" in message
    assert "shadow C: 100% of 30 lists in common" in message
    [trial] = json.loads(
        run_command("feedback", "compare", folder, "--json", "--smallest-effect", "1")
    )["trials"]
    assert trial["winner"] == "B"
    assert trial["second"] == {
        "name": "B", "version": "1", "visitors": 30, "shown": 30, "taken": 30,
    }  # fmt: skip


TOPICS = "red shoes\nboots\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--model", "only-a-folder"], "`model` only-a-folder: write NAME=FOLDER"),
        (["--model", "a=x", "--model", "a=y"], "the name 'a' is taken"),
        (
            ["--model", "a=x", "--model", "b=y", "--max-contexts", "2"],
            "`max_contexts` needs `topics`",
        ),
    ],
)
def test_options_that_make_no_study(tmp_path: Path, options: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        run_cli("study", "create", "--data", tmp_path, "--out", tmp_path / "study", *options)


def test_a_study_is_made_and_looked_at(served_models: dict[str, Path], tmp_path: Path) -> None:
    write_log(tmp_path / "log.tsv", sessions=300, seed=1)
    data = prepare(tmp_path / "log.tsv", tmp_path / "data", spelling=False)
    topics = tmp_path / "topics.txt"
    topics.write_text(TOPICS)
    models = [f"ADJ={served_models['adjacency']}", f"POP={served_models['popularity']}"]
    made = run_command(
        *("study", "create", "--data", data.path, "--topics", topics, "--out", tmp_path / "study"),
        *("--model", models[0], "--model", models[1], "--places", "3", "--json"),
    )
    assert json.loads(made)["topics"] == 2
    look = json.loads(run_command("study", "first-pass", tmp_path / "study", "--json"))
    assert {model["model"] for model in look["models"]} == {"ADJ", "POP"}
    assert look["topics"] == 2


OUT = Path("somewhere")
STEPS = [*start._steps(OUT, 1000), start._service(OUT, 0)]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.title)
def test_every_step_is_a_command_that_exists(step: start.Step) -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    name, *arguments = step.arguments
    with group.commands[name].make_context(name, arguments) as context:
        assert context.params


def test_a_step_that_fails_ends_the_demo() -> None:
    with pytest.raises(typer.Exit) as stopped:
        start._run(start.Step("a folder that is not there", ("inspect", "no-such-folder")), "1")
    assert stopped.value.exit_code == 2


def test_every_extra_is_named_with_its_commands() -> None:
    assert set(COMMANDS) == {"core", *EXTRAS}


@pytest.fixture
def few_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extras that are imported quickly, and one that is not there: all of them take long."""
    few = {"redis": ("redis",), "excel": ("python_calamine",), "spark": ("no_such_module",)}
    monkeypatch.setattr("nextquery.errors.EXTRAS", few)


@pytest.mark.slow
@pytest.mark.usefixtures("few_extras")
def test_installed_extras_are_listed() -> None:
    result = json.loads(run_command("doctor", "--json"))["extras"]

    assert list(result) == ["core", "redis", "excel", "spark"]
    assert result["redis"]["missing"] == []
    assert result["core"]["import_seconds"] > 0
    assert result["redis"]["import_seconds"] > 0
    assert result["spark"] == {
        "missing": ["no_such_module"],
        "import_seconds": None,
        "failure": None,
    }


@pytest.mark.usefixtures("few_extras")
def test_missing_extras_are_listed_with_what_to_install() -> None:
    lines = run_command("doctor").splitlines()

    assert lines[0].startswith("Python ")
    assert lines[1].startswith("  compiled library: ")
    assert [line.split()[:2] for line in lines[2:]] == [
        ["installed", "core"], ["installed", "redis"], ["installed", "excel"], ["missing", "spark"],
    ]  # fmt: skip
    assert "pip install 'nextquery[spark]'   (lacks no_such_module)" in lines[-1]


@pytest.mark.parametrize(
    ("source", "failure"),
    [
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named"),
        ("raise OSError('libmissing.so.1: cannot open shared object file')", "OSError: libmissing"),
        ("raise RuntimeError('two\\nlines')", "lines"),
        ("import os; os.abort()", "ends the process with exit code -6"),
        ("raise SystemExit(0)", "ends the process with exit code 0"),
        ("def", "SyntaxError"),
        ("import time; time.sleep(60)", "takes longer than 2 seconds"),
        ("print('hello')", None),
    ],
)
def test_a_module_that_cannot_be_imported_is_broken(
    source: str, failure: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module_under_test.py").write_text(source)
    if "sleep" in source:
        monkeypatch.setattr("nextquery.cli.start.IMPORT_SECONDS", 2)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    seconds, said = _import(("module_under_test",))
    assert (seconds is None) == (failure is not None)
    assert (failure or "") in (said or "")


@pytest.mark.usefixtures("few_extras")
def test_broken_extras_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "redis.py").write_text("raise ImportError('not built for this machine')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    lines = run_command("doctor").splitlines()
    [line] = [line for line in lines if "redis" in line]
    assert line.split() == [
        "broken", "redis", "cannot", "be", "imported:", "ImportError:", "not", "built", "for",
        "this", "machine",
    ]  # fmt: skip
