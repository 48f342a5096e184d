"""The feedback log, in the format of OpenSearch's User Behavior Insights (UBI) 1.3.

Every query whose suggestions were shown is a line of `queries-DAY.ndjson`, everything the user did
a line of `events-DAY.ndjson`; `nextquery prepare` reads them back as a log. Knows nothing of HTTP.
"""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nextquery.errors import InputError
from nextquery.service.http.schemas import Clicked, Dismissed, Shown

APPLICATION = "nextquery"
_ACTIONS = {
    "shown": "suggestions_shown",
    "clicked": "suggestion_clicked",
    "dismissed": "suggestions_dismissed",
}


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

    def write(self, feedback: Shown | Clicked | Dismissed, now: datetime | None = None) -> None:
        """Append what a user did; `FeedbackLostError` if that cannot be done."""
        moment = now or datetime.now(UTC)
        common = {
            "application": APPLICATION,
            "query_id": feedback.query_id,
            "client_id": feedback.client_id,
            "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        if isinstance(feedback, Shown):
            query = {
                "user_query": feedback.query,
                "query_response_hit_ids": feedback.suggestions,
            }
            self._append("queries", moment, {**common, **query})
        self._append("events", moment, {**common, **_event(feedback)})

    def _append(self, table: str, moment: datetime, record: dict[str, Any]) -> None:
        path = self._folder / f"{table}-{moment:%Y-%m-%d}.ndjson"
        line = (json.dumps(record, ensure_ascii=False) + "\n").encode()
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


def _open(path: Path) -> int:
    """The file, in a folder that may have been taken away; 0600: it holds what people typed."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o600)


def _event(feedback: Shown | Clicked | Dismissed) -> dict[str, Any]:
    event: dict[str, Any] = {
        "action_name": _ACTIONS[feedback.action],
        "message_type": "SUGGESTION",
        "user_query": feedback.query,
    }
    if isinstance(feedback, Clicked):
        event["message"] = feedback.suggestion
        event["event_attributes"] = {
            "object": {"object_id": feedback.suggestion, "object_id_field": "suggestion"},
            "position": {"ordinal": feedback.position},
        }
    return event
