"""What is published: complete, small, and readable where packages are listed."""

import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from nextquery import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
WANTED = {
    "nextquery/py.typed",
    "nextquery/configs/tiny.toml",
    "nextquery/configs/small.toml",
    "nextquery/configs/paper.toml",
    "nextquery/evaluation/report/report.css",
    "nextquery/logs/synthetic/words.toml",
    "nextquery/service/static/index.html",
    "nextquery/service/widget/box.js",
    "nextquery/study/static/index.html",
}
IN_THE_ARCHIVE = {"clients", "configs", "src"}
BESIDE = {
    ".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "constraints.txt",
    "pyproject.toml",
}  # fmt: skip


def test_their_descriptions_can_be_shown(distributions: Path) -> None:
    files = [str(path) for path in distributions.iterdir()]
    command = [sys.executable, "-m", "twine", "check", "--strict", *files]
    done = subprocess.run(command, capture_output=True, text=True)

    assert len(files) == 2
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_has_all_of_the_package_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    source = ROOT / "src"
    modules = {path.relative_to(source).as_posix() for path in source.rglob("*.py")}

    assert not (modules | WANTED) - names
    assert {name.split("/")[0] for name in names} == {
        "nextquery",
        f"nextquery-{__version__}.dist-info",
    }
    assert not [name for name in names if "test" in Path(name).name or "__pycache__" in name]


def test_the_archive_has_what_the_wheel_is_built_from_and_no_more(distributions: Path) -> None:
    [path] = distributions.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        inside = [Path(name).parts[1:] for name in archive.getnames()]

    assert {parts[0] for parts in inside} == IN_THE_ARCHIVE | BESIDE


def test_the_metadata_says_where_and_for_what(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = message_from_bytes(archive.read(f"nextquery-{__version__}.dist-info/METADATA"))
    classifiers = metadata.get_all("Classifier") or []

    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("Project-URL")
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} <= set(
        classifiers
    )
    assert "Typing :: Typed" in classifiers
