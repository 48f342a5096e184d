"""The documents name every command and option that the program has."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup, TyperOption

from nextquery.cli.main import app

ROOT = Path(__file__).parents[2]


def _commands() -> Iterator[tuple[str, TyperCommand]]:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            for child, subcommand in command.commands.items():
                assert isinstance(subcommand, TyperCommand)
                yield f"{name} {child}", subcommand
        elif isinstance(command, TyperCommand):
            yield name, command


COMMANDS = list(_commands())
IDS = [name for name, _ in COMMANDS]


def _section(name: str) -> str:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    found = re.search(
        rf"^##+ nextquery {re.escape(name)}\n(.*?)(?=^## |^### |\Z)", text, re.M | re.S
    )
    assert found, f"docs/cli.md has no section for 'nextquery {name}'"
    return found[1]


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=IDS)
def test_every_option_is_documented(name: str, command: TyperCommand) -> None:
    section = _section(name)
    for parameter in command.params:
        if isinstance(parameter, TyperOption) and parameter.name != "help":
            longest = max(parameter.opts, key=len)
            assert f"`{longest}" in section, f"docs/cli.md: 'nextquery {name}' lacks {longest}"


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=IDS)
def test_every_help_has_an_example(name: str, command: TyperCommand) -> None:
    assert command.help is not None
    assert f"nextquery {name}" in command.help
