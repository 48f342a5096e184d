"""Simulated visitors with known preferences, to test reports, trials and re-rankers.

A visitor examines the positions of a list from the top, each with a probability that falls with the
position, and accepts the first examined suggestion that attracts them. Attraction is a function of
the session and the suggestion. The simulation does not show how real visitors behave.
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
"""How likely an examined suggestion is accepted in a session."""
Lister = Callable[[Session], Sequence[Suggestion]]
"""A model: the list after a session."""

EXAMINATION = (1.0, 0.72, 0.55, 0.44, 0.36)
"""How likely each position is examined; typical of search logs."""
START = datetime(2026, 5, 1, 8, tzinfo=UTC)
VISITORS_PER_DAY = 500


@dataclass(frozen=True)
class SimulatedVisitors:
    """Draw sessions and accept suggestions."""

    sessions: Sequence[Session]
    attraction: Attraction
    examination: Sequence[float] = EXAMINATION
    dismissing: float = 0.3
    """Share of lists without an accepted suggestion that are dismissed instead of ignored."""
    lists: int = 2
    """Lists per visitor."""

    def accepted_position(
        self, session: Session, texts: Sequence[str], draw: np.random.Generator
    ) -> int | None:
        """Return the position of the accepted suggestion, or None."""
        for position, text in enumerate(texts[: len(self.examination)]):
            looked = draw.random() < self.examination[position]
            if looked and draw.random() < self.attraction(session, text):
                return position
        return None

    def visits(self, number: int, draw: np.random.Generator, first: int = 0) -> Iterator["Visit"]:
        """Yield the visits of `number` visitors, day by day."""
        for visitor in range(first, first + number):
            day, within = divmod(visitor, VISITORS_PER_DAY)
            for turn in range(self.lists):
                time = START + timedelta(days=day, seconds=20 * within, milliseconds=turn)
                session = self.sessions[int(draw.integers(len(self.sessions)))]
                yield Visit(f"visitor-{visitor}", f"list-{visitor}-{turn}", time, session)

    def events(
        self, visit: "Visit", served: ServedList, draw: np.random.Generator
    ) -> Iterator[FeedbackEvent]:
        """Yield the events that a visitor's browser sends for a list."""
        common = visit.list_id, visit.visitor, visit.time, visit.session[-1]
        texts = tuple(suggestion.text for suggestion in served.suggestions)
        yield ShownList(*common, suggestions=texts)
        position = self.accepted_position(visit.session, texts, draw)
        if position is not None:
            yield TakenSuggestion(*common, suggestion=texts[position], position=position + 1)
        elif draw.random() < self.dismissing:
            yield DismissedList(*common)


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
        fields = visit.list_id, visit.visitor, visit.time, visit.session[-1]
        common = ServedList(*fields, context=visit.session[:-1])
        arms = tuple(Arm(name, self.versions.get(name, "1")) for name in names)
        if self.kind == "interleave":
            both = [self.models[name](visit.session) for name in names]
            key = "\0".join((visit.visitor, *visit.session))
            drafted = team_draft(both[0], both[1], len(both[0]), key)
            suggestions = tuple(_listed(pick.suggestion, names[pick.team]) for pick in drafted)
            trial = Trial("interleave", arms)
            return replace(common, model="+".join(names), suggestions=suggestions, trial=trial)
        name, trial_of = names[0], None
        if self.kind == "split":
            shares = [Share(arm, 1) for arm in names]
            name = split_arm(shares, visit.visitor)
            trial_of = Trial("split", arms, name)
        suggestions = tuple(
            _listed(suggestion, name) for suggestion in self.models[name](visit.session)
        )
        return replace(common, model=name, suggestions=suggestions, trial=trial_of)


def simulate(
    visitors: SimulatedVisitors,
    service: SimulatedService,
    number: int,
    draw: np.random.Generator,
    first: int = 0,
) -> Iterator[FeedbackEvent]:
    """Yield all events of `number` visitors, numbered from `first`."""
    for visit in visitors.visits(number, draw, first):
        served = service.serve(visit)
        yield served
        yield from visitors.events(visit, served, draw)


def _listed(suggestion: Suggestion, model: str) -> ListedSuggestion:
    source = source_of(suggestion.source)
    return ListedSuggestion(suggestion.text, source, model, suggestion.score)
