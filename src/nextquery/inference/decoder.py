"""The decoder interface, and the decoder in NumPy."""

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from nextquery.inference.context import ContextState, CopyTable, SessionVocabulary
from nextquery.inference.network import Ids, Network
from nextquery.inference.rules import ContextRules, LivePrefixes, Totals
from nextquery.inference.settings import DecodeConfig
from nextquery.inference.weights import AGES, Floats
from nextquery.text.vocabulary import END_OF_QUERY, PADDING, UNKNOWN


@dataclass(frozen=True, eq=False)
class CopySources:
    """The words of all contexts that can be copied; end-of-query symbols are left out."""

    first: Ids
    """(contexts + 1,): where the sources of each context begin."""
    states: Floats
    """(sources, d_h): `h_j`."""
    keys: Floats
    """(sources, d_h): `A_k h_j / sqrt(d_h)`."""
    age_scores: Floats
    """(sources,): `r_age(j)`."""
    places: Ids
    """(sources,): the place of each among the own words of its context."""
    own: CopyTable
    """The distinct words of each context."""

    @classmethod
    def of(
        cls, model: Network, contexts: Sequence[ContextState], own: Sequence[SessionVocabulary]
    ) -> "CopySources | None":
        """Those of some contexts; None if there is nothing to copy."""
        counts = [len(context.copied_words) for context in contexts]
        if not model.config.copying or not any(counts):
            return None
        width = len(model.vocabulary) + max(len(each.outside) for each in own)
        states = np.concatenate([part for each in contexts for part in each.copied_states])
        ages = np.concatenate(
            [len(each.queries) - np.array(each.copied_from, dtype=np.int64) for each in contexts]
        )
        places = [_places(each, words) for each, words in zip(contexts, own, strict=True)]
        scale = np.float32(model.config.query_size**-0.5)
        return cls(
            first=np.cumsum([0, *counts]),
            states=states,
            keys=model.products.times("copying.key.weight", states) * scale,
            age_scores=model.weights["copying.age"][np.clip(ages - 1, 0, AGES - 1)],
            places=np.array([place for some in places for place in some], dtype=np.int64),
            own=CopyTable.of([each.distinct for each in own], width),
        )


def _places(context: ContextState, own: SessionVocabulary) -> list[int]:
    place = {word: n for n, word in enumerate(own.distinct)}
    return [place[own.id(word)] for word in context.copied_words]


class ContextBatch:
    """Contexts that are decoded together."""

    def __init__(
        self, model: Network, contexts: Sequence[ContextState], given: Sequence[str] = ()
    ) -> None:
        """`given` are words of a half-typed query, which the vocabulary may lack."""
        self.contexts = contexts
        self.own = [
            SessionVocabulary(model.vocabulary, context.copied_words, given) for context in contexts
        ]
        self.session_states = np.stack([context.session_state for context in contexts])
        self.session_inputs = model.session_inputs(self.session_states)
        self.sources = CopySources.of(model, contexts, self.own)
        self.record: ctypes.Structure | None = None
        """The same for the compiled kernels, once they ask."""


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


BLOCK = 64
"""Words per block: the best words are looked for only in blocks that can hold them."""


class ArrayScores:
    """The softmax over the vocabulary (Eq. 9) for some rows of omega."""

    def __init__(self, logits: Floats) -> None:
        """`logits` (rows, whole blocks of words) becomes log-probabilities, in place."""
        highest = logits.max(axis=1, keepdims=True)
        for row in range(len(logits)):  # a second matrix of this size would be the largest array
            logits[row] -= highest[row] + np.log(np.exp(logits[row] - highest[row]).sum())
        self._flat = logits
        self._blocks = logits.reshape(len(logits), -1, BLOCK)
        self._block_best = self._blocks.max(axis=2)

    def best(self, rows: slice, before: Totals, count: int) -> BestWords:
        """The `count` largest entries lie in the `count` blocks of the largest maxima."""
        blocks, block_best = self._blocks[rows], self._block_best[rows] + before[:, None]
        number = min(count, block_best.size)
        chosen = np.argpartition(block_best, -number, axis=None)[-number:]
        row, block = np.divmod(chosen, block_best.shape[1])
        inside = blocks[row, block] + before[row][:, None]  # (blocks, BLOCK)
        places = np.argpartition(inside, -min(count, inside.size), axis=None)[-count:]
        block_place, word = np.divmod(places, BLOCK)
        totals = inside.ravel()[places]
        found = in_order(row[block_place], block[block_place] * BLOCK + word, totals, -np.inf)
        rest = -np.inf if len(found.totals) < count else float(found.totals[-1])
        return BestWords(found.rows, found.words, found.totals, rest)

    def of(self, words: Ids, rows: slice = ALL) -> Floats:
        """The log-probability of given words (rows, words), for some rows or for all."""
        return np.take_along_axis(self._flat[rows], words, axis=1)


class ArrayPrediction(Prediction):
    """The softmax, mixed with the pointer where there is copying."""

    def __init__(self, scores: ArrayScores, rows: int, copies: CopiedShare | None) -> None:
        super().__init__(rows, scores, copies)
        self._scores = scores

    def best(self, rows: slice, before: Totals, count: int) -> BestWords:
        """What the softmax likes best, without the own words, and those with their mixture."""
        copies = self._copies
        if copies is None:
            return self._scores.best(rows, before, count)
        found = self._scores.best(rows, before + copies.log_softmax_share[rows], count)
        contexts = copies.contexts[rows]
        fresh = copies.own.columns(contexts[found.rows], found.words) < 0
        places, words, totals = self._own_words(copies, rows)
        return in_order(
            np.concatenate([found.rows[fresh], places]),
            np.concatenate([found.words[fresh], words]),
            np.concatenate([found.totals[fresh], totals + before[places]]),
            found.rest,
        )

    def _own_words(self, copies: CopiedShare, rows: slice) -> tuple[Ids, Ids, Totals]:
        """The words that can be copied: their rows, ids and log-probabilities."""
        contexts, first = copies.contexts[rows], copies.own.first
        counts = first[contexts + 1] - first[contexts]
        places = np.repeat(np.arange(len(contexts)), counts)
        columns = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        words = copies.own.words[first[contexts][places] + columns]
        grid = np.zeros((len(contexts), int(counts.max(initial=1))), dtype=np.int64)
        grid[places, columns] = words
        mixed = copies.mixed(grid, self._softmax, rows)
        return places, words, mixed[places, columns].astype(np.float64)


def start_prefixes(model: Network, batch: ContextBatch) -> Prefixes:
    """The empty prefix of every context (Eq. 7)."""
    hidden = model.start_decoder(batch.session_states, batch.session_inputs)
    return Prefixes(hidden, None, np.arange(len(batch.contexts)))


class ArrayDecoder:
    """Starts, predicts and advances prefixes with NumPy."""

    def __init__(self, model: Network) -> None:
        self.model = model
        words = len(model.vocabulary)
        self._added = np.full(words + -words % BLOCK, -np.inf, dtype=np.float32)
        self._added[:words] = model.weights.get("output_bias", np.float32(0.0))
        self._added[PADDING] = -np.inf

    def start(self, batch: ContextBatch) -> Prefixes:
        """The empty prefix of every context (Eq. 7)."""
        return start_prefixes(self.model, batch)

    def advance(
        self, batch: ContextBatch, prefixes: Prefixes, parents: Ids, words: Ids
    ) -> Prefixes:
        """Some prefixes with one more word each (Eq. 8); own words are read as the unknown word."""
        model, contexts = self.model, prefixes.contexts[parents]
        read = np.where(words < len(model.vocabulary), words, UNKNOWN)
        session = batch.session_inputs.take(contexts)
        hidden = model.advance_decoder(prefixes.hidden[parents], read, session)
        return Prefixes(hidden, model.previous_words(read), contexts)

    def predict(self, batch: ContextBatch, prefixes: Prefixes) -> Prediction:
        """What may come next (Eq. 9 and 10)."""
        session = batch.session_inputs.take(prefixes.contexts)
        omega = self.model.output_vector(prefixes.hidden, prefixes.previous, session)
        copies = None
        if batch.sources is not None:
            looked, copies = self._attend(batch.sources, prefixes)
            omega = omega + looked
        logits = np.empty((len(omega), len(self._added)), dtype=np.float32)
        logits[:, : len(self.model.vocabulary)] = omega @ self.model.output_matrix.T
        logits[:, len(self.model.vocabulary) :] = 0.0
        logits += self._added
        return ArrayPrediction(ArrayScores(logits), len(omega), copies)

    def steps(self, start: SearchStart, config: DecodeConfig) -> None:
        """There is no quicker way than asking for predictions."""

    def _attend(self, sources: CopySources, prefixes: Prefixes) -> tuple[Floats, CopiedShare]:
        """What attention adds to omega (rows, d_e), and the pointer's side of the mixture."""
        weights, rows = self.model.weights, len(prefixes)
        previous = prefixes.previous
        if previous is None:
            previous = np.zeros((rows, self.model.config.embedding_size), dtype=np.float32)
        here = np.concatenate([prefixes.hidden, previous], axis=1)
        asked = here @ weights["copying.query.weight"].T
        seen = np.zeros_like(prefixes.hidden)
        pointer = np.zeros((sources.own.most, rows), dtype=np.float32)
        for context in np.unique(prefixes.contexts).tolist():
            some = slice(*np.searchsorted(prefixes.contexts, [context, context + 1]))
            part = slice(sources.first[context], sources.first[context + 1])
            if part.start == part.stop:
                continue
            attention = _softmax(asked[some] @ sources.keys[part].T + sources.age_scores[part])
            seen[some] = attention @ sources.states[part]
            np.add.at(pointer[:, some], sources.places[part], attention.T)
        gate = np.concatenate([here, seen], axis=1) @ weights["copying.gate.weight"][0]
        gate += weights["copying.gate.bias"]
        nothing = np.diff(sources.first)[prefixes.contexts] == 0
        gate[nothing] = -np.inf
        share = CopiedShare(
            own=sources.own,
            contexts=prefixes.contexts,
            log_pointer=_log_sigmoid(gate)[:, None] + np.log(np.maximum(pointer.T, LEAST_COPY)),
            log_softmax_share=_log_sigmoid(-gate),
            vocabulary_size=len(self.model.vocabulary),
        )
        return np.asarray(seen @ weights["copying.output.weight"].T), share


def _softmax(scores: Floats) -> Floats:
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _log_sigmoid(values: Floats) -> Floats:
    return np.asarray(-np.logaddexp(np.float32(0.0), -values), dtype=np.float32)
