"""Files and folders that are on the disk when a function returns, and one atomic exchange.

Everything here is a thin layer over the system's calls; what is written, and why, is the caller's
business. Linux has been run; macOS and Windows follow their documentation and have not.
"""

import ctypes
import errno
import hashlib
import os
import re
import sys
from pathlib import Path

_RENAME_EXCHANGE = 2
"""`RENAME_EXCHANGE` of Linux and `RENAME_SWAP` of macOS have the same value."""
_CURRENT_FOLDER = -100
_ORDINARY = re.compile(r"[\w./ @+=,~-]*")
_NOT_POSSIBLE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
"""What a system or file system answers that cannot exchange two names."""


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
