"""The library speaks of settings, the command line of options: messages are put into its words.

An error raised below `cli/` writes a setting between backquotes, under the name that its settings
class has: `min_users`. Here that becomes `--min-users`, and `key=value` becomes `--set key=value`
where no option has that name.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import typer
from typer.core import TyperGroup, TyperOption

_SETTING = re.compile(r"`([a-z][a-z_.]*)(?:=([^`]*))?`")
_OTHER_NAMES = {
    "fold_configs": "--fold-config",
    "keys_file": "--keys",
    "admin_keys_file": "--admin-keys",
    "rate_per_second": "--rate",
    "source": "--from",
    "runs": "--run",
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

    def spoken(match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        option = options.get(name)
        if value is None:
            return option or name
        return f"{option} {shlex.quote(value)}" if option else f"--set {name}={value}"

    return _SETTING.sub(spoken, message)


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
