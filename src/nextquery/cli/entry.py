"""Entry point of `nextquery`: signals and operating-system errors of every command.

Imports little, so that signals are handled from the start.
"""

import codecs
import errno
import io
import json
import os
import sys

from nextquery.cli.main import one_line
from nextquery.cli.signals import stop_on_signals

_ADVICE = {
    errno.ENOSPC: "free some space and run again",
    errno.EDQUOT: "free some space and run again",
    errno.EROFS: "choose a folder that can be written to",
    errno.EACCES: "choose another path, or ask for permission to use this one",
    errno.EPERM: "choose another path, or ask for permission to use this one",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOTDIR: "a part of the path is a file; choose another path",
    errno.ELOOP: "the link leads to itself; choose another path",
    errno.EEXIST: "there is a file of that name; choose another path",
    errno.EISDIR: "this is a folder; name a file",
    errno.EFBIG: "raise the limit with `ulimit -f`",
    errno.ENOENT: "check the path",
    errno.EMFILE: "raise the limit with `ulimit -n`",
}
_NO_MEMORY = "not enough memory; ask for less, or run where there is more"
_NO_SPILL = "not enough memory, nor disk space next to the output; free some, or run elsewhere"
_NOT_THE_INPUT = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.EFBIG}


def run() -> None:
    """Run the command line."""
    with stop_on_signals():
        _print_any_text()
        from nextquery.artifacts.files import system_error
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
            if type(error).__name__ == "OutOfMemoryException":  # DuckDB's: no space to spill to
                sys.stderr.write(f"error: {_NO_SPILL}\n")
                sys.exit(1)
            number = system_error(error)
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
    path = f"{os.fsdecode(name)}: " if isinstance(name, str | bytes) else ""
    number = _number(error)
    advice = f"; {_ADVICE[number]}" if number in _ADVICE else ""
    return one_line(f"{path}{text}{advice}")


def _number(error: OSError) -> int:
    """The system's number of an error; Rust's libraries have it in the text only."""
    from nextquery.artifacts.files import system_error

    return error.errno or system_error(error)


def _print_any_text() -> None:
    """Let every text be printed, whatever encoding the terminal or the locale has."""
    codecs.register_error("nextquery", _encoded_otherwise)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="nextquery")


def _encoded_otherwise(error: UnicodeError) -> tuple[str | bytes, int]:
    r"""A byte of a name that is not UTF-8 as that byte, any other character as in JSON.

    >>> _encoded_otherwise(UnicodeEncodeError("latin-1", "a\u6771", 1, 2, ""))
    ('\\u6771', 2)
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":
        return bytes([ord(character) - 0xDC00]), error.start + 1
    return json.dumps(character)[1:-1], error.start + 1
