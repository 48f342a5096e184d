"""What a neural model's process does with the messages that it gets.

Knows an engine and the messages; knows nothing of HTTP.
"""

from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from nextquery.errors import NextqueryError
from nextquery.service.models.engine import Engine, open_engine
from nextquery.service.models.messages import Batch, Check, Facts, Failure, Opening, Reply
from nextquery.service.operation import logging

Answerer = Callable[[Batch | Check], Reply | Failure | NextqueryError]


def open_model(connection: "Connection[Any, Any]") -> Answerer | None:
    """Open what the first message names and say so; what answers the others, None if it is bad."""
    opening: Opening = connection.recv()
    try:
        engine = open_engine(opening.path, opening.blocklist, opening.cache_size)
    except NextqueryError as error:
        connection.send(error)
        return None
    except Exception as error:
        connection.send(_failure(error))
        return None
    connection.send(Facts(engine.kind, engine.version, engine.explains, engine.specificity))
    return partial(_answer, engine)


def _answer(engine: Engine, message: Batch | Check) -> Reply | Failure | NextqueryError:
    try:
        answers = engine.answer(message.questions) if isinstance(message, Batch) else []
    except NextqueryError as error:
        return error
    except Exception as error:
        return _failure(error)
    counts = engine.states_found, engine.states_missed
    return Reply(answers, engine.blocklist, engine.blocked(), *counts)


def _failure(error: Exception) -> Failure:
    return Failure(type(error).__name__, tuple(logging.code_places(error.__traceback__)))
