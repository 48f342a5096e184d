"""What a neural model's process does with the messages that it gets.

Knows an engine and the messages; knows nothing of HTTP.
"""

from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from nextquery.errors import NextqueryError
from nextquery.inference.giving_up import GivenUpError, given_up_when
from nextquery.service.models.engine import Engine, open_engine
from nextquery.service.models.messages import (
    Batch,
    Check,
    Facts,
    Failure,
    GivenUp,
    GiveUp,
    Opening,
    Reply,
)
from nextquery.service.operation import logging

Said = Reply | Failure | GivenUp | NextqueryError | None
Answerer = Callable[[Batch | Check | GiveUp], Said]
"""What is said to a message; nothing to one that came too late to give anything up."""


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
    abilities = engine.explains, engine.specificity, engine.judges_usefulness
    connection.send(Facts(engine.kind, engine.version, *abilities, engine.min_users))

    def unwanted() -> bool:
        try:
            return connection.poll() and isinstance(connection.recv(), GiveUp)
        except (EOFError, OSError):  # the service is gone
            return True

    return partial(_answer, engine, unwanted)


def _answer(engine: Engine, unwanted: Callable[[], bool], message: Batch | Check | GiveUp) -> Said:
    if isinstance(message, GiveUp):
        return None
    try:
        with given_up_when(unwanted):
            answers = engine.answer(message.questions) if isinstance(message, Batch) else []
    except GivenUpError:
        return GivenUp()
    except NextqueryError as error:
        return error
    except Exception as error:
        return _failure(error)
    counts = engine.states_found, engine.states_missed
    return Reply(answers, engine.blocklist, engine.blocked(), *counts)


def _failure(error: Exception) -> Failure:
    return Failure(type(error).__name__, tuple(logging.code_places(error.__traceback__)))
