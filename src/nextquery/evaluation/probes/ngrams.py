"""Kneser-Ney n-gram models of queries and their perplexities on HRED's validation sessions."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from nextquery.artifacts import temporary_folder
from nextquery.logs.data_folder import PreparedData
from nextquery.model.settings import TrainConfig
from nextquery.ranking.scoring import Track
from nextquery.text.corpus import EncodedSessions, SessionLimits, encode_sessions
from nextquery.text.vocabulary import PADDING, UNKNOWN, Vocabulary
from nextquery.training.trainer import Perplexity

Gram = tuple[int, ...]


class KneserNey:
    """An n-gram model fitted to the queries of encoded sessions."""

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
        kept = max(self._counts[len(gram)].get(gram, 0) - discount, 0.0)
        return (kept + discount * self._followers[gram[:-1]] * lower) / total

    def measure(self, sessions: EncodedSessions) -> Perplexity:
        """The perplexity of every query of the sessions, as HRED's is measured."""
        logs = np.array([math.log(self.probability(g)) for g in _grams(sessions, self.order)])
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
    once, twice = (_how_many(counts.values(), times) for times in (1, 2))
    return once / (once + 2 * twice) if once and twice else 0.5


def _how_many(counts: Iterable[int], times: int) -> int:
    return sum(1 for count in counts if count == times)


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
        return tuple(
            _measured(ORDERS[index], background, validation) for index in track(range(len(ORDERS)))
        )


def _measured(
    order: int, background: EncodedSessions, validation: EncodedSessions
) -> NgramPerplexity:
    measured = KneserNey(background, order).measure(validation)
    return NgramPerplexity(
        order,
        len(background),
        len(validation),
        measured.symbols,
        measured.perplexity,
        measured.known_perplexity,
    )


def _encoded(
    data: PreparedData, split: str, most: int, vocabulary: Vocabulary, folder: Path
) -> EncodedSessions:
    limits = TrainConfig().max_queries, TrainConfig().max_words
    sessions = islice(data.sessions(split), most)
    return encode_sessions(sessions, vocabulary, SessionLimits(*limits), folder / split)
