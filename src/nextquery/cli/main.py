"""The `nextquery` command: the table of commands, general options, one-line errors."""

import ast
import os
import re
import shlex
import sys
from collections import UserDict
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from nextquery._version import __version__
from nextquery.errors import (
    EXTRAS,
    MissingDependencyError,
    NextqueryError,
    missing,
    missing_message,
)

MOST_CHARACTERS = 1500
_END = 300


def one_line(message: str) -> str:
    r"""The message without line ends and control characters, its middle left out if it is long.

    >>> one_line("no\nsuch \x1b[31mkind")
    'no such \\x1b[31mkind'
    """
    text = "".join(map(_shown, message.strip()))
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[: MOST_CHARACTERS - _END]} [...] {text[-_END:]}"


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    if character in "\n\r\t\v\f\x85\u2028\u2029":
        return " "
    if "\udc80" <= character <= "\udcff":
        return character  # a byte of a name that is not text, printed as that byte
    return ascii(character)[1:-1]


_SETTING = re.compile(r"`([a-z][a-z_.]*)(?:=([^`]*))?`")
_OTHER_NAMES = {
    "source": "--from",
}
"""Settings whose option has another name."""


def in_options(message: str, options: Mapping[str, str]) -> str:
    """The message with its settings named by their options.

    >>> in_options("nothing left; try a lower `min_users`", {"min_users": "--min-users"})
    'nothing left; try a lower --min-users'
    >>> in_options("no clicks; try `satisfactory=false`", {})
    'no clicks; try --set satisfactory=false'
    >>> in_options("try `columns=user=Visitor ID`", {"columns": "--columns"})
    "try --columns 'user=Visitor ID'"
    """

    def as_option(match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        option = options.get(name)
        if value is None:
            return option or name
        return f"{option} {shlex.quote(value)}" if option else f"--set {name}={value}"

    return _SETTING.sub(as_option, message)


def option_names(app: typer.Typer) -> dict[str, str]:
    """The options of all commands by the name of the setting that each gives."""
    return dict(_options(typer.main.get_command(app))) | _OTHER_NAMES


def _options(command: Any) -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        if isinstance(parameter, TyperOption) and parameter.name:
            yield parameter.name, max(parameter.opts, key=len)
    if isinstance(command, TyperGroup):
        for child in command.commands.values():
            yield from _options(child)


PANELS = {
    "Start here": {
        "demo": "start",
        "init": "prepare",
        "prepare": "prepare",
        "fit": "fit",
        "train": "fit",
        "suggest": "suggest",
        "experiment": "experiment",
        "serve": "serve",
    },
    "Data": {
        "synth": "prepare",
        "update": "data",
        "forget": "data",
        "inspect": "data",
        "trends": "data",
    },
    "Models": {"vectors": "fit", "blend": "fit"},
    "Ask": {
        "score": "suggest",
        "complete": "suggest",
        "why": "suggest",
        "explain": "suggest",
        "neighbours": "suggest",
    },
    "Evaluate": {"audit": "experiment", "study": "study"},
    "Serve": {"feedback": "feedback", "export": "serve"},
    "Operate": {"check": "experiment", "doctor": "start"},
}
"""The panels of `nextquery --help`: for each command the module of `cli` that has a function (or a
group) of its name. The eight commands that most people need come first."""
MODULES = {
    name: f"nextquery.cli.{module}"
    for commands in PANELS.values()
    for name, module in commands.items()
}


class LazyCommands(UserDict[str, Any]):
    """Every command by name, made when it is first looked up."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(MODULES))

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = _command(name)
        return self.data[name]


class LazyGroup(TyperGroup):
    """A group whose commands come from the table."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the table, without making the commands."""
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the commands by their docstrings: importing them all takes half of the time."""
        commands, self.commands = self.commands, dict(_summaries())
        try:
            super().format_help(ctx, formatter)
        finally:
            self.commands = commands


def _summaries() -> Iterator[tuple[str, TyperCommand]]:
    """Every command with its name, panel and documentation only, read from the source."""
    texts: dict[tuple[str, str], str] = {}
    for module in dict.fromkeys(MODULES.values()):
        source = Path(__file__).with_name(f"{module.rpartition('.')[2]}.py")
        for node in ast.parse(source.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                texts[module, node.name] = ast.get_docstring(node) or ""
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                arguments = {keyword.arg: keyword.value for keyword in node.value.keywords}
                if "help" in arguments:
                    group = ast.unparse(node.targets[0])
                    texts[module, group] = ast.literal_eval(arguments["help"])
    for panel, commands in PANELS.items():
        for name in commands:
            yield name, TyperCommand(name, help=texts[MODULES[name], name], rich_help_panel=panel)


def _command(name: str) -> Any:
    """The command of a name that the table has; KeyError for others."""
    function_or_group = getattr(import_module(MODULES[name]), name)
    panel = next(title for title, commands in PANELS.items() if name in commands)
    single = typer.Typer(rich_markup_mode="markdown", add_completion=False)
    single.callback()(lambda: None)
    if isinstance(function_or_group, typer.Typer):
        single.add_typer(function_or_group, name=name, rich_help_panel=panel)
    else:
        single.command(name, rich_help_panel=panel)(function_or_group)
    return cast(TyperGroup, typer.main.get_command(single)).commands[name]


app = typer.Typer(
    name="nextquery",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        extras = ", ".join(name for name in EXTRAS if not missing(name)) or "none"
        typer.echo(f"nextquery {__version__} (extras: {extras})")
        raise typer.Exit


@app.callback()
def main(
    version: bool = typer.Option(
        False,
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Print the version and which extras are installed.",
    ),
) -> None:
    """Query suggestions learnt from a site's own query log.

    Start with `nextquery demo`, or with your own log: `nextquery init queries.tsv.gz`
    """


def run() -> None:
    """Run the command line; an expected error is one line on stderr and its exit code."""
    _set_environment()
    try:
        app()
    except NextqueryError as error:
        message = one_line(in_options(str(error), option_names(app)))
        typer.echo(f"error: {message}", err=True)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        needed = missing_message(error.name or "")
        if needed is None:
            raise
        typer.echo(f"error: {needed}", err=True)
        sys.exit(MissingDependencyError.exit_code)


def _set_environment() -> None:
    """What libraries read when they are loaded, where nobody has set it.

    Polars and Arrow give freed memory back soon: an eighth of the peak of `prepare` was memory that
    nobody used any more. Pydantic looks for no plugins, for which it would read the metadata of
    every installed package.
    """
    os.environ.setdefault("_RJEM_MALLOC_CONF", "background_thread:true,muzzy_decay_ms:0")
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
