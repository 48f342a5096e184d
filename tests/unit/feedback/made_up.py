"""Sessions, models and visitors of which everything is known."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tests.simulated_visitors import (
    Lister,
    Session,
    SimulatedService,
    SimulatedVisitors,
    simulate,
)

from nextquery import load
from nextquery.feedback.impressions import Feedback, join_events
from nextquery.feedback.rerank_training import (
    Gain,
    RerankResult,
    TrainedReranker,
    publish_reranker,
)
from nextquery.feedback.reranker import FEATURES, TakenRates
from nextquery.feedback.settings import Bounds
from nextquery.inference.trees import Trees
from nextquery.records import Suggestion

QUERIES = 40
CANDIDATES = 8
SESSIONS: list[Session] = [(f"query {number}",) for number in range(QUERIES)]
_DRAWN = np.random.default_rng(5).beta(0.6, 4.0, (QUERIES, CANDIDATES))


def attraction(session: Session, text: str) -> float:
    """How much a suggestion attracts after the last query."""
    query, candidate = int(session[-1].split()[1]), int(text.split()[-1])
    return float(_DRAWN[query, candidate])


VISITORS = SimulatedVisitors(SESSIONS, attraction)


def ranked(noise: float, seed: int = 1, n: int = 5) -> Lister:
    """A model that orders by what attracts, the more wrongly the larger the noise."""
    errors = np.random.default_rng(seed).normal(0, noise, (QUERIES, CANDIDATES)) if noise else 0.0
    scores = _DRAWN + errors
    lists = {
        session: [
            Suggestion(f"{session[-1]} to {position}", float(scores[query, position]), "synthetic")
            for position in np.argsort(-scores[query])[:n]
        ]
        for query, session in enumerate(SESSIONS)
    }
    return lists.__getitem__


def acceptance(lister: Lister) -> float:
    """The true acceptance of a model, by arithmetic."""
    total = 0.0
    for session in SESSIONS:
        none = 1.0
        for position, suggestion in enumerate(lister(session)):
            none *= 1 - VISITORS.examination[position] * attraction(session, suggestion.text)
        total += 1 - none
    return total / len(SESSIONS)


def run(models: dict[str, Lister], kind: str, visitors: int, seed: int, first: int = 0) -> Feedback:
    """The feedback of N visitors."""
    service = SimulatedService(models, kind)
    events = simulate(VISITORS, service, visitors, np.random.default_rng(seed), first)
    return join_events(events, Bounds(per_origin=0))


def days(feedback: Feedback) -> Sequence[str]:
    """The days of feedback, in order."""
    return sorted({item.day for item in feedback.impressions})


def publish_shortest_first(base: Path, target: Path, characters: float = 5.0) -> None:
    """A re-ranker that puts texts of few characters first."""
    one = np.zeros(1, dtype=np.int64)
    feature = np.array([FEATURES.index("characters")])
    trees = Trees(one, feature, np.array([characters]), one - 1, one - 2, np.array([1.0, 0.0]))
    rates = TakenRates(np.zeros(0, np.uint64), np.zeros(0), np.zeros(0), 0.1)
    gain = Gain(0.5, 0.6, 0.1, 0.05, 0.15, cases=100)
    result = RerankResult(1000, 100, gain, trees=1, importances={})
    publish_reranker(base, target, TrainedReranker(trees, rates, result))


def chance_sessions() -> list[tuple[str, tuple[str, str]]]:
    """A log whose followers are by chance: a model of it is independent of what attracts."""
    counts = np.random.default_rng(11).integers(1, 9, (QUERIES, CANDIDATES))
    return [
        (f"user {number}", (f"query {query}", f"query {query} to {candidate}"))
        for (query, candidate), count in np.ndenumerate(counts)
        for number in range(count)
    ]


def lister(folder: Path) -> Lister:
    """The first five of a model in a folder, each session asked once."""
    model = load(folder)
    lists: dict[Session, list[Suggestion]] = {}

    def listed(session: Session) -> list[Suggestion]:
        if session not in lists:
            lists[session] = model.suggest(session, 5)
        return lists[session]

    return listed
