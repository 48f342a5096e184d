"""Impressions: lists that visitors were shown, with what they did.

The lines of the feedback files are joined by list. Inconsistent lines and lists are excluded and
counted by reason. Bots and floods are limited: of one visitor, and of one origin (an address,
or a few thousand that share a hash), only the first N lists of a day count.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from nextquery.errors import InputError
from nextquery.feedback.events import (
    EVENTS,
    LISTS,
    DismissedList,
    FeedbackEvent,
    ListedSuggestion,
    ServedList,
    ShadowList,
    ShownList,
    TakenSuggestion,
    Trial,
    day_of,
    feedback_files,
    file_name,
    parse_line,
)
from nextquery.feedback.settings import Bounds
from nextquery.normalise import join_words


class ExclusionReason(StrEnum):
    """Why a line or a list is excluded."""

    BROKEN = "unreadable line"
    NEVER_SHOWN = "accepted or dismissed, but never reported as shown"
    NOT_SERVED = "shown, but not served in this form, or served to another API key"
    NOT_IN_LIST = "accepted suggestion that was not in the list"
    EMPTY = "empty list"
    VISITOR = "above the daily limit of one visitor"
    ORIGIN = "above the daily limit of one origin"


@dataclass(frozen=True, slots=True)
class Impression:
    """A list that a visitor was shown."""

    list_id: str
    visitor: str
    time: datetime
    context: tuple[str, ...]
    """The earlier queries of the session, oldest first."""
    query: str
    suggestions: tuple[ListedSuggestion, ...]
    taken: frozenset[int]
    """Zero-based positions of the accepted suggestions."""
    dismissed: bool
    model: str
    fallback: bool = False
    trial: Trial | None = None
    shadows: tuple[ShadowList, ...] = ()
    origin: str = ""

    @property
    def day(self) -> str:
        """The day on which it was shown (UTC)."""
        return self.time.date().isoformat()  # three times as quick as strftime

    @property
    def session(self) -> tuple[str, ...]:
        """The queries of the session, the last one included."""
        return (*self.context, self.query)

    @property
    def examined(self) -> tuple[ListedSuggestion, ...]:
        """The suggestions down to the first accepted one; all if none was accepted."""
        return self.suggestions[: min(self.taken, default=len(self.suggestions) - 1) + 1]


@dataclass(frozen=True)
class Feedback:
    """All valid impressions in chronological order, and the number excluded by reason."""

    impressions: tuple[Impression, ...]
    excluded: Mapping[ExclusionReason, int] = field(default_factory=dict)


def read_feedback(folder: Path, bounds: Bounds) -> Feedback:
    """The impressions of a feedback folder."""
    try:
        files = feedback_files(folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror})") from None
    if not files:
        raise InputError(f"{folder}: has no feedback files; serve with `feedback`={folder}")
    excluded: Counter[ExclusionReason] = Counter()
    first, last = bounds.since, bounds.until or "9"
    chosen = [path for path in files if first <= (day_of(path.name) or "") <= last]
    # A list that was served before midnight may be shown after it, and taken on the next day.
    before = [path for path in files if path.name == _neighbour(LISTS, bounds.since, -1)]
    after = [path for path in files if path.name == _neighbour(EVENTS, bounds.until, 1)]
    events = _events([*before, *chosen], excluded)
    return join_events(events, bounds, excluded, later=_events(after, Counter()))


def _neighbour(table: str, day: str, step: int) -> str:
    """The file of the day before or after; none if there is no such day."""
    try:
        return file_name(table, datetime.fromisoformat(day) + timedelta(days=step))
    except (ValueError, OverflowError):
        return ""


def _events(files: Sequence[Path], excluded: Counter[ExclusionReason]) -> Iterator[FeedbackEvent]:
    for path in files:
        with path.open("rb") as lines:
            for line in lines:
                try:
                    event = parse_line(line)
                except ValueError:
                    excluded[ExclusionReason.BROKEN] += 1
                    continue
                if event is not None:
                    yield event


def join_events(
    events: Iterable[FeedbackEvent],
    bounds: Bounds,
    excluded: Counter[ExclusionReason] | None = None,
    later: Iterable[FeedbackEvent] = (),
) -> Feedback:
    """The impressions of events in any order; of `later` only what belongs to their lists."""
    excluded = Counter() if excluded is None else excluded
    joined: defaultdict[str, _Joined] = defaultdict(_Joined)
    for event in events:
        joined[event.query_id].add(event)
    for event in later:
        if event.query_id in joined:
            joined[event.query_id].add(event)
    impressions = [events_of_list.impression(excluded) for events_of_list in joined.values()]
    ordered = sorted(
        (item for item in impressions if item), key=lambda item: (item.time, item.list_id)
    )
    return Feedback(tuple(_bounded(ordered, bounds, excluded)), dict(sorted(excluded.items())))


@dataclass(slots=True)
class _Joined:
    """All events of one list."""

    shown: ShownList | None = None
    served: ServedList | None = None
    taken: list[TakenSuggestion] = field(default_factory=list)
    dismissed: set[str] = field(default_factory=set)
    """The API keys that said so."""
    shadows: dict[str, ShadowList] = field(default_factory=dict)

    def add(self, event: FeedbackEvent) -> None:
        match event:
            case ShownList():
                self.shown = self.shown or event
            case ServedList():
                self.served = self.served or event
            case TakenSuggestion():
                self.taken.append(event)
            case DismissedList():
                self.dismissed.add(event.owner)
            case ShadowList():
                self.shadows.setdefault(event.model, event)

    def impression(self, excluded: Counter[ExclusionReason]) -> Impression | None:
        """Return the list as it was shown, or None if it is excluded."""
        shown, served = self.shown, self.served
        if shown is None:
            excluded[ExclusionReason.NEVER_SHOWN] += bool(self.taken or self.dismissed)
            return None
        if not shown.suggestions:
            excluded[ExclusionReason.EMPTY] += 1
            return None
        suggestions = _served_suggestions(shown, served) if served else None
        if served is None or suggestions is None:
            excluded[ExclusionReason.NOT_SERVED] += 1
            return None
        texts = {
            join_words(item.text): position
            for position, item in reversed([*enumerate(suggestions)])
        }
        clicked = [
            join_words(event.suggestion) for event in self.taken if event.owner == served.owner
        ]
        taken = {texts[text] for text in clicked if text in texts}
        excluded[ExclusionReason.NOT_IN_LIST] += sum(text not in texts for text in clicked)
        return Impression(
            list_id=shown.query_id,
            visitor=shown.client_id,
            time=shown.time,
            context=served.context,
            query=shown.query,
            suggestions=suggestions,
            taken=frozenset(taken),
            dismissed=served.owner in self.dismissed and not taken,
            model=served.model,
            fallback=served.fallback,
            trial=served.trial,
            shadows=tuple(self.shadows.values()),
            origin=shown.origin,
        )


def _served_suggestions(
    shown: ShownList, served: ServedList
) -> tuple[ListedSuggestion, ...] | None:
    """Return the served suggestions that were shown, or None if they do not match.

    The service records the words of a suggestion with spaces, and sends them as people write them.
    """
    served_items = {join_words(item.text): item for item in reversed(served.suggestions)}
    texts = [join_words(text) for text in shown.suggestions]
    if shown.owner != served.owner or not served_items.keys() >= set(texts):
        return None
    return tuple(served_items[text] for text in texts)


def _bounded(
    impressions: Sequence[Impression], bounds: Bounds, excluded: Counter[ExclusionReason]
) -> Iterator[Impression]:
    """Yield the first impressions of each visitor and origin on each day."""
    visitors: Counter[tuple[str, str]] = Counter()
    origins: Counter[tuple[str, str]] = Counter()
    for impression in impressions:
        visitors[impression.day, impression.visitor] += 1
        if 0 < bounds.per_visitor < visitors[impression.day, impression.visitor]:
            excluded[ExclusionReason.VISITOR] += 1
            continue
        origins[impression.day, impression.origin] += bool(impression.origin)
        if 0 < bounds.per_origin < origins[impression.day, impression.origin]:
            excluded[ExclusionReason.ORIGIN] += 1
            continue
        yield impression
