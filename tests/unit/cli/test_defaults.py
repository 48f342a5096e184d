"""The defaults of commands are those of the settings classes, which the library has, too."""

from dataclasses import MISSING, fields
from typing import Any

import pytest
import typer.main
from typer.core import TyperGroup

from nextquery.cli.main import app
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.export.engines import ExportSettings
from nextquery.logs.settings import PrepareSettings, ReadSettings
from nextquery.service.settings import ServiceSettings

CLASSES = [
    ("prepare", PrepareSettings),
    ("prepare", ReadSettings),
    ("experiment", ExperimentSettings),
    ("serve", ServiceSettings),
    ("export", ExportSettings),
]
NOTHING: tuple[Any, ...] = (None, "", (), frozenset())


@pytest.mark.parametrize(("command", "settings"), CLASSES, ids=lambda value: str(value))
def test_an_option_has_the_default_of_its_setting(command: str, settings: type[Any]) -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    options = {parameter.name: parameter for parameter in group.commands[command].params}
    compared = 0
    for field in fields(settings):
        if field.name not in options or field.default is MISSING:
            continue
        default = options[field.name].default
        assert default == field.default or (default in NOTHING and field.default in NOTHING)
        compared += 1
    assert compared
