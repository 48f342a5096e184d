"""The commands by name; the module of one is imported when the command is asked for.

Only `--help` and errors need them all: `nextquery suggest` need not know how to serve.
"""

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any, cast

import typer
from typer.core import TyperGroup

# In the order of the pipeline; each module has a function (or a group) of the command's name.
MODULES = {
    "demo": "nextquery.cli.demo",
    "init": "nextquery.cli.logs.init",
    "synth": "nextquery.cli.logs.synth",
    "prepare": "nextquery.cli.logs.prepare",
    "update": "nextquery.cli.logs.update",
    "forget": "nextquery.cli.logs.forget",
    "inspect": "nextquery.cli.logs.inspect",
    "trends": "nextquery.cli.logs.trends",
    "vectors": "nextquery.cli.models.vectors",
    "train": "nextquery.cli.models.train",
    "fit": "nextquery.cli.models.fit",
    "blend": "nextquery.cli.models.blend",
    "suggest": "nextquery.cli.models.suggest",
    "score": "nextquery.cli.models.score",
    "complete": "nextquery.cli.models.complete",
    "why": "nextquery.cli.models.why",
    "explain": "nextquery.cli.models.explain",
    "neighbours": "nextquery.cli.models.neighbours",
    "experiment": "nextquery.cli.experiment",
    "audit": "nextquery.cli.audit",
    "study": "nextquery.cli.study",
    "serve": "nextquery.cli.serve",
    "feedback": "nextquery.cli.feedback",
    "export": "nextquery.cli.export",
    "bench": "nextquery.cli.bench",
    "doctor": "nextquery.cli.doctor",
}


class LazyCommands(MutableMapping[str, Any]):
    """Every command by name, made when it is first looked up."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}
        self._names = list(MODULES)

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _command(name)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __setitem__(self, name: str, command: Any) -> None:
        if name not in self._names:
            self._names.append(name)
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        self._names.remove(name)
        self._made.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class LazyGroup(TyperGroup):
    """A group whose commands come from the table."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the table, without making the commands."""
        return list(self.commands)


def _command(name: str) -> Any:
    """The command of a name that the table has; KeyError for others."""
    found = getattr(import_module(MODULES[name]), name)
    single = typer.Typer(rich_markup_mode="markdown", add_completion=False)
    single.callback()(lambda: None)
    if isinstance(found, typer.Typer):
        single.add_typer(found, name=name)
    else:
        single.command(name)(found)
    return cast(TyperGroup, typer.main.get_command(single)).commands[name]
