"""Visitors whose preferences are known: to check reports, trials and re-rankers by.

A visitor looks at the places of a list from the top, at each with a probability that falls with the
place, and takes the first suggestion looked at that attracts them. What attracts is a function of
the session and the suggestion. Knows nothing of models, and cannot show how real visitors behave.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import numpy as np

from nextquery.feedback.assignment import Share, split_arm, team_draft
from nextquery.feedback.events import (
    Arm,
    DismissedList,
    FeedbackEvent,
    ListedSuggestion,
    ServedList,
    ShownList,
    TakenSuggestion,
    Trial,
    source_of,
)
from nextquery.records import Suggestion

Session = tuple[str, ...]
Attraction = Callable[[Session, str], float]
"""How likely a suggestion is taken once it is looked at, in a session."""
Lister = Callable[[Session], Sequence[Suggestion]]
"""A model: the list after a session."""

EXAMINATION = (1.0, 0.72, 0.55, 0.44, 0.36)
"""How likely each place is looked at; like figures are found in search logs."""
START = datetime(2026, 5, 1, 8, tzinfo=UTC)
VISITORS_PER_DAY = 500


@dataclass(frozen=True)
class SimulatedVisitors:
    """Draws sessions and takes suggestions."""

    sessions: Sequence[Session]
    attraction: Attraction
    examination: Sequence[float] = EXAMINATION
    dismissing: float = 0.3
    """How often a list from which nothing was taken is closed rather than ignored."""
    lists: int = 2
    """Lists per visitor."""

    def place_taken(
        self, session: Session, texts: Sequence[str], draw: np.random.Generator
    ) -> int | None:
        """The place of the suggestion that a visitor takes, None if none."""
        for place, text in enumerate(texts[: len(self.examination)]):
            looked = draw.random() < self.examination[place]
            if looked and draw.random() < self.attraction(session, text):
                return place
        return None

    def visits(self, number: int, draw: np.random.Generator, first: int = 0) -> Iterator["Visit"]:
        """The sessions of so many visitors, day by day."""
        for visitor in range(first, first + number):
            day, within = divmod(visitor, VISITORS_PER_DAY)
            for turn in range(self.lists):
                time = START + timedelta(days=day, seconds=20 * within, milliseconds=turn)
                session = self.sessions[int(draw.integers(len(self.sessions)))]
                yield Visit(f"visitor-{visitor}", f"list-{visitor}-{turn}", time, session)

    def events(
        self, visit: "Visit", served: ServedList, draw: np.random.Generator
    ) -> Iterator[FeedbackEvent]:
        """What a visitor's browser says of a list."""
        who = visit.list_id, visit.visitor, visit.time, visit.session[-1]
        texts = tuple(each.text for each in served.suggestions)
        yield ShownList(*who, suggestions=texts)
        place = self.place_taken(visit.session, texts, draw)
        if place is not None:
            yield TakenSuggestion(*who, suggestion=texts[place], position=place + 1)
        elif draw.random() < self.dismissing:
            yield DismissedList(*who)


@dataclass(frozen=True, slots=True)
class Visit:
    """A visitor at a point of a session."""

    visitor: str
    list_id: str
    time: datetime
    session: Session


@dataclass(frozen=True)
class SimulatedService:
    """Serves lists as `serve` does, without HTTP: one model, or two in a trial."""

    models: dict[str, Lister]
    kind: str = ""
    """`interleave`, `split` or none: the first model alone."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of models; "1" where none is given."""

    def serve(self, visit: Visit) -> ServedList:
        """The list for a visit, as it is recorded."""
        names = list(self.models)
        who = visit.list_id, visit.visitor, visit.time, visit.session[-1]
        common = ServedList(*who, context=visit.session[:-1])
        arms = tuple(Arm(name, self.versions.get(name, "1")) for name in names)
        if self.kind == "interleave":
            both = [self.models[name](visit.session) for name in names]
            key = "\0".join((visit.visitor, *visit.session))
            drafted = team_draft(both[0], both[1], len(both[0]), key)
            places = tuple(_listed(each.suggestion, names[each.team]) for each in drafted)
            trial = Trial("interleave", arms)
            return replace(common, model="+".join(names), suggestions=places, trial=trial)
        name, trial_of = names[0], None
        if self.kind == "split":
            shares = [Share(each, 1) for each in names]
            name = split_arm(shares, visit.visitor)
            trial_of = Trial("split", arms, name)
        places = tuple(_listed(each, name) for each in self.models[name](visit.session))
        return replace(common, model=name, suggestions=places, trial=trial_of)


def simulate(
    visitors: SimulatedVisitors,
    service: SimulatedService,
    number: int,
    draw: np.random.Generator,
    first: int = 0,
) -> Iterator[FeedbackEvent]:
    """All events of so many visitors, numbered from `first`."""
    for visit in visitors.visits(number, draw, first):
        served = service.serve(visit)
        yield served
        yield from visitors.events(visit, served, draw)


def _listed(suggestion: Suggestion, model: str) -> ListedSuggestion:
    source = source_of(suggestion.source)
    return ListedSuggestion(suggestion.text, source, model, suggestion.score)
