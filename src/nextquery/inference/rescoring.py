"""Rescoring (section 3.4): the likelihood of given candidates, and their usefulness."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InputError
from nextquery.inference.cancellation import go_on
from nextquery.inference.context import ContextState, SessionVocabulary
from nextquery.inference.decoder import ContextBatch, Decoder, Prefixes
from nextquery.inference.network import Network, sigmoid
from nextquery.inference.search import FinishedQuery
from nextquery.inference.settings import MOST_LOGITS
from nextquery.inference.weights import Floats
from nextquery.normalise import normalise_query
from nextquery.records import ScoredQuery
from nextquery.text.vocabulary import END_OF_QUERY, UNKNOWN, Vocabulary

NO_HEAD = (
    "the model has no usefulness head; train one with `train.usefulness_weight` above 0, "
    "on a log with clicks"
)
_LEAST = 1e-6
"""A probability below this counts as this: its logarithm must stay finite."""


class UsefulnessHead:
    """The second head of a network, if it has one."""

    def __init__(self, model: Network) -> None:
        self._model = model

    @property
    def exists(self) -> bool:
        """Whether the model was trained with one."""
        return self._model.config.usefulness

    def require(self) -> None:
        """Refuse a model without one."""
        if not self.exists:
            raise InputError(NO_HEAD)

    def probabilities(
        self, contexts: Sequence[ContextState], texts: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """P(useful | q, session) of each context's queries, in the given order."""
        self.require()
        counts = [len(each) for each in texts]
        if not sum(counts):
            return [[] for _ in contexts]
        vocabulary = self._model.vocabulary
        ids = [vocabulary.encode(normalise_query(text))[:-1] for some in texts for text in some]
        states = np.stack([context.session_state for context in contexts])
        found = self._judge(self._last_states(np.repeat(states, counts, axis=0), ids))
        ends = np.cumsum([0, *counts])
        return [found[a:b].tolist() for a, b in pairwise(ends)]

    def _last_states(self, session_states: Floats, queries: Sequence[Sequence[int]]) -> Floats:
        """`d_N` (queries, d_h): each query's words read by the decoder, longest queries first."""
        lengths = np.array([len(query) for query in queries], dtype=np.int64)
        order = np.argsort(-lengths, kind="stable")
        words = np.zeros((len(queries), int(lengths.max(initial=0))), dtype=np.int64)
        for row, place in enumerate(order.tolist()):
            words[row, : lengths[place]] = queries[place]
        ordered = session_states[order]
        inputs = self._model.session_inputs(ordered)
        states = self._model.start_decoder(ordered, inputs)
        for step in range(words.shape[1]):
            going = np.arange(int((lengths > step).sum()))
            states[going] = self._model.advance_decoder(
                states[going], words[going, step], inputs.take(going)
            )
        last = np.empty_like(states)
        last[order] = states
        return last

    def _judge(self, states: Floats) -> NDArray[np.float32]:
        weights = self._model.weights
        odds = states @ weights["usefulness.weight"][0] + weights["usefulness.bias"]
        return np.maximum(sigmoid(odds), np.float32(_LEAST))

    def rank(
        self,
        contexts: Sequence[ContextState],
        lists: Sequence[Sequence[FinishedQuery]],
        weight: float,
        length_normalised: bool,
    ) -> list[list[FinishedQuery]]:
        """The lists ordered by their value plus `weight` times log P(useful), ties by text."""
        found = self.probabilities(contexts, [[each.text for each in some] for some in lists])
        return [
            rank_by_use(some, useful, weight, length_normalised)
            for some, useful in zip(lists, found, strict=True)
        ]


def rank_by_use(
    found: Sequence[FinishedQuery],
    usefulness: Sequence[float],
    weight: float,
    length_normalised: bool,
) -> list[FinishedQuery]:
    """The queries by their value plus `weight` times log P(useful), highest first, ties by text."""
    weighed = [
        replace(each, usefulness=useful, bonus=each.bonus + weight * math.log(useful))
        for each, useful in zip(found, usefulness, strict=True)
    ]
    return sorted(weighed, key=lambda each: (-each.value(length_normalised), each.text))


Integers = NDArray[np.int64]
Doubles = NDArray[np.float64]

NO_WORD = -1


@dataclass(frozen=True)
class Reading:
    """A candidate as the model reads it."""

    ids: tuple[int, ...]
    """Words and the end of the query."""
    unknown: tuple[str, ...] = ()


class Rescorer:
    """Scores candidates with a trained model."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def score_many(
        self, contexts: Sequence[ContextState], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """The log-likelihood of each context's candidates, in the given order."""
        if not any(candidates):
            return [[] for _ in contexts]
        batch = ContextBatch(self._decoder.model, contexts)
        reader = Reader(self._decoder.model.vocabulary)
        readings = [
            [reader.read(text, own) for text in texts]
            for own, texts in zip(batch.own, candidates, strict=True)
        ]
        scores = iter(self._walk(batch, *_flat(readings)).tolist())
        return [
            [
                ScoredQuery(text, next(scores), len(reading.ids), reading.unknown)
                for text, reading in zip(texts, row, strict=True)
            ]
            for texts, row in zip(candidates, readings, strict=True)
        ]

    def _walk(self, batch: ContextBatch, contexts: Integers, words: Integers) -> Doubles:
        """The log-likelihood of candidates (candidates,) from their words, `NO_WORD` behind them.

        `nodes` are the places of the candidates' beginnings on the present level.
        """
        scores = np.zeros(len(words))
        present, nodes = np.unique(contexts, return_inverse=True)
        prefixes = self._decoder.start(batch).take(present)
        before = np.zeros(len(present))
        going = np.arange(len(words))
        for level in range(words.shape[1]):
            step = Step.make(nodes, words[going, level])
            totals = before[step.parents] + self._log_probabilities(batch, prefixes, step)
            ended = step.words == END_OF_QUERY
            over = ended[step.taken]
            scores[going[over]] = totals[step.taken[over]]
            if over.all():
                break
            numbers = np.cumsum(~ended) - 1
            going, nodes = going[~over], numbers[step.taken[~over]]
            before = totals[~ended]
            prefixes = self._decoder.advance(
                batch, prefixes, step.parents[~ended], step.words[~ended]
            )
        return scores

    def _log_probabilities(self, batch: ContextBatch, prefixes: Prefixes, step: "Step") -> Doubles:
        """The log-probability of every word of a step."""
        found = np.empty(len(step.words))
        rows = max(1, MOST_LOGITS // len(self._decoder.model.vocabulary))
        number = len(prefixes)
        for start in range(0, number, rows):
            go_on()
            stop = min(start + rows, number)
            some = slice(*np.searchsorted(step.parents, [start, stop]))
            places = step.parents[some] - start, step.columns[some]
            wanted = np.zeros((stop - start, int(places[1].max()) + 1), dtype=np.int64)
            wanted[places] = step.words[some]
            prediction = self._decoder.predict(batch, prefixes.take(slice(start, stop)))
            found[some] = prediction.of(wanted)[places]
        return found


@dataclass(frozen=True)
class Step:
    """From the beginnings of one level to those that are a word longer, each once."""

    parents: Integers
    """(longer,): the beginning without its last word, ascending."""
    words: Integers
    """(longer,): the last word."""
    columns: Integers
    """(longer,): a number among those of the same parent."""
    taken: Integers
    """(candidates,): which of these each candidate that is going on begins with."""

    @classmethod
    def make(cls, nodes: Integers, words: Integers) -> "Step":
        """The step of candidates that stand at `nodes` and go on with `words`."""
        width = int(words.max()) + 1
        steps, taken = np.unique(nodes * width + words, return_inverse=True)
        parents = steps // width
        columns = np.arange(len(steps)) - np.searchsorted(parents, parents)
        return cls(parents, steps % width, columns, taken)


class Reader:
    """Candidates as word ids; a text that several contexts share is read once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._known: dict[str, Reading] = {}

    def read(self, text: str, own: SessionVocabulary) -> Reading:
        """A candidate after a context that has words of its own."""
        if text not in self._known:
            words = normalise_query(text).split()
            ids = tuple(map(self._vocabulary.id, words))
            unknown = (word for word, one in zip(words, ids, strict=True) if one == UNKNOWN)
            self._known[text] = Reading((*ids, END_OF_QUERY), tuple(dict.fromkeys(unknown)))
        found = self._known[text]
        if not found.unknown or not own.outside:
            return found
        ids = tuple(map(own.id, normalise_query(text).split()))
        unknown = (word for word in found.unknown if own.id(word) == UNKNOWN)
        return Reading((*ids, END_OF_QUERY), tuple(unknown))


def _flat(readings: Sequence[Sequence[Reading]]) -> tuple[Integers, Integers]:
    """The context of each candidate, and its words filled up to the longest."""
    flat = [reading.ids for row in readings for reading in row]
    words = np.full((len(flat), max(map(len, flat))), NO_WORD, dtype=np.int64)
    for row, ids in zip(words, flat, strict=True):
        row[: len(ids)] = ids
    return np.repeat(np.arange(len(readings)), list(map(len, readings))), words
