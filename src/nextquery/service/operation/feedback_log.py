"""The feedback log: what the service served and what visitors did, appended to the files of a day.

The lines and their files are `feedback/events.py`'s; `nextquery prepare` reads them back as a log,
`nextquery feedback` as what was shown and taken. Knows nothing of HTTP.
"""

import hashlib
import os
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

ORIGIN_DIGITS = 4
"""65,536 origins: some 65,000 addresses of the world share each, so that none is told."""


class FeedbackLostError(Exception):
    """The feedback could not be written: a full disk, a folder that may not be made again."""


class FeedbackLog:
    """Appends to the files of the day. Each line is one write, so workers can share the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
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

    def _append(self, path: Path, line: bytes) -> None:
        try:
            descriptor = _open(path)
            try:
                written = os.write(descriptor, line)
            finally:
                os.close(descriptor)
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


def _open(path: Path) -> int:
    """The file, in a folder that may have been taken away; 0600: it holds what people typed."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o600)


def _event(feedback: Shown | Clicked | Dismissed, moment: datetime, origin: str) -> FeedbackEvent:
    common = feedback.query_id, feedback.client_id, moment, feedback.query, origin
    if isinstance(feedback, Shown):
        return ShownList(*common, suggestions=tuple(feedback.suggestions))
    if isinstance(feedback, Clicked):
        taken, position = feedback.suggestion, feedback.position
        return TakenSuggestion(*common, suggestion=taken, position=position)
    return DismissedList(*common)
