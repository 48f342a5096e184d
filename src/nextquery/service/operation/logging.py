"""The service's log: a JSON document a line on stderr, with request ids and without query texts.

A log record is kept to its message and the fields given by name. Of an exception only the type and
the places in the code are written: a message may quote what a user typed.
"""

import json
import logging
import sys
import time
import traceback
from types import TracebackType
from typing import Any

LOGGER = logging.getLogger("nextquery.service")


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        entry: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0]:
            entry["error"] = record.exc_info[0].__name__
            entry["places"] = code_places(record.exc_info[2])
        return json.dumps(entry, ensure_ascii=False)


def install() -> None:
    """Send the log of the service and of the HTTP server to stderr as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("nextquery", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False


def log_event(message: str, **fields: Any) -> None:
    """Log a message with fields."""
    LOGGER.info(message, extra={"fields": fields})


def log_warning(message: str, **fields: Any) -> None:
    """Log what an operator should look at."""
    LOGGER.warning(message, extra={"fields": fields})


def log_failure(message: str, error: BaseException, **fields: Any) -> None:
    """Log an error that was not expected."""
    LOGGER.error(
        message,
        extra={"fields": fields},
        exc_info=(type(error), error, error.__traceback__),
    )


def code_places(trace: TracebackType | None) -> list[str]:
    """The places in the code that a traceback passes, outermost first."""
    return [
        f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(trace)
    ]
