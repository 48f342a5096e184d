"""Noisy queries: frequent ones that say nothing of what the user looks for (the paper's 4.5).

Knows the background's most frequent queries; inserts one into a context, drawn by frequency, at a
random place. The draw depends on the session and the seed only.
"""

from typing import NamedTuple

import numpy as np

from nextquery.ranking.candidates import BackgroundCounts

NOISY_QUERIES = 100
"""The paper labels the 100 most frequent queries of the background as noisy."""


class NoisyContext(NamedTuple):
    """A context with a noisy query in it, and where."""

    queries: tuple[str, ...]
    place: int


class Noise:
    """The noisy queries of a log."""

    def __init__(self, background: BackgroundCounts, seed: int) -> None:
        frequent = background.most_frequent(NOISY_QUERIES)
        self.queries = [text for text, _ in frequent]
        counts = np.array([count for _, count in frequent], dtype=np.float64)
        self._shares = counts / counts.sum()
        self._seed = seed

    def insert(self, context: tuple[str, ...], session: int) -> NoisyContext:
        """Put a noisy query somewhere: before, between or behind the queries of a context."""
        generator = np.random.default_rng([self._seed, session])
        place = int(generator.integers(0, len(context) + 1))
        query = self.queries[int(generator.choice(len(self.queries), p=self._shares))]
        return NoisyContext((*context[:place], query, *context[place:]), place)

    def within(self, context: tuple[str, ...]) -> bool:
        """Whether a context holds a noisy query."""
        return not set(self.queries).isdisjoint(context)
