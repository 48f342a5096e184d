"""Publish an artifact atomically, and working folders that are locked while in use."""

import contextlib
import errno
import json
import os
import re
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nextquery.artifacts import files
from nextquery.artifacts.manifest import MANIFEST, write_manifest
from nextquery.errors import ArtifactError, NextqueryError

_LOCK = "lock"
_REMOVALS = 20
"""How often a folder is removed that is still there afterwards."""
_TEMPORARY = re.compile(r"nextquery-[0-9a-f]{12}\.work")
_temporary: set[Path] = set()
"""Temporary folders of this process."""


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for the tables of a job, for its owner only; it is gone at the end.

    >>> with temporary_folder() as folder:
    ...     (folder / "table").touch()
    >>> folder.exists()
    False
    """
    base = Path(tempfile.gettempdir())
    for folder in base.glob("nextquery-*.work"):  # that killed jobs of this user left
        try:
            status = folder.lstat()
        except OSError:
            continue
        is_own = status.st_uid == os.geteuid() and stat.S_ISDIR(status.st_mode)
        if _TEMPORARY.fullmatch(folder.name) and is_own:
            remains_lock = claim_remains(folder)
            if remains_lock is not None:
                remove_locked(folder, remains_lock)
    lock = None
    while lock is None:
        folder = base / f"nextquery-{uuid.uuid4().hex[:12]}.work"
        _temporary.add(folder)
        lock = make_locked(folder)
    try:
        yield folder
    finally:
        remove_locked(folder, lock)
        _temporary.discard(folder)


def remove_temporary() -> None:
    """Remove the temporary folders of this process; for one that is about to end at once."""
    for folder in list(_temporary):
        remove(folder)


def make_locked(folder: Path) -> int | None:
    """Make a folder and take its lock; None if another job took it for remains meanwhile."""
    folder.mkdir(mode=0o700)
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileNotFoundError:
        return None
    if files.try_lock(lock) is not False and os.fstat(lock).st_nlink:
        return lock
    os.close(lock)
    return None


def claim_remains(folder: Path) -> int | None:
    """The lock of what a killed job left; None where its job runs, or nothing is left."""
    for _ in range(2):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR)
        except FileNotFoundError:
            # Empty: the job was killed, or is about to lock it and will take another name. It is
            # not removed unless it is empty, since the lock may have come meanwhile.
            with contextlib.suppress(OSError):
                folder.rmdir()
                return None
            continue
        except OSError:
            return None
        if files.try_lock(lock) and os.fstat(lock).st_nlink:
            return lock
        os.close(lock)
        return None
    with contextlib.suppress(OSError):  # without a lock, and not empty: half removed
        return os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    return None


def remove_locked(folder: Path, lock: int) -> None:
    """Remove a folder and give its lock back."""
    remove(folder)
    os.close(lock)


def remove(folder: Path) -> None:
    """Remove a folder, its lock last: a folder without one is not in use."""
    for _ in range(_REMOVALS):
        # Another thread that writes into it makes this fail in the middle.
        with contextlib.suppress(OSError):
            for path in folder.iterdir():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                elif path.name != _LOCK:
                    path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            (folder / _LOCK).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()
        if not folder.exists():
            return


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
_TRIES = 100
"""How often a step is tried again that other jobs with the same target made fail."""
_OTHER_JOB = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT}
"""What a rename answers when another job has made or taken away the target meanwhile."""
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
    real_target = Path(os.path.realpath(target))  # `Path.resolve` has no words for a link to itself
    with _staging(real_target) as staging, _with_path(target):
        content = staging / "content"
        content.mkdir()
        descriptor = os.open(content, os.O_RDONLY)
        try:
            yield files.plain_path(content, descriptor)
        finally:
            os.close(descriptor)
        write_manifest(content, kind, entries)
        files.sync_tree(content)
        check_target(target, kind)
        _swap(staging, real_target)


def check_target(target: Path, kind: str, *, in_place: bool = False) -> None:
    """Refuse a place where an artifact of this kind would take that of something else.

    Also one where no folder can be put, unless the artifact is written `in_place`.
    """
    try:
        status = _status(target)
        if status is None:
            if target.is_symlink():
                raise ArtifactError(f"{target}: a link that leads nowhere; choose another `out`")
        elif not stat.S_ISDIR(status.st_mode):
            raise ArtifactError(f"{target}: a file; `out` needs a folder")
        elif _is_foreign(target):
            raise ArtifactError(f"{target}: a folder that is not an artifact; choose another `out`")
        else:
            _check_kind_of_target(target, kind)
        if not in_place:
            _check_replaceable(target)
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{target}: cannot be used ({_reason(error)})") from None


def _status(target: Path) -> os.stat_result | None:
    try:
        return target.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_foreign(target: Path) -> bool:
    """Whether a folder is not an artifact; other jobs may replace it."""
    for _ in range(_TRIES):
        before = _status(target)
        try:
            names = os.listdir(target)  # noqa: PTH208 - at once, not one by one
        except FileNotFoundError:
            return False
        if not names or MANIFEST in names:
            return False
        after = _status(target)
        if before and after and os.path.samestat(before, after):
            return True
    return False


def _check_replaceable(target: Path) -> None:
    """Refuse a place at which no folder can be put: a mount point, or one that is read-only."""
    real_target = Path(os.path.realpath(target))
    if real_target.is_dir() and files.is_mount_point(real_target):
        raise ArtifactError(
            f"{target}: a mount point, which cannot be replaced as a whole; choose a folder in it, "
            f"such as {target / 'out'}, as `out`"
        )
    above = next(folder for folder in real_target.parents if folder.exists())
    if above.is_dir() and not os.access(above, os.W_OK | os.X_OK):
        raise ArtifactError(f"{target}: {above} cannot be written to; choose another `out`")


def _check_kind_of_target(target: Path, kind: str) -> None:
    """Refuse to replace an artifact of another kind; an unreadable one may be replaced."""
    try:
        old_kind = json.loads((target / MANIFEST).read_text(encoding="utf-8"))["kind"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return
    old, new = (_SORTS.get(str(name), "a model") for name in (old_kind, kind))
    if old != new:
        raise ArtifactError(
            f"{target}: holds {old}, whose place {new} would take; choose another `out`, or remove "
            "that folder first"
        )


def remains(target: Path) -> list[Path]:
    """The folders next to `target` that jobs with exactly this target made, running or killed."""
    beside = files.temporary_files(target)
    folders = [path for path in beside if path.is_dir() and not path.is_symlink()]
    return [path for path in folders if not (path / MANIFEST).exists()]


def abandon() -> None:
    """Remove what this process has half-written; for a process that is about to end at once.

    A thread that is still writing cannot publish what is being removed: its folder has
    another name by then.
    """
    for staging, (target, created) in list(_active.items()):
        with contextlib.suppress(OSError):
            staging = staging.rename(files.temporary_name(target))
        _restore_old(staging, target)
        remove(staging)
        files.remove_empty(created)
    files.remove_unfinished()
    remove_temporary()


@contextlib.contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """A locked folder next to `target` that is removed at the end, with folders made for it."""
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
            _restore_old(staging, target)
            remove_locked(staging, lock)
            _active.pop(staging, None)
        files.remove_empty(missing)


def _locked_folder(target: Path, created: list[Path]) -> tuple[Path, int]:
    """A new folder and its lock; another job may take it for remains until it is locked."""
    for remaining in reversed(range(_TRIES)):
        staging = files.temporary_name(target)
        _active[staging] = target, created
        try:
            target.parent.mkdir(parents=True, exist_ok=True)  # a job that failed removes its own
            lock = make_locked(staging)
        except FileNotFoundError:
            lock = None
            if not remaining:
                raise
        if lock is not None:
            return staging, lock
        _active.pop(staging)
    raise OSError(errno.EBUSY, "other jobs remove what is made there", str(target))


def _restore_old(staging: Path, target: Path) -> None:
    """Put an artifact back that is between two renames."""
    if (staging / "old" / MANIFEST).is_file() and not target.exists():
        with contextlib.suppress(OSError):  # a job with the same target was faster
            (staging / "old").replace(target)


def _clear_remains(target: Path) -> None:
    """Clean up what a killed job left next to `target`."""
    for staging in remains(target):
        lock = claim_remains(staging)
        if lock is not None:
            _restore_old(staging, target)
            remove_locked(staging, lock)


def _swap(staging: Path, target: Path) -> None:
    """Put the content where `target` is; the old artifact stays readable until then.

    Another job with the same target may make or replace it at any moment: the last one counts.
    """
    content, old = staging / "content", staging / "old"
    for remaining in reversed(range(_TRIES)):
        try:
            if not target.exists():
                content.replace(target)
            elif not files.exchange(content, target):
                shutil.rmtree(old, ignore_errors=True)
                target.replace(old)  # whatever comes now, `_restore_old` brings it back
                content.replace(target)
            break
        except OSError as error:
            if error.errno not in _OTHER_JOB or not content.exists() or not remaining:
                raise
    files.sync(staging)
    files.sync(target.parent)


@contextlib.contextmanager
def _with_path(target: Path) -> Iterator[None]:
    """Say which artifact was being written where the error does not."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(target)
        raise
    except Exception as error:
        number = 0 if isinstance(error, NextqueryError) else files.system_error(error)
        if not number:
            raise
        raise OSError(number, os.strerror(number), str(target)) from error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
