"""Interpolated Kneser-Ney n-gram models of queries: what HRED's perplexity is held against.

An n-gram model sees the words of one query and nothing of the session. Knows encoded sessions, no
neural model.

    P_n(w | h) = max(c(h w) - D_n, 0) / c(h) + D_n N(h) / c(h) * P_{n-1}(w | h')

`c` counts occurrences at the highest order and different predecessors below it, `N(h)` is the
number of different words after `h`, `h'` is `h` without its first word,
`D_n = n_1 / (n_1 + 2 n_2)` with `n_1`, `n_2` the numbers of n-grams counted once and twice, and
`P_0 = 1 / V`.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from nextquery.text.corpus import EncodedSessions
from nextquery.text.vocabulary import PADDING, UNKNOWN
from nextquery.training.perplexity import Perplexity

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
