"""A study served as people serve it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def served(study: Path, assessors: int) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The real command in a process of its own; gives the links that it printed."""
    command = [sys.executable, "-m", "nextquery", "study", "serve", str(study), "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [*command, "--assessors", str(assessors)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        links = [process.stdout.readline().split()[-1] for _ in range(assessors)]
        try:
            yield process, links
        finally:
            process.kill()
