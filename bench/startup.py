"""How long `nextquery --help` takes, against a bare Python start."""

import subprocess
import sys
import time
from typing import Any


def main(quick: bool) -> dict[str, Any]:
    repeats = 3 if quick else 10
    bare = _seconds(["-c", "pass"], repeats)
    command = _seconds(["-m", "nextquery", "--help"], repeats)
    return {"bare_python_s": bare, "help_s": command, "ratio": command / bare}


def _seconds(arguments: list[str], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        best = min(best, time.perf_counter() - start)
    return best
