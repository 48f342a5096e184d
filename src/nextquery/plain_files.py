"""Small files that a user names, such as a blocklist: read whole, and only if they are plain files.

A pipe that nobody writes to would be waited for, a device might never end, and a file as large as
the memory is none of these files.
"""

import errno
import stat
from pathlib import Path

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


def check_plain_file(path: Path, most: int | None = None) -> None:
    """Refuse what is no plain file, or larger than `most` bytes, with an `OSError`."""
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
