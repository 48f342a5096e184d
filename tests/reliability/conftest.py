"""Models and files that the tests of this folder share, and scripts that run in clean processes."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import FolderMaker

from .command_calls import make_files

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def files(made_once: FolderMaker) -> Path:
    """A sound model of each kind, a log, a study, feedback."""
    return made_once("reliability", make_files)


ScriptRunner = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def run_script() -> ScriptRunner:
    """Run a script of this folder, which forks: a process with threads must not."""

    def run(name: str, *arguments: object, before: tuple[str, ...] = ()) -> dict[str, Any]:
        command = [*before, sys.executable, "-m", f"tests.reliability.{name}", *map(str, arguments)]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result

    return run
