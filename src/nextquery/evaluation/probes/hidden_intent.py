"""Whether a model keeps the hidden intent of a synthetic log's sessions, by distance.

In a synthetic log (docs/explanation/synthetic-log.md) the outcome after an entity depends on an
intent that
only earlier queries tell. Each outcome that a session has after such a trace is scored among the 16
outcomes of its domain on the same entity. A model that sees no intent cannot do better than how
often each outcome comes; one that does comes near the choice among the intent's own four.
Another log has nothing to measure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from nextquery.logs.synthetic.queries import ENTITIES, INTENTS, OUTCOMES, SIGNALS, load_lexicon
from nextquery.ranking.cases import CaseSet, Floats, RankingCase
from nextquery.ranking.scoring import Track, log_likelihoods
from nextquery.records import Session
from nextquery.suggesters.base import Scorer

FARTHEST = 5
"""Traces at least this many queries back are reported together."""
FEWEST = 30
"""A log with fewer such outcomes is not a synthetic one."""


@dataclass(frozen=True)
class Trace:
    """What a query of a synthetic log tells of the intent."""

    domain: int
    intent: int
    entity: str
    outcome: bool
    """Whether it is an outcome; a signal otherwise."""


@dataclass(frozen=True)
class AtDistance:
    """Outcomes whose last trace is `distance` queries back; 1: the query before."""

    distance: int
    cases: int
    nats: float
    """Mean negative log-likelihood of the true outcome among its domain's 16; chance: 2.77."""
    intent: float
    """Mean probability of the true outcome's intent among its domain's four; chance: .25."""


@dataclass(frozen=True)
class IntentResult:
    """What the probe found; `by_distance` ascends, its last entry counts all farther ones."""

    cases: int
    nats: float
    intent: float
    by_distance: tuple[AtDistance, ...]


@dataclass(frozen=True)
class IntentCases:
    """Outcomes to be distinguished from the other outcomes of their domain."""

    cases: CaseSet
    distances: tuple[int, ...]


@cache
def traces() -> dict[str, Trace]:
    """What each query with words of an intent tells, by its text; ambiguous texts are left out.

    >>> traces()["paris hostels"].outcome, traces()["backpacking rome"].outcome
    (True, False)
    >>> traces()["paris hostels"].intent == traces()["backpacking rome"].intent
    True
    """
    traces_of_text: dict[str, set[Trace]] = {}
    for domain in range(len(load_lexicon().domains)):
        for entity in _phrases("entities", domain, ENTITIES):
            for index, signal in enumerate(_phrases("signals", domain, INTENTS * SIGNALS)):
                trace = Trace(domain, index // SIGNALS, entity, outcome=False)
                for text in (f"{signal} {entity}", f"{entity} {signal}"):
                    traces_of_text.setdefault(text, set()).add(trace)
            for index, outcome in enumerate(_phrases("outcomes", domain, INTENTS * OUTCOMES)):
                trace = Trace(domain, index // OUTCOMES, entity, outcome=True)
                traces_of_text.setdefault(f"{entity} {outcome}", set()).add(trace)
    return {text: next(iter(kinds)) for text, kinds in traces_of_text.items() if len(kinds) == 1}


def intent_cases(sessions: Iterable[Session], most: int) -> IntentCases:
    """Up to `most` outcomes that come after a trace of the same domain."""
    cases: list[RankingCase] = []
    distances: list[int] = []
    for session in sessions:
        for case, distance in _of_session(session):
            cases.append(case)
            distances.append(distance)
        if len(cases) >= most:
            break
    return IntentCases(CaseSet(tuple(cases[:most])), tuple(distances[:most]))


def intent_result(
    scorer: Scorer, sessions: Sequence[Session], *, most: int = 2000, track: Track = iter
) -> IntentResult | None:
    """How well a system tells the true outcomes of `sessions`; None if there are hardly any."""
    drawn = intent_cases(sessions, most)
    if len(drawn.cases) < FEWEST:
        return None
    shares = _log_shares(log_likelihoods(scorer, drawn.cases, track=track))  # (cases, 16)
    targets = np.array([case.target for case in drawn.cases.cases])
    nats = -shares[np.arange(len(shares)), targets]
    by_intent = np.exp(shares).reshape(len(shares), INTENTS, OUTCOMES).sum(axis=2)
    intent = by_intent[np.arange(len(shares)), targets // OUTCOMES]
    far = np.minimum(drawn.distances, FARTHEST)
    by_distance = tuple(
        AtDistance(
            int(distance),
            int((far == distance).sum()),
            float(nats[far == distance].mean()),
            float(intent[far == distance].mean()),
        )
        for distance in np.unique(far)
    )
    return IntentResult(len(shares), float(nats.mean()), float(intent.mean()), by_distance)


def _of_session(session: Session) -> Iterable[tuple[RankingCase, int]]:
    last: tuple[int, int] | None = None  # place and domain of the last trace
    for position, query in enumerate(session.queries):
        trace = traces().get(query)
        if trace is None:
            continue
        if trace.outcome and last is not None and last[1] == trace.domain:
            yield _case(session, position, trace), position - last[0]
        last = position, trace.domain


def _case(session: Session, position: int, trace: Trace) -> RankingCase:
    """The 16 outcomes of a domain on the same entity, those of an intent together."""
    outcomes = _phrases("outcomes", trace.domain, INTENTS * OUTCOMES)
    candidates = tuple(f"{trace.entity} {outcome}" for outcome in outcomes)
    return RankingCase(
        session=session.id,
        context=session.queries[:position],
        anchor=session.queries[position - 1],
        candidates=candidates,
        target=candidates.index(session.queries[position]),
        length=len(session.queries),
    )


def _phrases(kind: str, domain: int, count: int) -> tuple[str, ...]:
    lexicon = load_lexicon()
    start = lexicon.starts[kind] + domain * count
    return lexicon.phrases[start : start + count]


def _log_shares(scores: Floats) -> Floats:
    """Scores of cases with 16 candidates each, as logarithms of shares (cases, 16)."""
    table = scores.reshape(-1, INTENTS * OUTCOMES)
    shares: Floats = table - np.logaddexp.reduce(table, axis=1, keepdims=True)
    return shares
