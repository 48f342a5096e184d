"""Which words a sampled softmax sums over, and with what weight. Knows only word frequencies.

The normaliser of Eq. 9 is a sum over V. Here the most frequent words and the targets of the batch
are summed exactly; the rest is estimated without bias by importance sampling: words are drawn by
frequency, those already counted are set aside, and each of the n others stands for
`(1 - q(counted)) / (n q(word))` words like it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nextquery.text.vocabulary import PADDING


@dataclass(frozen=True)
class Candidates:
    """The words that one step sums over."""

    words: NDArray[np.int64]
    """(candidates,): word ids, ascending."""
    correction: NDArray[np.float32]
    """(candidates,): the log of each word's weight; 0 for those counted exactly."""

    def index(self, targets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each target stands among the candidates; all targets are candidates."""
        return np.searchsorted(self.words, targets)


class CandidateSampler:
    """Draws candidates by word frequency."""

    def __init__(self, counts: NDArray[np.int64], head_words: int, sampled_words: int) -> None:
        weights = np.maximum(counts, 1).astype(np.float64) ** 0.75
        weights[PADDING] = 0.0
        self.frequency = weights / weights.sum()
        self._cumulative = np.cumsum(self.frequency)
        self._sampled_words = sampled_words
        self._head = np.argsort(-counts, kind="stable")[:head_words]
        self._head = self._head[self._head != PADDING]

    def draw(self, targets: NDArray[np.int64], rng: np.random.Generator) -> Candidates:
        """The candidates for a batch with these targets."""
        counted = np.union1d(self._head, targets)
        # Scaling by the last sum keeps a draw of almost 1 inside the vocabulary.
        places = rng.random(self._sampled_words) * self._cumulative[-1]
        drawn, times = np.unique(np.searchsorted(self._cumulative, places), return_counts=True)
        fresh = ~np.isin(drawn, counted, assume_unique=True)
        drawn, times = drawn[fresh], times[fresh]
        rest = 1.0 - self.frequency[counted].sum()
        weight = times * rest / (max(times.sum(), 1) * self.frequency[drawn])
        words = np.concatenate([counted, drawn])
        correction = np.concatenate([np.zeros(len(counted)), np.log(weight)])
        order = np.argsort(words)
        return Candidates(words[order], correction[order].astype(np.float32))
