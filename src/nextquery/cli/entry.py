"""Where the `nextquery` command begins: signals, and errors of the system, for every command.

Imports little, so that a signal is heeded from the first moment on.
"""

import errno
import io
import os
import re
import sys

from nextquery.cli.error_lines import one_line
from nextquery.cli.signals import stop_on_signals

_ADVICE = {
    errno.ENOSPC: "free some space and run again",
    errno.EDQUOT: "free some space and run again",
    errno.EROFS: "choose a place that can be written to",
    errno.EACCES: "choose another place, or ask for the right to use this one",
    errno.EPERM: "choose another place, or ask for the right to use this one",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOTDIR: "a part of the path is a file; choose another place",
    errno.ELOOP: "a link that leads to itself; choose another place",
    errno.EEXIST: "there is a file of that name; choose another place",
    errno.EISDIR: "a folder; a file is needed",
    errno.EFBIG: "raise the limit with `ulimit -f`",
    errno.ENOENT: "check the path",
    errno.EMFILE: "raise the limit with `ulimit -n`",
}
_NO_MEMORY = "not enough memory; ask for less, or run where there is more"
_NOT_THE_INPUT = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.EFBIG}


def run() -> None:
    """Run the command line."""
    with stop_on_signals():
        _print_any_name()
        from nextquery.cli.main import run as run_command

        try:
            run_command()
        except OSError as error:
            sys.stderr.write(f"error: {described(error)}\n")
            sys.exit(2 if _number(error) in _ADVICE.keys() - _NOT_THE_INPUT else 1)
        except MemoryError:
            sys.stderr.write(f"error: {_NO_MEMORY}\n")
            sys.exit(1)
        except Exception as error:
            # Polars has errors of its own for a full disk; the system's stands in their text.
            number = _system_error(error)
            if not number:
                raise
            sys.stderr.write(f"error: {described(OSError(number, os.strerror(number)))}\n")
            sys.exit(2 if number in _ADVICE.keys() - _NOT_THE_INPUT else 1)


def described(error: OSError) -> str:
    """What went wrong in the system, where, and what to do.

    >>> described(FileNotFoundError(2, "No such file or directory", "log.tsv"))
    'log.tsv: No such file or directory; check the path'
    """
    text = error.strerror or str(error) or type(error).__name__
    name = error.filename
    place = f"{os.fsdecode(name)}: " if isinstance(name, str | bytes) else ""
    number = _number(error)
    advice = f"; {_ADVICE[number]}" if number in _ADVICE else ""
    return one_line(f"{place}{text}{advice}")


def _number(error: OSError) -> int:
    """The system's number of an error; Rust's libraries have it in the text only."""
    return error.errno or _system_error(error)


def _system_error(error: Exception) -> int:
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else 0


def _print_any_name() -> None:
    """Let names that are not UTF-8 be printed as the bytes they are."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="surrogateescape")
