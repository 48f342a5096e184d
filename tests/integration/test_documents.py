"""The documents name every command and option that the program has."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup, TyperOption

from nextquery.cli.main import app
from nextquery.suggesters.loading import MODEL_KINDS

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


def test_no_page_holds_both_sides_of_a_merge() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("configs/*.toml")]
    marked = [page.name for page in pages if re.search(r"^(<{7}|>{7}) ", page.read_text(), re.M)]
    assert marked == []


def test_every_kind_of_model_is_in_the_page_of_files() -> None:
    kinds = next(
        line
        for line in (ROOT / "docs" / "files.md").read_text().splitlines()
        if line.startswith("| `kind`")
    )
    assert [kind for kind in MODEL_KINDS if f"`{kind}`" not in kinds] == []
