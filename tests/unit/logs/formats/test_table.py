"""The one table of formats: every file that is a format has its row."""

from importlib import import_module
from pathlib import Path

import pytest

import nextquery.logs.formats
from nextquery.errors import LogError
from nextquery.logs.formats.base import LogFormat
from nextquery.logs.formats.table import FORMATS, format_named
from nextquery.logs.settings import FORMAT_NAMES

FOLDER = Path(next(iter(nextquery.logs.formats.__path__)))


def test_every_format_of_the_folder_is_in_the_table() -> None:
    found = set()
    for file in FOLDER.rglob("*.py"):
        name = ".".join(file.relative_to(FOLDER).with_suffix("").parts)
        module = import_module(f"nextquery.logs.formats.{name}")
        classes = [each for each in vars(module).values() if isinstance(each, type)]
        found |= {each for each in classes if issubclass(each, LogFormat) and hasattr(each, "name")}
    assert {type(each) for each in FORMATS.values()} == found


def test_help_names_every_format_once() -> None:
    assert sorted(FORMAT_NAMES) == sorted(FORMATS)


def test_formats_are_found_by_their_names() -> None:
    for name, each in FORMATS.items():
        assert each.name == name
        assert format_named(name) is each
    with pytest.raises(LogError, match="'auto' is unknown; choose auto, access, algolia, aol"):
        format_named("auto")
