"""Options made of settings classes and files; the options that people's scripts use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
import typer
import typer.main
from typer.core import TyperGroup, TyperOption
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.cli.options import ConfigFile, Given, with_settings
from nextquery.errors import ConfigError, InputError
from nextquery.settings import TUNING, Option, check_limits, setting, split_pair

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


def run(*words: str) -> tuple[Sample | None, Any]:
    made: list[Sample] = []
    sample = typer.Typer()

    @sample.command()
    @with_settings
    def main(options: Given[Sample], config: ConfigFile = None) -> None:
        made.append(options.settings(needed="yes"))

    result = CliRunner().invoke(sample, list(words), env={"COLUMNS": "200"})
    return (made[0] if made else None), result


def test_options_have_the_defaults_of_the_settings_class() -> None:
    assert run()[0] == Sample("yes")


def test_options_reach_their_fields() -> None:
    words = "--count 5 --share 0.5 --keys k --no-spelling --name a --name b --run x=f --known only"
    assert run(*words.split())[0] == Sample(
        "yes", 5, 0.5, Path("k"), False, ("a", "b"), {"x": Path("f")}, "only"
    )


def test_help_is_the_documentation_of_the_fields() -> None:
    shown = run("--help")[1].output
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
    settings, result = run(*words)
    assert settings is None
    assert result.exit_code == 2 or isinstance(result.exception, InputError)


def test_a_file_gives_defaults_and_options_override_it(tmp_path: Path) -> None:
    config = tmp_path / "sample.toml"
    config.write_text(
        'count = 4\nshare = 1\nkeys = "k"\nno_spelling = true\nname = ["a"]\nknown = "only"\n'
        '[run]\nx = "f"\n'
    )
    settings, result = run("--config", str(config), "--count", "6", "--name", "b")
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
    settings, result = run("--config", str(config))
    assert settings is None
    assert isinstance(result.exception, ConfigError)
    assert f"sample.toml: {message}" in str(result.exception)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`config` .*none.toml: cannot be read"):
        raise run("--config", str(tmp_path / "none.toml"))[1].exception


@pytest.mark.parametrize("text", ["a", "=b", "a=", ""])
def test_a_pair_has_two_sides(text: str) -> None:
    with pytest.raises(InputError, match=f"`compare` {text}: write NAME=MODEL"):
        split_pair(text, "compare", "NAME=MODEL")
