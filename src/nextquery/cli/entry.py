"""Entry point of `nextquery`: signals and operating-system errors of every command.

Imports little, so that signals are handled from the start.
"""

import codecs
import errno
import io
import json
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from nextquery.cli.main import one_line

if TYPE_CHECKING:
    from nextquery.training.trainer import StopRequest

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
        from nextquery.cli.main import run as run_command

        try:
            run_command()
        except Exception as error:
            number = _number(error)
            if isinstance(error, OSError):
                message = described(error)
            elif isinstance(error, MemoryError):
                message = _NO_MEMORY
            elif type(error).__name__ == "OutOfMemoryException":  # DuckDB's: no space to spill to
                message, number = _NO_SPILL, errno.ENOSPC
            elif number:
                message = described(OSError(number, os.strerror(number)))
            else:
                raise
            sys.stderr.write(f"error: {message}\n")
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


def _number(error: Exception) -> int:
    """The system's number of an error, or 0; many libraries have it in the text only."""
    from nextquery.artifacts.files import system_error

    return (isinstance(error, OSError) and error.errno) or system_error(error)


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


SIGNALS = (signal.SIGINT, signal.SIGTERM)
PATIENCE_SECONDS = 3.0
RETRY_SECONDS = 0.01
"""When a signal is sent again that came while an object was finalised."""
CHILDREN_SECONDS = 2.0
"""How long children may take to end by themselves."""
SECONDS_TO_END = 10.0
"""How long one thread lets another end the process before it does so itself."""
_received: list[int] = []
_requests: "list[StopRequest]" = []
"""The block whose request the next signal is (`save_on_signals`)."""
_ending = threading.Lock()


class Stopped(BaseException):
    """A signal asked the process to end; not an `Exception`, so that nobody takes it for one."""


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """End the process in an orderly way on the first signal; further ones change nothing.

    A signal after the block, while the interpreter ends, ends the process at once.
    """
    for number in SIGNALS:
        signal.signal(number, _stop)
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(read_end,), daemon=True).start()
    try:
        yield
    except BaseException:
        if _received:  # the error is a consequence of the signal
            end_process(_received[0])
        raise
    finally:
        try:
            signal.set_wakeup_fd(before)
            os.close(write_end)
            for number in SIGNALS:
                signal.signal(number, _stop_now)
        except Stopped:  # a signal at the last moment
            end_process(_received[0])


def end_process(number: int) -> None:
    """Remove what is half-written, say why, and end at once: no thread is waited for.

    What this process has started (Spark's Java, the steps of `demo`) ends with it. Threads that
    complain of that are not printed.
    """
    _ending.acquire(timeout=SECONDS_TO_END)  # for good: two threads would say it twice
    last_word = _mute_errors()
    _end_children()
    artifacts = sys.modules.get("nextquery.artifacts")
    abandon = getattr(artifacts, "abandon", None)
    if abandon is not None:  # not yet there while the module itself is being made
        abandon()
    with suppress(Exception):
        # Temporary folders, as at an ordinary end; there is no public name for it.
        weakref.finalize._exitfunc()  # type: ignore[attr-defined]
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError):
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        os.write(last_word, f"stopped by {name}\n".encode())
    os._exit(128 + number)


def _mute_errors() -> int:
    """Let nothing more of this process reach stderr but what is written to the copy given back."""
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    try:
        copy = os.dup(2)
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
    except OSError:  # stderr was closed, or no more files can be opened
        return 2
    return copy


def _end_children() -> None:
    """Tell all children to end, and end those that do not; where there is no `/proc`, none."""
    children: list[int] = []
    for task in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread that has just ended
            children += map(int, task.read_text(encoding="ascii").split())
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + CHILDREN_SECONDS
    for pid in children:
        with suppress(ChildProcessError, ProcessLookupError):
            while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < end:
                time.sleep(0.01)
            os.kill(pid, signal.SIGKILL)


def _stop(number: int, frame: FrameType | None) -> None:
    if _is_finalising(frame):  # an exception would be printed there, and lost
        threading.Timer(RETRY_SECONDS, os.kill, (os.getpid(), number)).start()
        return
    for signal_number in SIGNALS:
        signal.signal(signal_number, _ignore)
    _received.append(number)
    if _must_not_raise(frame):
        end_process(number)
    raise Stopped(number)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing: with `SIG_IGN` Python complains of a signal that arrived just before it."""


def _stop_now(number: int, frame: FrameType | None) -> None:
    for signal_number in SIGNALS:
        signal.signal(signal_number, _ignore)
    end_process(number)


def _is_finalising(frame: FrameType | None) -> bool:
    """Whether a `__del__` method is running."""
    return any(caller.f_code.co_name == "__del__" for caller in _stack(frame))


def _must_not_raise(frame: FrameType | None) -> bool:
    """Whether raising an exception here does harm.

    Some compiled modules abort if it happens while they are imported. Py4J, which speaks to Spark's
    Java, prints a traceback and loses the connection that closing Spark would need.
    """
    files = (caller.f_code.co_filename for caller in _stack(frame))
    package = f"{os.sep}py4j{os.sep}"
    return any(file == "<frozen importlib._bootstrap>" or package in file for file in files)


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and its callers, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _watch(read_end: int) -> None:
    """End the process if it has not noticed a signal of ours in time."""
    while content := os.read(read_end, 1):
        number = content[0]
        if number in SIGNALS and _requests:
            # Not asked of `getsignal`: the main thread may have put the usual handler back already.
            _requests.pop()
        elif number in SIGNALS and signal.getsignal(number) in (_stop, _ignore):
            time.sleep(PATIENCE_SECONDS)
            end_process(number)
    os.close(read_end)


@contextmanager
def save_on_signals() -> "Iterator[StopRequest]":
    """Turn the first SIGTERM or Ctrl-C into a request; a second one ends the process at once."""
    from nextquery.training.trainer import StopRequest

    request = StopRequest()
    usual = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def ask(number: int, frame: FrameType | None) -> None:
        request.signal = number
        for usual_number, handler in usual.items():
            signal.signal(usual_number, handler)

    _requests.append(request)
    for number in usual:
        signal.signal(number, ask)
    try:
        yield request
    finally:
        with suppress(ValueError):  # a signal came
            _requests.remove(request)
        for number, handler in usual.items():
            signal.signal(number, handler)
