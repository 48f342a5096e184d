"""What a neural network implements to be searched, rescored, completed and blended.

`NeuralModel` reads sessions and gives decoders; a `Decoder` extends queries word by word. Search,
rescoring, completion, `Predictor` and the suggesters use these two protocols and nothing else. What
a network remembers of a session and the state of a decoder are opaque to them: HRED has recurrent
states (`inference/hred.py`), another network has a key-value cache, the toy network of
`tests/unit/suggesters/test_network_contract.py` has tuples of strings.

`cancel_when` stops decoding when nobody waits for the answer any more.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from nextquery.inference.context import ContextBatch, Floats, Memory, SessionReader
from nextquery.inference.rules import ContextRules, LivePrefixes, Totals
from nextquery.inference.settings import DecodeConfig, Mode
from nextquery.text.vocabulary import END_OF_QUERY, Vocabulary

Ids = NDArray[np.int64]
State = TypeVar("State")
"""The state of a decoder: one row per prefix, rows of one context together, contexts ascending."""

ALL = slice(None)
"""Every row."""


@dataclass(frozen=True, eq=False)
class BestWords:
    """The best extensions of some prefixes, best first, ties by prefix and word."""

    rows: Ids
    """(extensions,): which prefix, counted from the first of those asked for."""
    words: Ids
    """(extensions,): which word."""
    totals: Totals
    """(extensions,): the prefix's log-likelihood plus the word's."""
    rest: float = -np.inf
    """No other extension of these prefixes has a higher total."""

    @classmethod
    def sorted(cls, rows: Ids, words: Ids, totals: Totals, rest: float = -np.inf) -> Self:
        """Extensions in any order, without the impossible ones."""
        order = np.lexsort((words, rows, -totals))
        order = order[totals[order] > -np.inf]
        return cls(rows[order], words[order], totals[order], rest)

    def __getitem__(self, chosen: "slice | NDArray[np.bool_]") -> "BestWords":
        """Some of them."""
        return BestWords(self.rows[chosen], self.words[chosen], self.totals[chosen], self.rest)


class Prediction(ABC):
    """The distribution of the next word of every row.

    Ids below V are words of the vocabulary; ids from V on are the words of the row's
    `SessionVocabulary` that the vocabulary lacks, which have a probability only with copying.
    """

    rows: int

    @abstractmethod
    def of(self, words: Ids, rows: slice = ALL) -> Floats:
        """The log-probability of given words (rows, words), for some rows or for all."""

    @abstractmethod
    def best(self, rows: slice, before: Totals, count: int) -> BestWords:
        """At least the `count` best extensions of the prefixes in `rows`, best first.

        `before` (rows,) are the log-likelihoods of the prefixes.
        """

    def among(self, rows: slice, before: Totals, following: Sequence[Ids]) -> BestWords:
        """The given words after each prefix in `rows`, best first; `following` has a list per row.

        `before` (rows,) are the log-likelihoods of the prefixes.
        """
        counts = np.array([len(words) for words in following])
        row = np.repeat(np.arange(len(following)), counts)
        columns = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        words = np.concatenate(following)
        grid = np.full((len(following), max(1, int(counts.max()))), END_OF_QUERY, dtype=np.int64)
        grid[row, columns] = words
        totals = (self.of(grid, rows) + before[:, None])[row, columns]
        return BestWords.sorted(row, words, totals)

    @cached_property
    def end(self) -> Floats:
        """The log-probability of the end of the query (rows,)."""
        return self.of(np.full((self.rows, 1), END_OF_QUERY))[:, 0]


class SearchStart(NamedTuple):
    """What a search begins with."""

    rules: Sequence[ContextRules]
    """The rules of each context."""
    state: Any
    """The decoder's state: one row per prefix of `live`."""
    live: LivePrefixes


class Ended(NamedTuple):
    """A query that ends."""

    context: int
    words: Sequence[int]
    log_likelihood: float


class SearchSteps(Protocol):
    """The steps of one search."""

    def next(self, bounds: Sequence[float]) -> Iterable[Ended] | None:
        """The queries that end in the next step; None if no prefix is left.

        Prefixes that are no more likely than the bound of their context are dropped before it.
        """
        ...


class Decoder(Protocol[State]):
    """Extends prefixes of queries word by word; threads may share a decoder."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that it predicts."""
        ...

    def start(self, batch: ContextBatch[Any]) -> State:
        """The empty prefix of every context."""
        ...

    def select(self, state: State, rows: Ids | slice) -> State:
        """Some rows of a state; a row may be repeated."""
        ...

    def advance(self, state: State, parents: Ids, words: Ids) -> State:
        """The prefixes in the rows `parents`, each with one more word.

        An id from V on is a word of the session that the vocabulary lacks.
        """
        ...

    def predict(self, state: State) -> Prediction:
        """The distribution of the next word of every row."""
        ...

    def steps(self, start: SearchStart, config: DecodeConfig) -> SearchSteps | None:
        """The steps of a beam search if the decoder has faster ones than `search.ArraySteps`."""
        ...


class UsefulnessHead(Protocol):
    """A part of a network that has learnt from clicks which queries are useful."""

    def probabilities(
        self, memories: Sequence[Any], queries: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """P(useful | query, session) of the queries asked for in each session."""
        ...


class NeuralModel(SessionReader[Memory], Protocol[Memory]):
    """A trained network."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that it predicts."""
        ...

    @property
    def usefulness_head(self) -> UsefulnessHead | None:
        """None if it was trained without one."""
        ...

    def word_vectors(self) -> Floats:
        """The output vectors of all words (V, d_e), in the order of the vocabulary."""
        ...

    def decoder(self, mode: Mode) -> Decoder[Any]:
        """A decoder with an exact or a fast output layer; may take a while."""
        ...


class DecodingCancelledError(Exception):
    """Nobody waits for the answer any more."""


_is_unwanted: ContextVar[Callable[[], bool] | None] = ContextVar("is_unwanted", default=None)


@contextmanager
def cancel_when(is_unwanted: Callable[[], bool]) -> Iterator[None]:
    """In this block, decoding stops before its next step once `is_unwanted` returns true.

    >>> with cancel_when(lambda: False):
    ...     raise_if_cancelled()
    """
    token = _is_unwanted.set(is_unwanted)
    try:
        yield
    finally:
        _is_unwanted.reset(token)


def raise_if_cancelled() -> None:
    """Called before every step: raise if the work is not wanted any more."""
    is_unwanted = _is_unwanted.get()
    if is_unwanted is not None and is_unwanted():
        raise DecodingCancelledError
