"""Making an artifact: complete or not at all, the old one in its place until the new one is there.

    .NAME.1234abcd.partial/     beside the target, for its owner only (mode 0700)
        lock                    held while the job runs: what a killed job left is unlocked
        content/                what the job writes; exchanged with the target at the end
        old/                    the target, between the two renames of a system without exchange

Before the target changes, every file and folder of the new artifact is on the disk. On Linux and
macOS the change is one system call (`disk.exchange`). Where the file system cannot do that (some
network disks, Windows) it is two renames; a kill between them leaves the old artifact in `old/`,
from where the next job with the same target brings it back.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nextquery.artifacts import disk, single_files
from nextquery.artifacts.manifest import MANIFEST, write_manifest
from nextquery.errors import ArtifactError

_SORTS = {
    "data": "prepared data",
    "study": "a study",
    "report": "a report",
    "study-report": "a report",
    "feedback-report": "a report",
    "export": "an export",
    "checkpoint": "a checkpoint",
}
"""What a folder of a kind is called; all other kinds are models."""
_TRIES = 20
"""How often a folder is removed that is still there afterwards."""
_active: dict[Path, tuple[Path, list[Path]]] = {}
"""Folders that this process writes into, each with its target and the folders made for it."""


@contextlib.contextmanager
def publish(target: Path, kind: str, entries: dict[str, Any]) -> Iterator[Path]:
    """Give a folder to write into; on success add the manifest and put it at `target`.

    `entries` are further manifest keys; the caller may fill it until the block ends. An artifact
    already at `target` is replaced if it is of the same sort (a model by a model); any other file
    or non-empty folder there is left alone. A link to a folder is followed.
    """
    check_target(target, kind)
    place = Path(os.path.realpath(target))  # `Path.resolve` has no words for a link to itself
    with _staging(place) as staging, _naming(target):
        content = staging / "content"
        content.mkdir()
        with _plain_path(content) as folder:
            yield folder
        write_manifest(content, kind, entries)
        disk.sync_tree(content)
        check_target(target, kind)
        _swap(staging, place)


def check_target(target: Path, kind: str) -> None:
    """Refuse a place where an artifact of this kind would take that of something else."""
    try:
        if target.is_dir():
            if any(target.iterdir()) and not (target / MANIFEST).is_file():
                raise ArtifactError(
                    f"{target}: a folder that is not an artifact; choose another `out`"
                )
            _check_sort(target, kind)
        elif target.is_symlink():
            raise ArtifactError(f"{target}: a link that leads nowhere; choose another `out`")
        elif target.exists():
            raise ArtifactError(f"{target}: a file; `out` needs a folder")
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{target}: cannot be used ({_reason(error)})") from None


def _check_sort(target: Path, kind: str) -> None:
    """Refuse to put a model where data are, and the like; what cannot be read may be made again."""
    try:
        found = json.loads((target / MANIFEST).read_text(encoding="utf-8"))["kind"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return
    old, new = (_SORTS.get(str(each), "a model") for each in (found, kind))
    if old != new:
        raise ArtifactError(
            f"{target}: holds {old}, whose place {new} would take; choose another `out`, or remove "
            "that folder first"
        )


def remains(target: Path) -> list[Path]:
    """The folders beside `target` that jobs with exactly this target made, running or killed."""
    beside = single_files.found_beside(target)
    folders = [path for path in beside if path.is_dir() and not path.is_symlink()]
    return [path for path in folders if not (path / MANIFEST).exists()]


def abandon() -> None:
    """Remove what this process has half-written; for a process that is about to end at once.

    A thread that goes on writing meanwhile cannot publish what is being removed: its folder has
    another name by then.
    """
    for staging, (target, made) in list(_active.items()):
        with contextlib.suppress(OSError):
            staging = staging.rename(single_files.name_beside(target))
        _discard(staging, target)
        single_files.remove_empty(made)
    single_files.remove_unfinished()


@contextlib.contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """A locked folder beside `target` that is gone at the end, with folders made for it."""
    missing = [folder for folder in target.parents if not folder.exists()]
    staging, lock = target, None
    try:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _clear_remains(target)
            staging, lock = _locked_folder(target, missing)
        except OSError as error:
            raise ArtifactError(f"{target}: cannot be made ({_reason(error)})") from error
        yield staging
    finally:
        if lock is not None:
            _discard(staging, target)
            lock.release()
            _active.pop(staging, None)
        single_files.remove_empty(missing)


def _locked_folder(target: Path, made: list[Path]) -> tuple[Path, Any]:
    """A new folder and its lock; another job may take it for remains until it is locked."""
    while True:
        staging = single_files.name_beside(target)
        _active[staging] = target, made
        staging.mkdir(mode=0o700)
        lock = _lock(staging)
        if lock is not None and staging.is_dir():
            return staging, lock
        _active.pop(staging)


def _discard(staging: Path, target: Path) -> None:
    """Remove a folder beside `target`; an artifact that stands between two renames goes back."""
    if (staging / "old" / MANIFEST).is_file() and not target.exists():
        (staging / "old").replace(target)
    for _ in range(_TRIES):  # another thread that removes it, too, makes either fail in the middle
        shutil.rmtree(staging, ignore_errors=True)
        if not staging.exists():
            return


def _lock(staging: Path) -> Any | None:
    """Take the lock of a folder until it is released or the process dies; None if it is taken."""
    from filelock import FileLock, Timeout  # slow to import, and readers lock nothing

    lock = FileLock(staging / "lock")
    try:
        lock.acquire(blocking=False)
    except (Timeout, FileNotFoundError):
        return None
    return lock


def _clear_remains(target: Path) -> None:
    """Put right what a killed job left beside `target`."""
    for staging in remains(target):
        lock = _lock(staging)
        if lock is None:
            continue
        _discard(staging, target)
        lock.release()


def _swap(staging: Path, target: Path) -> None:
    """Put the content where `target` is; the old artifact stays readable until then."""
    content = staging / "content"
    if not target.exists():
        content.replace(target)
    elif not disk.exchange(content, target):
        target.replace(staging / "old")  # whatever comes now, `_discard` brings it back
        content.replace(target)
    disk.sync(staging)
    disk.sync(target.parent)


@contextlib.contextmanager
def _plain_path(folder: Path) -> Iterator[Path]:
    """A path to `folder` that every engine can write to."""
    descriptor = os.open(folder, os.O_RDONLY) if os.name == "posix" else -1
    try:
        yield disk.plain_path(folder, descriptor)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


@contextlib.contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Say which artifact was being written when the system does not."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(target)
        raise


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
