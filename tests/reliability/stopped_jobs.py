"""Ending a job at a known moment: it is held still, looked at, then told to end.

A test that sends a signal after some time is a race: on a busy machine the job has finished before.
Here the job is stopped with SIGSTOP first, so that what it has published can be seen; if it was too
late, it is tried again.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

TRIES = 40
_POLL_SECONDS = 0.002
HELD = """
import os, signal, sys
awaited = [tuple(sys.argv[1:3])]
def hold(name, given):
    if awaited and name == awaited[0][0] and os.fsdecode(given[0]).endswith(awaited[0][1]):
        awaited.clear()
        os.kill(os.getpid(), signal.SIGSTOP)
sys.addaudithook(hold)
sys.argv = ["nextquery", *sys.argv[3:]]
from nextquery.cli.entry import run
run()
"""
"""A `nextquery` that holds itself still, once, at an event of Python's audit on a certain path."""


@dataclass(frozen=True)
class Ending:
    """How a job ended that was told to."""

    code: int
    said: list[str]
    late: bool
    """Whether it had published, or had ended, when it was told."""

    def is_orderly(self, number: int) -> bool:
        """Whether it said one line and ended with the signal's code; a late one may have ended."""
        if self.late and self.code == 0:
            return True
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        return self.code == 128 + number and self.said == [f"stopped by {name}"]


def nextquery(*words: object) -> list[str]:
    """The command line of a job."""
    return [sys.executable, "-m", "nextquery", *map(str, words)]


def held_at(event: str, end: str, *words: object) -> list[str]:
    """The same, held still when `event` comes for a path that ends so."""
    return [sys.executable, "-c", HELD, event, end, *map(str, words)]


def end_job(
    command: Sequence[str],
    number: int,
    published: Callable[[], bool],
    begun: Callable[[], bool] = lambda: False,
    delay: float = 0.0,
) -> Ending:
    """Hold the job `delay` seconds after it has begun (or where it holds itself), then end it."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as job:
        while not (begun() or _is_still(job.pid)):
            time.sleep(_POLL_SECONDS)
        time.sleep(delay)
        job.send_signal(signal.SIGSTOP)
        ended = not _is_held(job.pid)
        late = ended or published()
        job.send_signal(number)
        job.send_signal(signal.SIGCONT)
        said = job.communicate()[1].decode(errors="replace").splitlines()
    return Ending(job.returncode, said, late)


def end_in_the_middle(
    command: Sequence[str],
    number: int,
    published: Callable[[], bool],
    begun: Callable[[], bool],
    clear: Callable[[], None],
    delay: float = 0.0,
) -> Ending:
    """As `end_job`, again and again until it was not too late; `clear` removes what one left."""
    for _ in range(TRIES):
        ending = end_job(command, number, published, begun, delay)
        if not ending.late or not ending.is_orderly(number):
            return ending
        clear()
        delay /= 2
    return ending


def _is_still(pid: int) -> bool:
    """Whether a child has ended or holds itself still."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None


def _is_held(pid: int) -> bool:
    """Wait until a child that was told to is still; False if it had ended."""
    try:
        state = os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
    except ChildProcessError:  # it had ended before the signal, which `Popen` noticed
        return False
    return state is not None and state.si_code == os.CLD_STOPPED


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())
