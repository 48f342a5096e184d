"""How likely models find queries: n-gram perplexities, and the hidden intent of a synthetic log.

In a synthetic log (docs/explanation/synthetic-log.md) the outcome after an entity depends on an
intent that only earlier queries tell. Each outcome that a session has after such a trace is scored
among the 16 outcomes of its domain on the same entity. A model that sees no intent cannot do better
than how often each outcome comes; one that does comes near the choice among the intent's own four.
Another log has nothing to measure.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from pathlib import Path

import numpy as np

from nextquery.artifacts import temporary_folder
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.synthetic.queries import ENTITIES, INTENTS, OUTCOMES, SIGNALS, load_lexicon
from nextquery.model.settings import TrainConfig
from nextquery.ranking.cases import CaseSet, RankingCase
from nextquery.ranking.scoring import Track, log_likelihoods
from nextquery.records import Session
from nextquery.suggesters.base import Scorer
from nextquery.text.corpus import EncodedSessions, SessionLimits, encode_sessions
from nextquery.text.vocabulary import PADDING, UNKNOWN, Vocabulary
from nextquery.training.trainer import Perplexity

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


def intent_cases(sessions: Iterable[Session], most: int) -> list[tuple[RankingCase, int]]:
    """Up to `most` outcomes after a trace of the same domain, and how far back that is."""
    return list(islice(chain.from_iterable(map(_of_session, sessions)), most))


def intent_result(
    scorer: Scorer, sessions: Sequence[Session], *, most: int = 2000, track: Track = iter
) -> IntentResult | None:
    """How well a system tells the true outcomes of `sessions`; None if there are hardly any."""
    drawn = intent_cases(sessions, most)
    if len(drawn) < FEWEST:
        return None
    cases = CaseSet(case for case, _ in drawn)
    scores = log_likelihoods(scorer, cases, track=track).reshape(-1, INTENTS * OUTCOMES)
    shares = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    targets = np.array([case.target for case in cases])
    nats = -shares[np.arange(len(shares)), targets]
    by_intent = np.exp(shares).reshape(len(shares), INTENTS, OUTCOMES).sum(axis=2)
    intent = by_intent[np.arange(len(shares)), targets // OUTCOMES]
    far = np.minimum([distance for _, distance in drawn], FARTHEST)
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
    last: tuple[int, int] | None = None  # position and domain of the last trace
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


Gram = tuple[int, ...]


class KneserNey:
    """A Kneser-Ney n-gram model fitted to the queries of encoded sessions."""

    def __init__(self, sessions: EncodedSessions, order: int = 3) -> None:
        self.order = order
        self._symbols = sessions.vocabulary_size - 1  # padding is never predicted
        counts: dict[int, Counter[Gram]] = {order: Counter(_grams(sessions, order))}
        for lower in range(order - 1, 0, -1):
            counts[lower] = Counter(gram[1:] for gram in counts[lower + 1])
        self._counts = counts
        self._totals: dict[Gram, int] = defaultdict(int)
        self._followers: dict[Gram, int] = defaultdict(int)
        for grams in counts.values():
            for gram, count in grams.items():
                self._totals[gram[:-1]] += count
                self._followers[gram[:-1]] += 1
        self._discounts = {length: _discount(grams) for length, grams in counts.items()}

    def probability(self, gram: Gram) -> float:
        """The probability of the gram's last word after the words before it."""
        if not gram:
            return 1.0 / self._symbols
        lower = self.probability(gram[1:])
        total = self._totals.get(gram[:-1], 0)
        if not total:
            return lower
        discount = self._discounts[len(gram)]
        discounted = max(self._counts[len(gram)].get(gram, 0) - discount, 0.0)
        return (discounted + discount * self._followers[gram[:-1]] * lower) / total

    def measure(self, sessions: EncodedSessions) -> Perplexity:
        """The perplexity of every query of the sessions, as HRED's is measured."""
        probability = cache(self.probability)  # most words come in few sequences
        logs = np.array([math.log(probability(gram)) for gram in _grams(sessions, self.order)])
        known = np.concatenate(list(_queries(sessions))) < sessions.vocabulary_size
        return Perplexity(float(logs.sum()), len(logs), float(logs[known].sum()), int(known.sum()))


def _queries(sessions: EncodedSessions) -> Iterator[np.ndarray]:
    for start, end in zip(sessions.session_starts, sessions.session_ends, strict=True):
        for query in range(start, end):
            yield sessions.words[sessions.query_starts[query] : sessions.query_starts[query + 1]]


def _grams(sessions: EncodedSessions, order: int) -> Iterator[Gram]:
    """Every word with the `order - 1` symbols before it; a query begins after padding."""
    for query in _queries(sessions):
        known = np.where(query < sessions.vocabulary_size, query, UNKNOWN).tolist()
        padded = [PADDING] * (order - 1) + known
        yield from zip(*(padded[shift:] for shift in range(order)), strict=False)


def _discount(counts: Counter[Gram]) -> float:
    of_counts = Counter(counts.values())
    once, twice = of_counts[1], of_counts[2]
    return once / (once + 2 * twice) if once and twice else 0.5


ORDERS = (1, 2, 3)
FITTED_SESSIONS = 200_000
"""The counts are held in memory: of a larger background only this many sessions are read."""
MEASURED_SESSIONS = 20_000


@dataclass(frozen=True)
class NgramPerplexity:
    """One Kneser-Ney model: per word, ends of queries included, unknown words as one word."""

    order: int
    fitted_sessions: int
    measured_sessions: int
    symbols: int
    perplexity: float
    known_perplexity: float
    """Of the words of the vocabulary."""


def ngram_perplexities(
    data: PreparedData, vocabulary: Vocabulary, track: Track
) -> tuple[NgramPerplexity, ...]:
    """Unigrams, bigrams and trigrams; none without background or validation sessions."""
    with temporary_folder() as folder:
        background = _encoded(data, "background", FITTED_SESSIONS, vocabulary, folder)
        validation = _encoded(data, "validation", MEASURED_SESSIONS, vocabulary, folder)
        if not len(background) or not len(validation):
            return ()
        results = []
        for index in track(range(len(ORDERS))):
            measured = KneserNey(background, ORDERS[index]).measure(validation)
            results.append(
                NgramPerplexity(
                    ORDERS[index],
                    len(background),
                    len(validation),
                    measured.symbols,
                    measured.perplexity,
                    measured.known_perplexity,
                )
            )
        return tuple(results)


def _encoded(
    data: PreparedData, split: str, most: int, vocabulary: Vocabulary, folder: Path
) -> EncodedSessions:
    limits = TrainConfig().max_queries, TrainConfig().max_words
    sessions = islice(data.sessions(split), most)
    return encode_sessions(sessions, vocabulary, SessionLimits(*limits), folder / split)
