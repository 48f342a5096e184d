"""What a neural model's process does with the messages that it gets.

Knows an engine and the messages; knows nothing of HTTP.
"""

import contextlib
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from nextquery.errors import BlocklistError, NextqueryError
from nextquery.service.models.engine import Engine, open_engine
from nextquery.service.models.messages import Batch, Facts, Failure, Opening, Reply
from nextquery.service.operation import logging


def open_model(
    connection: "Connection[Any, Any]",
) -> Callable[[Batch], Reply | Failure | NextqueryError] | None:
    """Open what the first message names and say so; what answers the others, None if it is bad."""
    opening: Opening = connection.recv()
    try:
        engine = open_engine(opening.path, opening.blocklist, opening.cache_size)
    except NextqueryError as error:
        connection.send(error)
        return None
    connection.send(Facts(engine.kind, engine.version, engine.explains))
    return partial(_answer, engine)


def _answer(engine: Engine, batch: Batch) -> Reply | Failure | NextqueryError:
    # A bad blocklist leaves the old one; the service looks at the file too and reports it.
    with contextlib.suppress(BlocklistError):
        engine.guard.reload()
    try:
        answers = engine.answer(batch.questions)
    except NextqueryError as error:
        return error
    except Exception as error:
        return Failure(type(error).__name__, tuple(logging.code_places(error.__traceback__)))
    return Reply(answers, engine.blocked(), engine.states_found, engine.states_missed)
