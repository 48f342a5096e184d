"""Promises of the command line: whatever is given to an option, one line and an exit code."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from promises.command_world import world
from promises.rows import Row

AREA = "commands"
_HERE = Path(__file__).parent
_WITHOUT_RIGHTS = "-dac_override,-dac_read_search"


def hostile_values(quick: bool) -> Row:
    """Options and arguments of every command given numbers, texts and places that do harm."""
    share = 0.004 if quick else 1.0
    script = [sys.executable, "-P", str(_HERE / "command_trials.py"), str(world()), str(share)]
    quiet = {**os.environ, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*_as_anybody(), *script], check=True, stdout=subprocess.PIPE, text=True, env=quiet
    )
    found = json.loads(done.stdout.splitlines()[-1])
    promise = "a hostile value of any option is refused in one line, or does no harm"
    note = "; ".join(found["problems"])[:500]
    control = "plain Python"
    return Row(AREA, promise, found["tried"], found["held"], control, _plain_python(), note)


def _as_anybody() -> list[str]:
    """Root may read and write everything; without that right, files can be out of its reach."""
    if os.geteuid() or shutil.which("setpriv") is None:
        return []
    return ["setpriv", f"--bounding-set={_WITHOUT_RIGHTS}", f"--inh-caps={_WITHOUT_RIGHTS}"]


def _plain_python() -> int:
    """How often a program without rules ends in a traceback over such values."""
    bad = (
        "int('1e3')",
        "int('1' * 5000)",
        "bytes(1 << 62)",
        "open('no/such/parent', 'w')",
        "open('\\udcff').read()",
        "float('0,5')",
    )
    done = [subprocess.run([sys.executable, "-c", code], capture_output=True) for code in bad]
    return sum(b"Traceback" in each.stderr for each in done)


TESTS = (hostile_values,)
