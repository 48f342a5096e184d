"""The wheel and the source archive of this checkout, built once for all tests of this folder."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import FolderMaker

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def distributions(made_once: FolderMaker) -> Path:
    """A folder with both; the wheel is built from the archive, so that the archive is enough."""

    def build(folder: Path) -> None:
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
        done = subprocess.run([*command, str(ROOT)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    return made_once("distributions", build)


@pytest.fixture(scope="session")
def wheel(distributions: Path) -> Path:
    [wheel] = distributions.glob("*.whl")
    return wheel
