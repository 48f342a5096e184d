"""Feedback that must go: the lines of a visitor who asks for it, and the files of old days.

Whoever appends holds a shared lock on the file and makes sure that it still has its name; whoever
rewrites holds the only lock and puts a new file in its place. So nothing that is written meanwhile
is lost, by whichever worker.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from nextquery.artifacts import replaced_file
from nextquery.feedback.events import day_of, lines_without


@contextlib.contextmanager
def opened(path: Path, flags: int, lock: int) -> Iterator[int]:
    """A descriptor of the file that has the name `path` while it is locked."""
    while True:
        descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(descriptor, lock)
            if _has_name(descriptor, path):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def forget_visitor(folder: Path, client_id: str) -> int:
    """Remove every line of a visitor from all feedback files; returns how many there were."""
    removed = 0
    for path in _files(folder):
        with contextlib.suppress(FileNotFoundError):  # expired meanwhile
            removed += _rewrite(path, client_id)
    return removed


def expire(folder: Path, days: int, today: date) -> list[str]:
    """Delete the files of days before the last `days`, today included; returns their names."""
    first = f"{today - timedelta(days=days - 1):%Y-%m-%d}"
    old = [path for path in _files(folder) if (day_of(path.name) or first) < first]
    for path in old:
        path.unlink(missing_ok=True)
    return [path.name for path in old]


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if day_of(path.name))
    except FileNotFoundError:
        return []


def _rewrite(path: Path, client_id: str) -> int:
    with opened(path, os.O_RDONLY, fcntl.LOCK_EX) as descriptor:
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            lines = stream.readlines()
        kept = list(lines_without(lines, frozenset({client_id})))
        if len(kept) < len(lines):
            with replaced_file(path, mode=0o600) as new:
                new.writelines(kept)
        return len(lines) - len(kept)


def _has_name(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
