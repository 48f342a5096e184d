"""Impressions: lists that visitors were shown, each with what became of it.

The lines of the feedback files are joined by list; what does not fit together is set aside and
counted by reason. Robots and floods are bounded: of one visitor, and of one origin (an address, or
a few thousand that share a hash), no more than so many lists of a day count.
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
    file_name,
    parse_line,
)
from nextquery.feedback.settings import Bounds
from nextquery.normalise import join_words


class SetAside(StrEnum):
    """Why a line or a list does not count."""

    BROKEN = "the line cannot be read"
    NEVER_SHOWN = "taken or dismissed, but never said to be shown"
    NOT_SERVED = "shown, but not served like that, or to another API key"
    NOT_IN_LIST = "a suggestion was taken that was not in the list"
    EMPTY = "the list was empty"
    VISITOR = "more lists of one visitor and day than count"
    ORIGIN = "more lists of one origin and day than count"


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
    """The places, from 0, of the suggestions that were taken."""
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


@dataclass(frozen=True)
class Feedback:
    """All impressions that count, in the order of time, and how much does not."""

    impressions: tuple[Impression, ...]
    set_aside: Mapping[SetAside, int] = field(default_factory=dict)


def read_feedback(folder: Path, bounds: Bounds) -> Feedback:
    """The impressions of a feedback folder."""
    files = feedback_files(folder)
    if not files:
        raise InputError(f"{folder}: has no feedback files; serve with `feedback`={folder}")
    aside: Counter[SetAside] = Counter()
    first, last = bounds.since, bounds.until or "9"
    chosen = [path for path in files if first <= (day_of(path.name) or "") <= last]
    # A list that was served before midnight may be shown after it, and taken on the next day.
    before = [path for path in files if path.name == _neighbour(LISTS, bounds.since, -1)]
    after = [path for path in files if path.name == _neighbour(EVENTS, bounds.until, 1)]
    events = _events([*before, *chosen], aside)
    return join_events(events, bounds, aside, later=_events(after, Counter()))


def _neighbour(table: str, day: str, step: int) -> str:
    """The file of the day before or after; none if there is no such day."""
    try:
        return file_name(table, datetime.fromisoformat(day) + timedelta(days=step))
    except (ValueError, OverflowError):
        return ""


def feedback_files(folder: Path) -> list[Path]:
    """The files of a feedback folder, of all days and tables."""
    try:
        return sorted(path for path in folder.iterdir() if day_of(path.name) and path.is_file())
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror})") from None


def _events(files: Sequence[Path], aside: Counter[SetAside]) -> Iterator[FeedbackEvent]:
    for path in files:
        with path.open("rb") as lines:
            for line in lines:
                try:
                    event = parse_line(line)
                except ValueError:
                    aside[SetAside.BROKEN] += 1
                    continue
                if event is not None:
                    yield event


def join_events(
    events: Iterable[FeedbackEvent],
    bounds: Bounds,
    aside: Counter[SetAside] | None = None,
    later: Iterable[FeedbackEvent] = (),
) -> Feedback:
    """The impressions of events in any order; of `later` only what belongs to their lists."""
    aside = Counter() if aside is None else aside
    joined: defaultdict[str, _Joined] = defaultdict(_Joined)
    for event in events:
        joined[event.query_id].add(event)
    for event in later:
        if event.query_id in joined:
            joined[event.query_id].add(event)
    found = [each.impression(aside) for each in joined.values()]
    ordered = sorted((each for each in found if each), key=lambda each: (each.time, each.list_id))
    return Feedback(tuple(_bounded(ordered, bounds, aside)), dict(sorted(aside.items())))


@dataclass(slots=True)
class _Joined:
    """What the files say of one list."""

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

    def impression(self, aside: Counter[SetAside]) -> Impression | None:
        """The list as it was shown, None if it does not count."""
        shown, served = self.shown, self.served
        if shown is None:
            aside[SetAside.NEVER_SHOWN] += bool(self.taken or self.dismissed)
            return None
        if not shown.suggestions:
            aside[SetAside.EMPTY] += 1
            return None
        places = _places(shown, served) if served else None
        if served is None or places is None:
            aside[SetAside.NOT_SERVED] += 1
            return None
        texts = {join_words(item.text): place for place, item in reversed([*enumerate(places)])}
        clicked = [join_words(each.suggestion) for each in self.taken if each.owner == served.owner]
        taken = {texts[text] for text in clicked if text in texts}
        aside[SetAside.NOT_IN_LIST] += sum(text not in texts for text in clicked)
        return Impression(
            list_id=shown.query_id,
            visitor=shown.client_id,
            time=shown.time,
            context=served.context,
            query=shown.query,
            suggestions=places,
            taken=frozenset(taken),
            dismissed=served.owner in self.dismissed and not taken,
            model=served.model,
            fallback=served.fallback,
            trial=served.trial,
            shadows=tuple(self.shadows.values()),
            origin=shown.origin,
        )


def _places(shown: ShownList, served: ServedList) -> tuple[ListedSuggestion, ...] | None:
    """What was shown with what the service knows of it, None if it was not served like that.

    The service records the words of a suggestion with spaces, and sends them as people write them.
    """
    known = {join_words(each.text): each for each in reversed(served.suggestions)}
    texts = [join_words(text) for text in shown.suggestions]
    if shown.owner != served.owner or not known.keys() >= set(texts):
        return None
    return tuple(known[text] for text in texts)


def _bounded(
    impressions: Sequence[Impression], bounds: Bounds, aside: Counter[SetAside]
) -> Iterator[Impression]:
    """The first of each visitor and origin on each day."""
    visitors: Counter[tuple[str, str]] = Counter()
    origins: Counter[tuple[str, str]] = Counter()
    for each in impressions:
        visitors[each.day, each.visitor] += 1
        if 0 < bounds.per_visitor < visitors[each.day, each.visitor]:
            aside[SetAside.VISITOR] += 1
            continue
        origins[each.day, each.origin] += bool(each.origin)
        if 0 < bounds.per_origin < origins[each.day, each.origin]:
            aside[SetAside.ORIGIN] += 1
            continue
        yield each
