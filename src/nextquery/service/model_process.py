"""The process of one neural model.

Run as `python -m nextquery.service.model_process FD [low_priority]`. `worker.IsolatedEngine` starts
it and has the other end of the socket; it ends when that closes. The messages and their answers are
in `worker`. Nothing heavy is imported before the priority is lowered, so that loading a replacement
does not slow down the model that is still answering.
"""

import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from nextquery.inference.native import give_back, keep_freed_memory

LOW_PRIORITY = "low_priority"
NICENESS = 15


def main() -> None:
    """Open what the first message names, then answer until the socket closes."""
    # Stopping is decided by the service, which first finishes what it accepted.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with Connection(int(sys.argv[1])) as connection, contextlib.suppress(EOFError, BrokenPipeError):
        # In a thread of its own: only loading has a lower priority.
        begin = _lower_priority if LOW_PRIORITY in sys.argv else None
        with ThreadPoolExecutor(1, initializer=begin) as loading:
            answer = loading.submit(_load, connection).result()
        give_back()
        gc.freeze()  # the vocabulary's words need not be looked through again and again
        while answer is not None:
            reply = answer(connection.recv())
            if reply is not None:
                connection.send(reply)


def _lower_priority() -> None:
    """Lower the priority of the present thread; only Linux has priorities of threads."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def _load(connection: "Connection[Any, Any]") -> Callable[[Any], Any] | None:
    from nextquery.service.worker import open_model  # half of the work of loading

    keep_freed_memory()
    return open_model(connection)


if __name__ == "__main__":
    main()
