"""A blocklist file that may change while a model answers, read again in a thread of its own.

A long list takes seconds to read; the model goes on with the old one meanwhile. Knows the file and
the guard that uses it.
"""

import threading
from dataclasses import dataclass
from pathlib import Path

from nextquery.errors import BlocklistError
from nextquery.guard.guard import Guard

SECONDS_BETWEEN_LOOKS = 0.25
Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class BlocklistState:
    """Which list is in use, and what is wrong with the file if it could not be taken."""

    generation: int = 0
    """Grows with every list that is taken: answers of an earlier one must not be remembered."""
    problem: str | None = None


class BlocklistWatch:
    """Looks at one file for one guard."""

    def __init__(self, guard: Guard, path: Path) -> None:
        self.state = BlocklistState()
        self._guard = guard
        self._path = path
        self._seen: Stamp | None = (-1, -1, -1)  # the guard may have read it a while ago
        self._ending = threading.Event()

    def start(self) -> None:
        """Look again and again until `stop`."""
        threading.Thread(target=self._run, name="blocklist", daemon=True).start()

    def stop(self) -> None:
        """Stop looking."""
        self._ending.set()

    def look(self) -> None:
        """Take a changed file; one that cannot be taken leaves the old list and is tried once."""
        stamp = _stamp(self._path)
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            changed = self._guard.reload()
        except BlocklistError as error:
            self.state = BlocklistState(self.state.generation, str(error))
        else:
            self.state = BlocklistState(self.state.generation + changed)

    def _run(self) -> None:
        while not self._ending.wait(SECONDS_BETWEEN_LOOKS):
            self.look()


def _stamp(path: Path) -> Stamp | None:
    """What changes when a file is written or replaced; None where it cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
