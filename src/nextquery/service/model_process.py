"""The process of one neural model: `python -m nextquery.service.model_process FD`.

It is started by `isolation`, which holds the other end of the socket, and ends when that closes.
Knows an engine and a socket; knows nothing of HTTP.
"""

import contextlib
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from nextquery.errors import BlocklistError, NextqueryError
from nextquery.service import journal
from nextquery.service.engine import Engine, open_engine
from nextquery.service.messages import Facts, Failure, Opening, Question, Reply

NICENESS = 15


def main() -> None:
    """Open what the first message names, then answer until the socket closes."""
    # Stopping is decided by the service, which first finishes what it accepted.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with Connection(int(sys.argv[1])) as connection, contextlib.suppress(EOFError, BrokenPipeError):
        # In a thread of its own, which alone gives way to others: a reload must not slow down the
        # model that is still answering.
        with ThreadPoolExecutor(1, initializer=_give_way) as loading:
            engine = loading.submit(_open, connection).result()
        while engine is not None:
            connection.send(_answer(engine, connection.recv()))


def _give_way() -> None:
    """Let the present thread have only what others leave; elsewhere than on Linux, nothing."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def _open(connection: "Connection[Any, Any]") -> Engine | None:
    opening: Opening = connection.recv()
    try:
        engine = open_engine(opening.path, opening.blocklist, opening.cache_size)
    except NextqueryError as error:
        connection.send(error)
        return None
    connection.send(Facts(engine.kind, engine.version, engine.explains))
    return engine


def _answer(engine: Engine, question: Question) -> Reply | Failure | NextqueryError:
    # A bad blocklist leaves the old one; the service looks at the file too and reports it.
    with contextlib.suppress(BlocklistError):
        engine.guard.reload()
    try:
        result = getattr(engine, question.method)(*question.arguments)
    except NextqueryError as error:
        return error
    except Exception as error:
        return Failure(type(error).__name__, tuple(journal.places(error.__traceback__)))
    return Reply(result, engine.blocked(), engine.states_found, engine.states_missed)


if __name__ == "__main__":
    main()
