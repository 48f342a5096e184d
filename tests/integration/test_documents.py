"""What the pages say about commands, options, files and tests exists."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup

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


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=IDS)
def test_every_help_has_an_example(name: str, command: TyperCommand) -> None:
    assert command.help is not None
    assert f"nextquery {name}" in command.help


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=IDS)
def test_every_example_uses_options_that_exist(name: str, command: TyperCommand) -> None:
    example = re.search(r"Example: `(.+?)`", command.help or "", re.S)
    assert example
    words = shlex.split(example[1])
    assert " ".join(words).startswith(f"nextquery {name}")
    known = {spelt for parameter in command.params for spelt in parameter.opts}
    used = {word.split("=")[0] for word in words if word.startswith("-")}
    required = {p.opts[0] for p in command.params if p.required and p.opts[0].startswith("-")}
    assert required <= used <= known


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=IDS)
def test_every_option_and_argument_is_explained(name: str, command: TyperCommand) -> None:
    for parameter in command.params:
        text = getattr(parameter, "help", None)
        assert text, f"nextquery {name}: {parameter.name} has no help"
        assert text.endswith((".", "=3")), f"nextquery {name}: {parameter.name}: {text}"


def _shown_commands(page: Path) -> Iterator[list[str]]:
    """The nextquery commands that lines of a page's blocks begin with, comments left out."""
    blocks = re.findall(
        r"^```(?:sh|bash|console)?\n(.*?)^```", page.read_text("utf-8"), re.M | re.S
    )
    for line in "".join(blocks).replace("\\\n", " ").splitlines():
        command = line.removeprefix("$ ")
        if command.startswith("nextquery "):
            yield shlex.split(command, comments=True)[1:]


PAGES = [
    *ROOT.glob("*.md"),
    *(page for page in sorted(ROOT.glob("docs/**/*.md")) if page.parent.name != "generated"),
]
OTHERS = {
    # Options of other programs that pages name.
    "--build-arg", "--data-binary", "--destination_format", "--no-deps",
    "--nnodes", "--nproc-per-node",
    "--rdzv-backend", "--rdzv-endpoint", "--dist", "--json", "--help", "--version",
    "--visitors", "--tutorial", "--quick",
}  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_the_commands_that_a_page_shows_exist(page: Path) -> None:
    known = dict(COMMANDS)
    for words in _shown_commands(page):
        options = [word.split("=")[0] for word in words if word.startswith("-")]
        name = " ".join(words[:2]) if " ".join(words[:2]) in known else " ".join(words[:1])
        if options[:1] == words[:1]:
            assert words[0] in ("--version", "--help", "--install-completion")
            continue
        assert name in known, f"{page.name}: nextquery {' '.join(words)}"
        spelt = {option for p in known[name].params for option in [*p.opts, *p.secondary_opts]}
        assert set(options) <= spelt | {"--help"}, f"{page.name}: nextquery {' '.join(words)}"


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_the_options_that_a_page_names_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return  # names removed options, too
    parameters = [parameter for _, command in COMMANDS for parameter in command.params]
    known = {spelt for p in parameters for spelt in [*p.opts, *p.secondary_opts]}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z_-]+", page.read_text(encoding="utf-8")))
    assert named - known - OTHERS == set()


def test_no_page_holds_both_sides_of_a_merge() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("configs/*.toml")]
    marked = [page.name for page in pages if re.search(r"^(<{7}|>{7}) ", page.read_text(), re.M)]
    assert marked == []


def test_every_kind_of_model_is_in_the_page_of_files() -> None:
    kinds = next(
        line
        for line in (ROOT / "docs" / "reference" / "files.md").read_text().splitlines()
        if line.startswith("| `kind`")
    )
    assert [kind for kind in MODEL_KINDS if f"`{kind}`" not in kinds] == []
