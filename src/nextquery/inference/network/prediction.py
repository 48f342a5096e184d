"""What a decoder is asked and what it answers: prefixes, predictions, the best next words.

A word is an id of the vocabulary or, from V on, a word of the context that the vocabulary lacks
(numbered anew for each context). Knows probabilities; knows nothing of which prefixes are kept.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from nextquery.inference.extensions import LivePrefixes, Totals
from nextquery.inference.network.batch import ContextBatch
from nextquery.inference.network.network import Ids, Network
from nextquery.inference.network.weights import Floats
from nextquery.inference.rules import ContextRules
from nextquery.inference.session_vocabulary import CopyTable
from nextquery.inference.settings import DecodeConfig
from nextquery.text.vocabulary import END_OF_QUERY

ALL = slice(None)
"""Every row."""

LEAST_COPY = 1e-30
"""A pointer's share below this counts as this: its logarithm must stay finite."""


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Where the decoder stands: one row per prefix, rows of one context together."""

    hidden: Floats
    """(rows, d_h): `d_{n-1}` of Eq. 8."""
    previous: Floats | None
    """(rows, d_e): `E_o w_{n-1}` of Eq. 10; None before the first word."""
    contexts: Ids
    """(rows,): the context of each row, ascending."""

    def __len__(self) -> int:
        return len(self.contexts)

    def take(self, rows: Ids | slice) -> "Prefixes":
        """Some rows, in the given order."""
        previous = None if self.previous is None else self.previous[rows]
        return Prefixes(self.hidden[rows], previous, self.contexts[rows])


@dataclass(frozen=True, eq=False)
class BestWords:
    """The best extensions of some prefixes, best first, ties by prefix and word."""

    rows: Ids
    """(found,): which prefix, counted from the first of those asked for."""
    words: Ids
    """(found,): which word."""
    totals: Totals
    """(found,): the prefix's log-likelihood and the word's."""
    rest: float
    """No other extension of these prefixes has a higher total."""


class WordScores(Protocol):
    """What the softmax says for some rows."""

    def of(self, words: Ids, rows: slice = ALL) -> Floats:
        """The log-probability of given words (rows, words), for some rows or for all."""
        ...


@dataclass(frozen=True, eq=False)
class CopiedShare:
    """The pointer's side of the mixture, row by row."""

    own: CopyTable
    contexts: Ids
    """(rows,): the context of each row."""
    log_pointer: Floats
    """(rows, own): log(g) + log of the attention on that word."""
    log_softmax_share: Floats
    """(rows,): log(1 - g)."""
    vocabulary_size: int

    def generated(self, words: Ids, softmax: WordScores, rows: slice) -> Floats:
        """The softmax's side of the mixture for given words (rows, words)."""
        inside = words < self.vocabulary_size
        scores = softmax.of(np.where(inside, words, 0), rows) + self.log_softmax_share[rows, None]
        return np.where(inside, scores, np.float32(-np.inf))

    def mixed(self, words: Ids, softmax: WordScores, rows: slice) -> Floats:
        """The mixture for given words (rows, words)."""
        columns = self.own.columns(self.contexts[rows, None], words)
        copied = np.take_along_axis(self.log_pointer[rows], np.maximum(columns, 0), axis=1)
        copied = np.where(columns < 0, np.float32(-np.inf), copied)
        return np.asarray(np.logaddexp(self.generated(words, softmax, rows), copied))


class Prediction(ABC):
    """The next word of every row: the softmax, mixed with the pointer where there is copying."""

    def __init__(self, rows: int, softmax: WordScores, copies: CopiedShare | None) -> None:
        self.rows = rows
        self._softmax = softmax
        self._copies = copies

    @abstractmethod
    def best(self, rows: slice, before: Totals, count: int) -> BestWords:
        """Extensions among which are the `count` best of the prefixes in `rows`, best first."""

    def of(self, words: Ids, rows: slice = ALL) -> Floats:
        """The log-probability of given words (rows, words), for some rows or for all."""
        if self._copies is None:
            return self._softmax.of(words, rows)
        return self._copies.mixed(words, self._softmax, rows)

    @cached_property
    def end(self) -> Floats:
        """The log-probability of the end of the query (rows,)."""
        return self.of(np.full((self.rows, 1), END_OF_QUERY))[:, 0]


def in_order(rows: Ids, words: Ids, totals: Totals, rest: float) -> BestWords:
    """Extensions best first, ties by prefix and word, without the impossible ones."""
    order = np.lexsort((words, rows, -totals))
    order = order[totals[order] > -np.inf]
    return BestWords(rows[order], words[order], totals[order], rest)


class SearchStart(NamedTuple):
    """What a search begins with."""

    batch: ContextBatch
    rules: Sequence[ContextRules]
    prefixes: Prefixes
    live: LivePrefixes
    """A prefix for each row of `prefixes`."""


class Ended(NamedTuple):
    """A query that may end where it stands."""

    context: int
    words: Sequence[int]
    log_likelihood: float


class SearchSteps(Protocol):
    """The steps of one search."""

    def next(self, bounds: Sequence[float]) -> Iterable[Ended] | None:
        """What ends in the next step, None if no prefix is left.

        Prefixes that are no likelier than the bound of their context are given up before it.
        """
        ...


class Decoder(Protocol):
    """Starts, predicts and advances prefixes; it holds nothing of what it was asked before."""

    model: Network

    def start(self, batch: ContextBatch) -> Prefixes:
        """The empty prefix of every context (Eq. 7)."""
        ...

    def advance(
        self, batch: ContextBatch, prefixes: Prefixes, parents: Ids, words: Ids
    ) -> Prefixes:
        """Some prefixes with one more word each (Eq. 8); own words are read as the unknown word."""
        ...

    def predict(self, batch: ContextBatch, prefixes: Prefixes) -> Prediction:
        """What may come next (Eq. 9 and 10)."""
        ...

    def steps(self, start: SearchStart, config: DecodeConfig) -> SearchSteps | None:
        """The steps of a search, where there is a quicker way than asking for predictions."""
        ...
