"""Single files: durable writes, atomic replacement, and safe reads of files that a user names."""

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import re
import stat
import sys
import time
import uuid
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

_RENAME_EXCHANGE = 2
"""`RENAME_EXCHANGE` of Linux and `RENAME_SWAP` of macOS have the same value."""
_ORDINARY = re.compile(r"[\w./ @+=,~-]*")
_NOT_POSSIBLE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
"""What a system or file system answers that cannot exchange two names."""

SECONDS_BETWEEN_TRIES = 0.0005
"""How often somebody who waits for a lock asks for it."""
_NUMBER = re.compile(r'\(os error (\d+)\)|\[errno (\d+)\]|"errno":"(\d+)"')
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def system_error(error: Exception) -> int:
    """The system's number of an error, or 0; Polars, DuckDB and Java have it in the text only.

    >>> system_error(ValueError("No space left on device (os error 28)"))
    28
    """
    text = str(error)
    if match := _NUMBER.search(text):
        return int(next(filter(None, match.groups())))
    return next((number for number in _DISK_FULL if os.strerror(number) in text), 0)


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file: False if another process has the lock, None where there are no locks.

    The system releases it when the process ends. All locks of nextquery are of this sort.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a disk without locks: what is there may be in use
        return None
    return True


@contextlib.contextmanager
def locked(path: Path, flags: int, seconds: float) -> Iterator[int]:
    """A locked descriptor of the file that has the name `path`, as soon as nobody else has it.

    OSError if the file stays locked for `seconds`. A new file is for its owner only.
    """
    end = time.monotonic() + seconds
    while True:
        descriptor = os.open(path, flags, 0o600)
        try:
            ready = False
            with contextlib.suppress(FileNotFoundError):  # deleted before it was locked
                ready = bool(try_lock(descriptor)) and os.path.samestat(
                    os.fstat(descriptor), path.stat()
                )
            if ready:
                yield descriptor
                return
        finally:
            os.close(descriptor)
        if time.monotonic() > end:
            raise OSError(errno.EAGAIN, f"locked by another process for {seconds:g} seconds")
        time.sleep(SECONDS_BETWEEN_TRIES)


def append_line(descriptor: int, line: bytes, most: int, full: str, *, flush: bool) -> None:
    """Append a line or nothing to a locked file; an error that says `full` beyond `most` bytes."""
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        line = b"\n" + line  # the last line has no end: it was typed so, or its writer was stopped
    if size + len(line) > most:
        raise OSError(errno.EFBIG, full)
    try:
        if os.write(descriptor, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if flush:
            os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def unlock(descriptor: int) -> None:
    """Close a locked file and release its lock, even if a forked process has it open, too."""
    with contextlib.suppress(OSError):  # a disk without locks
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def is_mount_point(path: Path) -> bool:
    """Whether a disk is mounted at a folder, which then cannot be renamed."""
    if os.path.ismount(path):
        return True
    try:  # a folder of the same disk can be mounted there, too
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return False
    escaped = re.sub(rb"[ \t\n\\]", lambda match: b"\\%03o" % match[0][0], os.fsencode(path))
    return any(line.split(b" ")[4] == escaped for line in lines)


def sync(path: Path) -> None:
    """Flush a file's content or a folder's names to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has nothing to flush
            raise
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Flush every file and folder below `folder`, and itself last."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            sync(Path(parent, name))
        sync(Path(parent))


def plain_path(folder: Path, descriptor: int) -> Path:
    """A path to an open folder without characters that an engine takes for a pattern or no text.

    It is the folder's own where that is ordinary, and where there is no `/proc`. Other processes of
    the same user can follow it.
    """
    descriptor_path = Path(f"/proc/{os.getpid()}/fd/{descriptor}")
    is_ordinary = _ORDINARY.fullmatch(str(folder)) or not descriptor_path.is_dir()
    return folder if is_ordinary else descriptor_path


def exchange(first: Path, second: Path) -> bool:
    """Exchange two names of one disk atomically; False where that is not possible."""
    names = os.fsencode(first), os.fsencode(second)
    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        failed = library.renamex_np(*names, _RENAME_EXCHANGE)
    elif hasattr(library, "renameat2"):
        here = -100  # AT_FDCWD: names are relative to the current folder
        failed = library.renameat2(here, names[0], here, names[1], _RENAME_EXCHANGE)
    else:
        return False
    if not failed:
        return True
    number = ctypes.get_errno()
    if number in _NOT_POSSIBLE:
        return False
    raise OSError(number, os.strerror(number), str(second))


_LONGEST_NAME = 200
"""Bytes of a name that fit into the name of its temporary neighbour."""
_being_written: dict[Path, list[Path]] = {}
"""Files that this process has not finished, each with the folders made for it."""


def write_text(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Write a file next to its target, flush it to the disk and rename it.

    A lone surrogate (from a file name that is not text) is written as JSON writes it.
    """
    with replaced_file(path, mode=mode) as stream:
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
        if error.filename == str(beside):  # the user does not know that name
            error.filename = str(path)
        raise
    finally:
        if beside in _being_written:  # remove it, if it was not renamed
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            os.close(lock)
            _being_written.pop(beside, None)
        remove_empty(missing)
    sync(path.parent)


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


def temporary_name(target: Path) -> Path:
    """A new name next to `target` that `temporary_files` finds."""
    return target.with_name(f".{_stem(target)}.{uuid.uuid4().hex[:8]}.partial")


def temporary_files(target: Path) -> list[Path]:
    """The files and folders next to `target` that were made for exactly this name."""
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
    """A new file next to `path`, open for writing, and a descriptor that has its lock.

    Another job may take it for remains until it is locked.
    """
    while True:
        beside = temporary_name(path)
        _being_written[beside] = missing
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except BaseException as error:
            _being_written.pop(beside, None)
            if isinstance(error, OSError):
                error.filename = str(path)  # the user does not know the other name
            raise
        lock = os.dup(descriptor)
        if try_lock(lock) is not False and os.fstat(lock).st_nlink:
            return beside, descriptor, lock
        _being_written.pop(beside)
        os.close(lock)
        os.close(descriptor)


def _clear_remains(path: Path) -> None:
    """Remove what killed jobs left of this file."""
    for beside in temporary_files(path):
        with contextlib.suppress(OSError):
            if not stat.S_ISREG(beside.lstat().st_mode):
                continue
            descriptor = os.open(beside, os.O_RDONLY)
            try:
                if try_lock(descriptor):
                    beside.unlink()
            finally:
                os.close(descriptor)


def _check_replaceable(path: Path) -> None:
    """Refuse anything that is not a plain file."""
    try:
        mode = path.stat().st_mode if path.name else stat.S_IFDIR
    except (FileNotFoundError, NotADirectoryError):  # whoever makes its folders names the file
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a folder; the name of a file is needed", str(path))
    if not stat.S_ISREG(mode):
        raise FileExistsError(errno.EEXIST, "a device or pipe; a plain file is needed", str(path))


MOST_BYTES = 1 << 30
"""More than any blocklist, list of titles or configuration has."""


def read_plain_text(path: Path, encoding: str = "utf-8", most: int = MOST_BYTES) -> str:
    """The text of a plain file; `OSError` for anything else, `UnicodeDecodeError` for other bytes.

    >>> Path("words.txt").write_text("one")
    3
    >>> read_plain_text(Path("words.txt"))
    'one'
    """
    check_plain_file(path, most)
    with path.open("rb") as stream:
        return stream.read(most + 1).decode(encoding).replace("\r\n", "\n")


FileStamp = tuple[int, int, int, int]


def file_stamp(path: Path) -> FileStamp | None:
    """What changes when a file is written, replaced or made readable; None if it cannot be seen."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_ctime_ns


def check_plain_file(path: Path, most: int | None = None) -> None:
    """Refuse what is not a plain file, or is larger than `most` bytes, with an `OSError`."""
    try:
        status = path.stat()
    except ValueError as error:  # a name with a zero byte
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a folder; a file is needed", str(path))
    if not stat.S_ISREG(status.st_mode):
        problem = "a pipe or device, which may never end; write it to a file first"
        raise OSError(errno.EINVAL, problem, str(path))
    if most is not None and status.st_size > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20:,} MB", str(path))
