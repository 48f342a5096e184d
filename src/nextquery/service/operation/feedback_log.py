"""The feedback log: what the service served and what visitors did, appended to the files of a day.

The lines and their files are `feedback/events.py`'s; `nextquery prepare` reads them back as a log,
`nextquery feedback` as what was shown and taken. Knows nothing of HTTP.
"""

import fcntl
import hashlib
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

from nextquery.errors import InputError
from nextquery.feedback.events import (
    DismissedList,
    FeedbackEvent,
    ShownList,
    TakenSuggestion,
    file_name,
    to_lines,
)
from nextquery.service.http.schemas import Clicked, Dismissed, Shown
from nextquery.service.operation.feedback_retention import expire, forget_visitor, opened

ORIGIN_DIGITS = 4
"""65,536 origins: some 65,000 addresses of the world share each, so that none is told."""


class FeedbackLostError(Exception):
    """The feedback could not be written: a full disk, a folder that may not be made again."""


class FeedbackLog:
    """Appends to the files of the day. Each line is one write, so workers can share the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._forgetting = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"`feedback` {folder}: {error.strerror}") from None

    def write(
        self,
        feedback: Shown | Clicked | Dismissed,
        now: datetime | None = None,
        sender: str = "",
    ) -> None:
        """Append what a user did; `FeedbackLostError` if that cannot be done."""
        moment = now or datetime.now(UTC)
        self.append(_event(feedback, moment, origin(sender, moment) if sender else ""))

    def append(self, event: FeedbackEvent) -> None:
        """Append the lines of an event; `FeedbackLostError` if that cannot be done."""
        for table, line in to_lines(event):
            self._append(self._folder / file_name(table, event.time), line)

    def forget(self, client_id: str) -> int:
        """Remove a visitor's lines; `FeedbackLostError` if that cannot be done."""
        with self._forgetting:
            try:
                return forget_visitor(self._folder, client_id)
            except OSError as error:
                raise FeedbackLostError(error.strerror) from error

    def expire(self, days: int) -> list[str]:
        """Delete the files of days before the last `days`; returns their names."""
        return expire(self._folder, days, datetime.now(UTC).date())

    def _append(self, path: Path, line: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)  # it may have been taken away
            # 0600: it holds what people typed.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            with opened(path, flags, fcntl.LOCK_SH) as descriptor:
                written = os.write(descriptor, line)
        except OSError as error:
            raise FeedbackLostError(error.strerror) from error
        if written < len(line):
            raise FeedbackLostError("the disk is full")


def origin(sender: str, moment: datetime) -> str:
    """What tells floods from visitors without telling addresses, another one every day.

    >>> noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    >>> len(origin("address 192.0.2.7", noon))
    4
    """
    text = f"{moment:%Y-%m-%d} {sender}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:ORIGIN_DIGITS]


def _event(feedback: Shown | Clicked | Dismissed, moment: datetime, origin: str) -> FeedbackEvent:
    common = feedback.query_id, feedback.client_id, moment, feedback.query, origin
    if isinstance(feedback, Shown):
        return ShownList(*common, suggestions=tuple(feedback.suggestions))
    if isinstance(feedback, Clicked):
        taken, position = feedback.suggestion, feedback.position
        return TakenSuggestion(*common, suggestion=taken, position=position)
    return DismissedList(*common)
