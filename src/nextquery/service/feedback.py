"""Feedback files of the service: appending, retention and deletion."""

import asyncio
import contextlib
import errno
import hashlib
import os
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from nextquery.artifacts.files import append_line, locked
from nextquery.errors import InputError
from nextquery.feedback.events import (
    LISTS,
    DismissedList,
    FeedbackEvent,
    ShownList,
    TakenSuggestion,
    day_of,
    feedback_files,
    file_name,
    is_line_of,
    to_lines,
)
from nextquery.service.schemas import Clicked, Dismissed, Shown
from nextquery.service.settings import ServiceSettings

CHUNK = 1 << 18
"""Read at once; no other thread runs while it is searched, which takes .1 ms."""
LONGEST_LINE = 1 << 24
LOCK_SECONDS = 0.2
"""How long a lock is waited for: those who hold it need microseconds."""


@dataclass(frozen=True)
class Visitor:
    """Whose feedback is to be erased: a pseudonym of an API key, whose name is empty without."""

    client_id: str
    owner: str = ""


class ClockDoubtedError(OSError):
    """By the clock no feedback is recent: it may be wrong, and nothing was deleted."""


def erase_visitors(folder: Path, visitors: Collection[Visitor]) -> int:
    """Erase every line of these visitors in all feedback files; returns how many there were."""
    erased = 0
    for path in _files(folder):
        with contextlib.suppress(FileNotFoundError):  # expired meanwhile
            erased += _erase_in(path, visitors)
    return erased


def expire(folder: Path, days: int, today: date) -> list[str]:
    """Delete the files of days before the last `days`, today included; returns their names.

    If no file is of the days just before today, the clock may be wrong by years: nothing is deleted
    and `ClockDoubtedError` is raised. An empty file of today is left, as proof for tomorrow.
    """
    dated = {path: day_of(path.name) or "" for path in _files(folder)}
    first, witness = (str(today - timedelta(days=back)) for back in (days - 1, days))
    old = [path for path, day in dated.items() if day < first]
    if old and not any(witness <= day < str(today) for day in dated.values()):
        (folder / f"{LISTS}-{today}.ndjson").touch(mode=0o600)
        raise ClockDoubtedError(
            f"{len(old)} files are older than {days} days and none is of the days before {today}; "
            "they are deleted tomorrow if the clock is right"
        )
    for path in old:
        path.unlink(missing_ok=True)
    return [path.name for path in old]


def _files(folder: Path) -> list[Path]:
    try:
        return feedback_files(folder)
    except FileNotFoundError:
        return []


def _erase_in(path: Path, visitors: Collection[Visitor]) -> int:
    names = {visitor: b'"' + visitor.client_id.encode() for visitor in visitors}
    erased = start = 0
    rest = b""  # the line at `start`, which is not read to its end yet
    with path.open("rb+", buffering=0) as stream:
        while chunk := stream.read(CHUNK):
            text = rest + chunk
            end = text.rfind(b"\n") + 1
            named = [visitor for visitor, name in names.items() if text.find(name, 0, end) >= 0]
            if named:
                erased += _erase_lines(stream.fileno(), start, text[:end], named)
            start, rest = start + end, text[end:]
            if len(rest) > LONGEST_LINE:
                raise OSError(errno.EFBIG, f"{path.name}: has a line of more than 16 MiB")
        with locked(path, os.O_RDWR, LOCK_SECONDS) as descriptor:
            # What is read without the lock may have been half written, and taken back since.
            rest = os.pread(descriptor, os.fstat(descriptor).st_size - start, start)
            erased += _erase_lines(descriptor, start, rest, names)
        if erased:
            os.fsync(stream.fileno())
    return erased


def _erase_lines(descriptor: int, start: int, text: bytes, visitors: Collection[Visitor]) -> int:
    """Erase the lines of a text that begins at `start` of the file."""
    erased = 0
    for line in text.split(b"\n"):
        if any(is_line_of(line, visitor.client_id, visitor.owner) for visitor in visitors):
            if os.pwrite(descriptor, b"{}".ljust(len(line)), start) < len(line):
                raise OSError(errno.EIO, "a line could not be erased as a whole")
            erased += 1
        start += len(line) + 1
    return erased


ORIGIN_DIGITS = 4
"""65,536 origins: some 65,000 addresses share each, so that none identifies an address."""


class FeedbackLostError(Exception):
    """The feedback could not be written: a full disk, a folder that may not be made again."""


@dataclass(eq=False)
class _Erasure:
    """One pass over the files, for all visitors who wait for it."""

    visitors: set[Visitor] = field(default_factory=set)
    done: bool = False
    error: OSError | None = None


class FeedbackLog:
    """Appends to the files of the day, each at most `megabytes`; workers can share the folder."""

    def __init__(self, folder: Path, megabytes: int = ServiceSettings.feedback_mb) -> None:
        self._folder = folder
        self._most_bytes = megabytes * 1_000_000
        self._erasing = asyncio.Lock()
        self._next = _Erasure()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"`feedback` {folder}: {error.strerror}") from None

    def write(
        self,
        feedback: Shown | Clicked | Dismissed,
        now: datetime | None = None,
        sender: str = "",
        owner: str = "",
    ) -> None:
        """Append what a user did; `FeedbackLostError` if that cannot be done."""
        moment = now or datetime.now(UTC)
        self.append(_event(feedback, moment, origin(sender, moment) if sender else "", owner))

    def append(self, event: FeedbackEvent) -> None:
        """Append the lines of an event; `FeedbackLostError` if that cannot be done."""
        full = "the day's file has reached `feedback_mb`"
        for table, line in to_lines(event):
            path = self._folder / file_name(table, event.time)
            try:
                self._folder.mkdir(parents=True, exist_ok=True)  # it may have been taken away
                flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
                with locked(path, flags, LOCK_SECONDS) as descriptor:
                    append_line(descriptor, line, self._most_bytes, full, flush=False)
            except OSError as error:
                raise FeedbackLostError(error.strerror) from error

    async def forget(self, visitor: Visitor) -> None:
        """Erase a visitor's lines, in a thread; `FeedbackLostError` if that cannot be done.

        While one pass over the files runs, all who ask wait for the next one together.
        """
        erasure = self._next
        erasure.visitors.add(visitor)
        async with self._erasing:
            if not erasure.done:
                self._next = _Erasure()
                try:
                    await asyncio.to_thread(erase_visitors, self._folder, erasure.visitors)
                except OSError as error:
                    erasure.error = error
                erasure.done = True
        if erasure.error is not None:
            raise FeedbackLostError(erasure.error.strerror) from erasure.error

    def expire(self, days: int) -> list[str]:
        """Delete the files of days before the last `days`; returns their names."""
        return expire(self._folder, days, datetime.now(UTC).date())


def origin(sender: str, moment: datetime) -> str:
    """Distinguishes floods from visitors without storing addresses; a new one every day.

    >>> noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    >>> len(origin("address 192.0.2.7", noon))
    4
    """
    text = f"{moment:%Y-%m-%d} {sender}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:ORIGIN_DIGITS]


def _event(
    feedback: Shown | Clicked | Dismissed, moment: datetime, origin: str, owner: str
) -> FeedbackEvent:
    common = feedback.query_id, feedback.client_id, moment, feedback.query, origin, owner
    if isinstance(feedback, Shown):
        return ShownList(*common, suggestions=tuple(feedback.suggestions))
    if isinstance(feedback, Clicked):
        suggestion, position = feedback.suggestion, feedback.position
        return TakenSuggestion(*common, suggestion=suggestion, position=position)
    return DismissedList(*common)
