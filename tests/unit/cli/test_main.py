"""The program: options, errors as one line, lazy imports."""

import ast
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
import typer
import typer.main
from hypothesis import given
from hypothesis import strategies as st
from typer.core import TyperGroup, TyperOption
from typer.testing import CliRunner

from nextquery._version import __version__
from nextquery.cli import main
from nextquery.cli.entry import described
from nextquery.cli.main import (
    MODULES,
    MOST_CHARACTERS,
    PANELS,
    LazyCommands,
    app,
    in_options,
    one_line,
    option_names,
)
from nextquery.cli.options import ConfigFile, Given, with_settings
from nextquery.errors import EXTRAS, ConfigError, InputError
from nextquery.settings import TUNING, Option, check_limits, setting, split_pair


def test_the_version_names_the_extras_that_are_there() -> None:
    printed = CliRunner().invoke(main.app, ["--version"])
    assert printed.exit_code == 0
    assert printed.stdout.startswith(f"nextquery {__version__} (extras: ")
    assert "serve" in printed.stdout
    assert "serve" in EXTRAS


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["nextquery", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.run()
    return int(str(ended.value.code or 0))


def test_an_error_is_one_line_in_the_words_of_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "log.tsv"
    log.write_text("user\ttime\tquery\n")
    options = ["--out", str(tmp_path / "d"), "--holdout-users", "1"]
    code = run(monkeypatch, "prepare", str(log), *options)
    said = capsys.readouterr().err
    assert code == 2
    assert said == "error: --holdout-users 1.0: give a share below 1\n"


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "nextquery.service.run", raising=False)
    code = run(monkeypatch, "serve", str(tmp_path))
    said = capsys.readouterr().err
    assert code == 2
    assert said.count("\n") == 1
    assert "nextquery[serve]" in said


def test_a_module_that_no_extra_has_is_a_defect_and_shown_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> None:
        raise ModuleNotFoundError("No module named 'nowhere'", name="nowhere")

    monkeypatch.setattr(main, "app", broken)
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        main.run()


@given(st.text(max_size=3000))
def test_any_message_is_one_line(message: str) -> None:
    shown = one_line(message)
    assert len(shown.splitlines()) <= 1
    assert len(shown) <= MOST_CHARACTERS + 10
    assert "\x1b" not in shown


def test_long_messages_keep_beginning_and_end() -> None:
    shown = one_line("`kind` " + "x" * 100_000 + ": must be one of a, b")
    assert shown.startswith("`kind` xxx")
    assert shown.endswith("xxx: must be one of a, b")
    assert "[...]" in shown


def test_names_that_are_not_text_stay_bytes() -> None:
    name = os.fsdecode(b"a\xff")
    assert os.fsencode(one_line(name)) == b"a\xff"


def command(*arguments: str, file_size: int | None = None) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        if file_size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    # -B: a compiled module that is cut off by the limit would break every later test.
    return subprocess.run(
        [sys.executable, "-B", "-m", "nextquery", *arguments],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        preexec_fn=limit,
    )


def assert_one_line(done: subprocess.CompletedProcess[str], *said: str) -> None:
    assert done.stderr.startswith("error: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert all(text in done.stderr for text in said), done.stderr


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(28, "No space left", b"a\xff"), "a\udcff: No space left; free some space"),
        (OSError("4096 requested and 0 written"), "4096 requested and 0 written"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (OSError(2, "No such file", 3), "No such file; check the path"),
        (OSError("No space left (os error 28)"), "No space left (os error 28); free some"),
        (OSError(), "OSError"),
    ],
)
def test_what_is_said(error: OSError, expected: str) -> None:
    assert described(error).startswith(expected)


@pytest.mark.parametrize(
    ("name", "file_size", "said", "code"),
    [
        ("a file/log.tsv", None, ("/a file: ", "choose another path"), 2),
        ("x" * 300, None, ("xxx", "too long"), 2),
        ("log.tsv", 1000, ("File too large", "ulimit"), 1),
    ],
)
def test_a_log_that_cannot_be_written(
    tmp_path: Path, name: str, file_size: int | None, said: tuple[str, ...], code: int
) -> None:
    (tmp_path / "a file").touch()
    done = command("synth", str(tmp_path / name), "--sessions", "5000", file_size=file_size)
    assert_one_line(done, *said)
    assert done.returncode == code


def test_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    name = os.fsdecode(b"log-\xff.tsv")
    done = command("synth", str(tmp_path / name), "--sessions", "10")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / name).is_file()
    assert_one_line(command("inspect", str(tmp_path / name)), name)


SAID = "naïve \u6771\u4eac \U0001f600 \u0100"


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8"])
def test_every_text_is_printed_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    out = tmp_path / f"{SAID}.tsv"
    done = subprocess.run(
        [sys.executable, "-m", "nextquery", "synth", str(out), "--sessions", "10"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    shown = done.stdout.decode(encoding).partition(":")[0]
    assert json.loads(f'"{shown}"') == str(out)


def test_errors_are_printed_in_latin_1(tmp_path: Path) -> None:
    missing = tmp_path / SAID
    done = subprocess.run(
        [sys.executable, "-m", "nextquery", "inspect", str(missing)],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert done.returncode == 2
    shown = str(tmp_path).encode() + rb"/na\xefve \u6771\u4eac \ud83d\ude00 \u0100"
    shown = shown.replace(rb"\xef", b"\xef")
    assert done.stderr == b"error: " + shown + b": no such folder\n"


@pytest.mark.slow
@pytest.mark.parametrize("size", [6000, 50_000])
def test_a_full_disk_while_rows_are_removed(tmp_path: Path, prepared_log: Path, size: int) -> None:
    done = command(
        "forget", str(prepared_log), "--user", "1", "--out", str(tmp_path / "out"), file_size=size
    )
    assert_one_line(done, "File too large")
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def prepared_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    assert command("synth", str(folder / "log.tsv"), "--sessions", "2000").returncode == 0
    options = ("--min-users", "1", "--no-spelling", "--out", str(folder / "data"))
    assert command("prepare", str(folder / "log.tsv"), *options).returncode == 0
    return folder / "data"


SOURCE = Path(__file__).parents[3] / "src" / "nextquery"


def test_settings_of_a_message_become_options() -> None:
    options = {"out": "--out", "columns": "--columns"}

    assert (
        in_options("x: a file; `out` needs a folder", options) == "x: a file; --out needs a folder"
    )
    assert in_options("try `columns=user=a`", options) == "try --columns user=a"
    assert in_options("try `clusters=words`", options) == "try --set clusters=words"
    assert in_options("`nothing` of ours", options) == "nothing of ours"


def test_options_are_found_by_the_name_of_their_setting() -> None:
    names = option_names(app)

    assert names["min_users"] == "--min-users"
    assert names["overrides"] == "--set"
    assert names["assessors"] == "--assessors"  # of a sub-command


@pytest.mark.parametrize(
    "module",
    [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] != "cli"],
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_the_library_names_settings_and_no_options(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    raised = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    texts = [
        part.value
        for node in raised
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]

    assert not [text for text in texts if re.search(r"(?<![\w-])--[a-z{]?", text)]


SAVED = Path(__file__).with_name("options.txt")


def _commands(group: TyperGroup, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _spellings(command: Any) -> Iterator[str]:
    for option in command.params:
        if isinstance(option, TyperOption):
            kind = "flag" if option.is_flag else "list" if option.multiple else "value"
            yield f"{'|'.join(sorted(option.opts + option.secondary_opts))}:{kind}"


def test_every_option_that_was_ever_released_is_still_there() -> None:
    """`options.txt` has the options of November 2026: new ones may come, none may go."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    now = {name: set(_spellings(command)) for name, command in _commands(group)}
    for line in SAVED.read_text(encoding="utf-8").splitlines():
        name, _, options = line.partition(":")
        assert set(options.split()) <= now[name], name


@dataclass(frozen=True)
class Sample:
    """One field of every type."""

    needed: str = field(metadata={"option": Option(None)})
    """Has no option."""
    count: int = setting(3, least=1, most=9, panel=TUNING)
    """How many; see `keys_file`."""
    share: float | None = setting(None, least=0, most=1)
    """how much."""
    keys_file: Path | None = setting(None, flag="--keys")
    """Where."""
    spelling: bool = setting(True, flag="--no-spelling")
    """False: leave the spelling alone."""
    names: tuple[str, ...] = setting((), flag="--name")
    """Who; repeatable."""
    runs: Mapping[str, Path] = setting({}, factory=dict, flag="--run", metavar="NAME=FILE")
    """Which."""
    known: Literal["free", "only"] | None = None
    """Kinds."""

    def __post_init__(self) -> None:
        check_limits(self)


def run_sample(*words: str) -> tuple[Sample | None, Any]:
    made: list[Sample] = []
    sample = typer.Typer()

    @sample.command()
    @with_settings
    def main(options: Given[Sample], config: ConfigFile = None) -> None:
        made.append(options.settings(needed="yes"))

    result = CliRunner().invoke(sample, list(words), env={"COLUMNS": "200"})
    return (made[0] if made else None), result


def test_options_reach_their_fields() -> None:
    words = "--count 5 --share 0.5 --keys k --no-spelling --name a --name b --run x=f --known only"
    assert run_sample(*words.split())[0] == Sample(
        "yes", 5, 0.5, Path("k"), False, ("a", "b"), {"x": Path("f")}, "only"
    )


def test_help_is_the_documentation_of_the_fields() -> None:
    shown = run_sample("--help")[1].output
    assert "How many; see --keys." in shown
    assert " Leave the spelling alone." in shown
    assert " how much." in shown
    assert "default: 3" in shown
    assert "--needed" not in shown
    assert shown.index(TUNING) < shown.index("--count")


@pytest.mark.parametrize(
    "words", [("--count", "10"), ("--share", "-1"), ("--known", "all"), ("--run", "x")]
)
def test_a_bad_option_is_refused(words: tuple[str, ...]) -> None:
    settings, result = run_sample(*words)
    assert settings is None
    assert result.exit_code == 2 or isinstance(result.exception, InputError)


def test_a_file_gives_defaults_and_options_override_it(tmp_path: Path) -> None:
    config = tmp_path / "sample.toml"
    config.write_text(
        'count = 4\nshare = 1\nkeys = "k"\nno_spelling = true\nname = ["a"]\nknown = "only"\n'
        '[run]\nx = "f"\n'
    )
    settings, result = run_sample("--config", str(config), "--count", "6", "--name", "b")
    assert settings == Sample("yes", 6, 1.0, Path("k"), False, ("b",), {"x": Path("f")}, "only"), (
        result.output
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("coumt = 3", "unknown key 'coumt'; did you mean 'count'? Known keys: count, share"),
        ("needed = 'x'", "unknown key 'needed'"),
        ("config = 'x'", "unknown key 'config'"),
        ("count = 10", "count: must be a whole number from 1 to 9 (given: 10)"),
        ("count = '3'", "count: must be a whole number from 1 to 9 (given: '3')"),
        ("count = true", "count: must be a whole number"),
        ("count = 3.5", "count: must be a whole number"),
        ("share = nan", "share: must be a number from 0 to 1"),
        ("keys = 3", "keys: must be a string"),
        ("no_spelling = 1", "no_spelling: must be true or false"),
        ("name = 'a'", "name: must be a list of strings"),
        ("name = [1]", "name: must be a list of strings"),
        ("known = 'all'", "known: must be one of free, only"),
        ("count = ", "not valid TOML"),
    ],
)
def test_a_mistake_in_a_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    config = tmp_path / "sample.toml"
    config.write_text(text)
    settings, result = run_sample("--config", str(config))
    assert settings is None
    assert isinstance(result.exception, ConfigError)
    assert f"sample.toml: {message}" in str(result.exception)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`config` .*none.toml: cannot be read"):
        raise run_sample("--config", str(tmp_path / "none.toml"))[1].exception


@pytest.mark.parametrize("text", ["a", "=b", "a=", ""])
def test_a_pair_has_two_sides(text: str) -> None:
    with pytest.raises(InputError, match=f"`compare` {text}: write NAME=MODEL"):
        split_pair(text, "compare", "NAME=MODEL")


HEAVY = {"polars", "pyarrow", "duckdb", "narwhals", "torch", "rich", "bm25s"}


@pytest.mark.parametrize("name", MODULES)
def test_every_command_of_the_table_is_there(name: str) -> None:
    command = LazyCommands()[name]
    assert command.name == name
    listed = dict(main._summaries())[name]
    assert (listed.help, listed.rich_help_panel) == (command.help, command.rich_help_panel)


def test_help_groups_the_commands_in_panels() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    starts = [shown.index(f"─ {title} ─") for title in PANELS]
    for (title, commands), start, end in zip(
        PANELS.items(), starts, [*starts[1:], len(shown)], strict=True
    ):
        panel = shown[start:end]
        assert [name for name in MODULES if f"│ {name} " in panel] == list(commands), title
    assert len(next(iter(PANELS.values()))) == 8


def test_a_mistyped_command_is_guessed() -> None:
    result = CliRunner().invoke(app, ["sugest"])

    assert result.exit_code == 2
    assert "suggest" in result.output


def test_suggesting_with_a_count_model_imports_little(served_models: dict[str, Path]) -> None:
    code = (
        "import sys; from nextquery.cli.entry import run\n"
        f"sys.argv = ['nextquery', 'suggest', {str(served_models['adjacency'])!r}, 'paris']\n"
        "try: run()\n"
        "except SystemExit: print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    imported = set(done.stdout.splitlines()[-1].split())

    assert not imported & HEAVY
    commands = {name for name in imported if name in MODULES.values()}
    assert commands == {"nextquery.cli.suggest"}
