"""One version, which the package, its metadata and the changelog agree on."""

import re
from importlib.metadata import version
from pathlib import Path

import nextquery
from nextquery._version import __version__


def test_the_package_and_its_metadata_have_the_same_version() -> None:
    assert nextquery.__version__ == __version__ == version("nextquery")
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


def test_the_changelog_names_it() -> None:
    changelog = (Path(__file__).parents[2] / "CHANGELOG.md").read_text("utf-8")
    assert re.search(rf"^## .*v{re.escape(__version__)}\b", changelog, re.M)
