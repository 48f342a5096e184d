"""Single files that take their name only when they are complete and on the disk.

    .NAME.1234abcd.partial      beside the file, locked while it is written

What a killed job left is not locked any more: whoever writes the same file next removes it. The
names are those of the folders that `publishing` makes, by the same rule: a neighbour with a longer
name is never meant.
"""

import contextlib
import errno
import os
import re
import stat
import sys
import uuid
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from nextquery.artifacts import disk

_LONGEST_NAME = 200
"""Bytes of a name that fit into the name of what is beside it."""
_being_written: dict[Path, list[Path]] = {}
"""Files that this process has not finished, each with the folders made for it."""


def write_text(path: Path, text: str) -> None:
    """Write a file beside its place, flush it to the disk and rename it.

    A character that UTF-8 cannot hold (half of a pair, from a file name that is no text) is written
    as JSON writes it.
    """
    with replaced_file(path) as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))


@contextlib.contextmanager
def replaced_file(
    path: Path, *, mode: int = 0o666, make_folders: bool = False
) -> Iterator[BinaryIO]:
    """A file to write, which takes its name only when it is complete and on the disk.

    A link is followed. The name of a folder, a device or a pipe is refused: a rename would take its
    place. With `make_folders` those above it are made, and taken back if the file does not come.
    """
    _check_replaceable(path)
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    missing = [folder for folder in path.parents if make_folders and not folder.exists()]
    if make_folders:
        path.parent.mkdir(parents=True, exist_ok=True)  # names a parent that is a file
    beside, lock = path, -1
    try:
        _clear_remains(path)
        beside, descriptor, lock = _locked_file(path, mode, missing)
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except OSError as error:
        if error.filename == str(beside):  # nobody knows that name
            error.filename = str(path)
        raise
    finally:
        _let_go(beside, lock)
        remove_empty(missing)
    disk.sync(path.parent)


def remove_unfinished() -> None:
    """Remove what this process has half-written; for a process that is about to end at once."""
    for beside, missing in list(_being_written.items()):
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        remove_empty(missing)


def remove_empty(folders: list[Path]) -> None:
    """Take back folders in which nothing came to stay, the innermost first."""
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


def name_beside(target: Path) -> Path:
    """A new name beside `target` that `found_beside` knows."""
    return target.with_name(f".{_stem(target)}.{uuid.uuid4().hex[:8]}.partial")


def found_beside(target: Path) -> list[Path]:
    """What lies beside `target` and was made for exactly this name."""
    pattern = re.compile(re.escape(f".{_stem(target)}.") + r"[0-9a-f]{8}\.partial")
    try:
        return [path for path in target.parent.iterdir() if pattern.fullmatch(path.name)]
    except OSError:
        return []


def _stem(target: Path) -> str:
    """The target's name, or a hash of one too long to have anything added."""
    name = os.fsencode(target.name)
    return target.name if len(name) <= _LONGEST_NAME else blake2b(name, digest_size=16).hexdigest()


def _locked_file(path: Path, mode: int, missing: list[Path]) -> tuple[Path, int, int]:
    """A new file beside `path`, open to write, and a descriptor that holds its lock.

    Another job may take it for remains until it is locked.
    """
    while True:
        beside = name_beside(path)
        _being_written[beside] = missing
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except BaseException as error:
            _being_written.pop(beside, None)
            if isinstance(error, OSError):
                error.filename = str(path)  # nobody knows the other name
            raise
        if sys.platform == "win32":  # removes and renames no file that is open: no lock is needed
            return beside, descriptor, -1
        lock = os.dup(descriptor)
        if _lock(lock) is not False and os.fstat(lock).st_nlink:
            return beside, descriptor, lock
        _being_written.pop(beside)
        os.close(lock)
        os.close(descriptor)


def _let_go(beside: Path, lock: int) -> None:
    """Remove the file if it is still beside its place, and its lock."""
    if beside not in _being_written:
        return
    with contextlib.suppress(OSError):
        beside.unlink(missing_ok=True)
    if lock >= 0:
        os.close(lock)
    _being_written.pop(beside, None)


def _clear_remains(path: Path) -> None:
    """Remove what killed jobs left of this file."""
    for beside in found_beside(path):
        with contextlib.suppress(OSError):
            if not stat.S_ISREG(beside.lstat().st_mode):
                continue
            if sys.platform == "win32":
                beside.unlink()
                continue
            descriptor = os.open(beside, os.O_RDONLY)
            try:
                if _lock(descriptor):
                    beside.unlink()
            finally:
                os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Whether the lock of a file could be taken; None where there are no locks."""
    import fcntl  # not on Windows

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a disk without locks: what is there may be in use
        return None
    return True


def _check_replaceable(path: Path) -> None:
    """Refuse a name that stands for something else than a plain file."""
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, "a folder; the name of a file is needed", str(path))
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):  # whoever makes its folders names the file
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a folder; the name of a file is needed", str(path))
    if not stat.S_ISREG(mode):
        raise FileExistsError(errno.EEXIST, "a device or pipe; a plain file is needed", str(path))
