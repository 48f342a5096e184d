"""Files and folders that are on the disk when a function returns, and one atomic exchange.

Everything here is a thin layer over the system's calls; what is written, and why, is the caller's
business. Linux has been run; macOS and Windows follow their documentation and have not.
"""

import ctypes
import errno
import hashlib
import os
import re
import stat
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_RENAME_EXCHANGE = 2
"""`RENAME_EXCHANGE` of Linux and `RENAME_SWAP` of macOS have the same value."""
_CURRENT_FOLDER = -100
_LONGEST_NAME = 50
"""Characters of a name that are repeated in that of the file beside it."""
being_written: set[Path] = set()
"""Files that this process has not finished; a process that must end at once removes them."""
_ORDINARY = re.compile(r"[\w./ @+=,~-]*")
_NOT_POSSIBLE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
"""What a system or file system answers that cannot exchange two names."""


def write_text(path: Path, text: str) -> None:
    """Write a file beside its place, flush it to the disk and rename it.

    A character that UTF-8 cannot hold (half of a pair, from a file name that is no text) is written
    as JSON writes it.
    """
    with replaced_file(path) as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))


@contextmanager
def replaced_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes its name only when it is complete and on the disk.

    A link is followed. The name of a folder, a device or a pipe is refused: a rename would take its
    place.
    """
    _check_replaceable(path)
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    beside = path.with_name(f".{path.name[:_LONGEST_NAME]}.{uuid.uuid4().hex[:8]}.partial")
    being_written.add(beside)
    try:
        with beside.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except OSError as error:
        if error.filename == str(beside):  # nobody knows that name
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        being_written.discard(beside)
    sync(path.parent)


def _check_replaceable(path: Path) -> None:
    """Refuse a name that stands for something else than a plain file."""
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, "a folder; the name of a file is needed", str(path))
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a folder; the name of a file is needed", str(path))
    if not stat.S_ISREG(mode):
        raise FileExistsError(errno.EEXIST, "a device or pipe; a plain file is needed", str(path))


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Flush a file's content or a folder's names to the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        if sys.platform == "win32" and path.is_dir():
            return  # Windows opens no folders and writes names through by itself
        raise
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has nothing to flush
            raise
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Flush every file and folder below `folder`, and itself last."""
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            sync(Path(place, name))
        sync(Path(place))


def plain_path(folder: Path, descriptor: int) -> Path:
    """A path to an open folder without characters that an engine takes for a pattern or no text.

    It is the folder's own where that is ordinary, and where there is no `/proc`. Other processes of
    the same user can follow it.
    """
    held = Path(f"/proc/{os.getpid()}/fd/{descriptor}")
    return folder if _ORDINARY.fullmatch(str(folder)) or not held.is_dir() else held


def exchange(one: Path, other: Path) -> bool:
    """Exchange what two names of one disk stand for, at once; False where that is not possible."""
    names = os.fsencode(one), os.fsencode(other)
    library = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
    if sys.platform == "darwin":
        failed = library.renamex_np(*names, _RENAME_EXCHANGE) if library else -1
    elif hasattr(library, "renameat2"):
        assert library is not None
        here = _CURRENT_FOLDER
        failed = library.renameat2(here, names[0], here, names[1], _RENAME_EXCHANGE)
    else:
        return False
    if not failed:
        return True
    number = ctypes.get_errno()
    if number in _NOT_POSSIBLE:
        return False
    raise OSError(number, os.strerror(number), str(other))
