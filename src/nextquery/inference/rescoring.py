"""Rescoring (section 3.4): the likelihood of given candidates, and ranking by usefulness."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.inference.context import ContextBatch, ContextState, SessionVocabulary
from nextquery.inference.decoder import Decoder, raise_if_cancelled
from nextquery.inference.search import FinishedQuery
from nextquery.inference.settings import MOST_LOGITS
from nextquery.normalise import normalise_query
from nextquery.records import ScoredQuery
from nextquery.text.vocabulary import END_OF_QUERY, UNKNOWN, Vocabulary

NO_HEAD = (
    "the model has no usefulness head; train one with `train.usefulness_weight` above 0, "
    "on a log with clicks"
)


def rank_by_use(
    queries: Sequence[FinishedQuery],
    usefulness: Sequence[float],
    weight: float,
    length_normalised: bool,
) -> list[FinishedQuery]:
    """The queries by their value plus `weight` times log P(useful), highest first, ties by text."""
    weighed = [
        replace(query, usefulness=useful, bonus=query.bonus + weight * math.log(useful))
        for query, useful in zip(queries, usefulness, strict=True)
    ]
    return sorted(weighed, key=lambda query: (-query.value(length_normalised), query.text))


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
    """Scores candidates with a decoder."""

    def __init__(self, decoder: Decoder[Any]) -> None:
        self._decoder = decoder

    def score_many(
        self, contexts: Sequence[ContextState[Any]], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """The log-likelihood of each context's candidates, in the given order."""
        if not any(candidates):
            return [[] for _ in contexts]
        vocabulary, known = self._decoder.vocabulary, dict[str, Reading]()
        batch = ContextBatch(vocabulary, contexts)
        readings = [
            [_reading(text, vocabulary, session, known) for text in texts]
            for session, texts in zip(batch.vocabularies, candidates, strict=True)
        ]
        scores = iter(self._log_likelihoods(batch, *_flat(readings)).tolist())
        return [
            [
                ScoredQuery(text, next(scores), len(reading.ids), reading.unknown)
                for text, reading in zip(texts, row, strict=True)
            ]
            for texts, row in zip(candidates, readings, strict=True)
        ]

    def _log_likelihoods(
        self, batch: ContextBatch[Any], contexts: Integers, words: Integers
    ) -> Doubles:
        """The log-likelihood of candidates (candidates,) from their words, padded with `NO_WORD`.

        The candidates form a trie, and each node is predicted once: `nodes` are the rows of the
        candidates' beginnings in the decoder's state.
        """
        scores = np.zeros(len(words))
        distinct_contexts, nodes = np.unique(contexts, return_inverse=True)
        state = self._decoder.select(self._decoder.start(batch), distinct_contexts)
        before = np.zeros(len(distinct_contexts))
        active = np.arange(len(words))  # candidates that have not ended
        for level in range(words.shape[1]):
            step = Step.make(nodes, words[active, level])
            totals = before[step.parents] + self._log_probabilities(state, len(before), step)
            ended = step.words == END_OF_QUERY
            over = ended[step.taken]
            scores[active[over]] = totals[step.taken[over]]
            if over.all():
                break
            rows = np.cumsum(~ended) - 1
            active, nodes = active[~over], rows[step.taken[~over]]
            before = totals[~ended]
            state = self._decoder.advance(state, step.parents[~ended], step.words[~ended])
        return scores

    def _log_probabilities(self, state: Any, rows: int, step: "Step") -> Doubles:
        """The log-probability of every word of a step from a state of `rows` rows."""
        result = np.empty(len(step.words))
        most = max(1, MOST_LOGITS // len(self._decoder.vocabulary))
        for start in range(0, rows, most):
            raise_if_cancelled()
            stop = min(start + most, rows)
            part = slice(*np.searchsorted(step.parents, [start, stop]))
            cells = step.parents[part] - start, step.columns[part]
            words_to_score = np.zeros((stop - start, int(cells[1].max()) + 1), dtype=np.int64)
            words_to_score[cells] = step.words[part]
            some = state if most >= rows else self._decoder.select(state, slice(start, stop))
            result[part] = self._decoder.predict(some).of(words_to_score)[cells]
        return result


@dataclass(frozen=True)
class Step:
    """From the nodes of one level of the trie to their children, each once."""

    parents: Integers
    """(children,): the node without its last word, ascending."""
    words: Integers
    """(children,): the last word."""
    columns: Integers
    """(children,): the number of the child among those of its parent."""
    taken: Integers
    """(candidates,): the child that each active candidate begins with."""

    @classmethod
    def make(cls, nodes: Integers, words: Integers) -> "Step":
        """The step of candidates that are at `nodes` and continue with `words`."""
        width = int(words.max()) + 1
        steps, taken = np.unique(nodes * width + words, return_inverse=True)
        parents = steps // width
        columns = np.arange(len(steps)) - np.searchsorted(parents, parents)
        return cls(parents, steps % width, columns, taken)


def _reading(
    text: str, vocabulary: Vocabulary, session: SessionVocabulary, known: dict[str, Reading]
) -> Reading:
    """A candidate in a session; `known` are readings outside of any session, each made once."""
    reading = known.get(text)
    if reading is None:
        words = normalise_query(text).split()
        ids = [vocabulary.id(word) for word in words]
        pairs = zip(words, ids, strict=True)
        unknown = dict.fromkeys(word for word, id_ in pairs if id_ == UNKNOWN)
        reading = known[text] = Reading((*ids, END_OF_QUERY), tuple(unknown))
    if not reading.unknown or not session.outside:
        return reading
    ids = [session.id(word) for word in normalise_query(text).split()]
    left = tuple(word for word in reading.unknown if session.id(word) == UNKNOWN)
    return Reading((*ids, END_OF_QUERY), left)


def _flat(readings: Sequence[Sequence[Reading]]) -> tuple[Integers, Integers]:
    """The context of each candidate, and its words, padded to the longest."""
    flat = [reading.ids for row in readings for reading in row]
    lengths = np.array([len(ids) for ids in flat])
    words = np.full((len(flat), int(lengths.max())), NO_WORD, dtype=np.int64)
    words[np.arange(words.shape[1]) < lengths[:, None]] = list(chain.from_iterable(flat))
    return np.repeat(np.arange(len(readings)), list(map(len, readings))), words
