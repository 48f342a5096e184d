"""Examples in docstrings run, and files that the architecture page names exist."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

from nextquery.logs.synthetic.log import write_log

SOURCE = Path(__file__).parents[2] / "src"
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for path in sorted((SOURCE / "nextquery").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.fixture(scope="session")
def small_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.tsv"
    write_log(path, sessions=1500, seed=1)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_true(
    name: str, small_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)

    result = doctest.testmod(module, extraglobs={"LOG": str(small_log)})

    assert result.attempted
    assert not result.failed


ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "nextquery"
PAGE = ROOT / "docs" / "development" / "architecture.md"


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`([\w/]+/[\w]+\.(?:py|js|toml|html|css))`", PAGE.read_text("utf-8")))
    assert named
    assert not [
        name for name in named if not any((top / name).is_file() for top in (PACKAGE, ROOT))
    ]
