"""The floor plan: small rooms, a page that names every file, a test file for every module."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "nextquery"
PAGE = ROOT / "docs" / "architecture.md"
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_FILES = 18
MOST_LINES = 400
# File names that may occur twice, because they are the same thing in each place: a room's settings,
# base class, report or app; a command and the job it calls; a count model and its fitting; folders
# of models that are published as all folders are.
SAME_THING = {
    *("__init__", "app", "base", "publishing", "report", "report_page", "results", "settings"),
    *("experiment", "export", "fit", "forget", "prepare", "trends", "update"),
    *("adjacency", "background", "blend", "cacb", "popularity", "qvmm", "rescue", "shortcuts"),
}
WITHOUT_TESTS = ROOT / "tests" / "unit" / "modules_without_tests.txt"


def test_the_page_lists_every_file() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "file-list"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`([\w/]+/[\w]+\.(?:py|js|toml|html|css))`", PAGE.read_text("utf-8")))
    assert named
    assert not [
        name for name in named if not any((top / name).is_file() for top in (PACKAGE, ROOT))
    ]


def test_no_folder_is_two_rooms_in_one() -> None:
    files = Counter(path.parent for path in MODULES)
    assert not {folder: count for folder, count in files.items() if count > MOST_FILES}


def test_a_file_name_stands_for_one_thing() -> None:
    times = Counter(path.stem for path in MODULES)
    assert {name for name, count in times.items() if count > 1} - SAME_THING == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_is_too_long_to_read(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_no_two_modules_import_each_other() -> None:
    graph = grimp.build_graph("nextquery")
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    done: set[str] = set()
    while free := {name for name, needs in imports.items() if needs <= done} - done:
        done |= free
    assert set(imports) - done == set()


def test_every_module_has_a_test_file_of_its_own() -> None:
    """Exceptions are listed in `modules_without_tests.txt`, which may only become shorter."""
    unit = ROOT / "tests" / "unit"
    without = {
        inside.as_posix()
        for path in MODULES
        if not path.name.startswith("__")
        for inside in [path.relative_to(PACKAGE)]
        if not (unit / inside.parent / f"test_{inside.stem.lstrip('_')}.py").is_file()
    }
    listed = set(WITHOUT_TESTS.read_text(encoding="utf-8").split("\n")) - {""}
    allowed = {line for line in listed if not line.startswith("#")}
    assert without <= allowed
    assert all((PACKAGE / name).is_file() for name in allowed)
