"""Rescoring (section 3.4): the likelihood of given candidates after given contexts.

All candidates of all contexts go through the decoder together, and a beginning that several
candidates of a context share goes through it once: the beginnings are the nodes of a tree, walked
level by level. Knows the decoder; knows nothing of search.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nextquery.inference.contexts import ContextState
from nextquery.inference.giving_up import go_on
from nextquery.inference.network.batch import ContextBatch
from nextquery.inference.network.prediction import Decoder, Prefixes
from nextquery.inference.session_vocabulary import SessionVocabulary
from nextquery.inference.settings import MOST_LOGITS
from nextquery.normalise import normalise_query
from nextquery.records import ScoredQuery
from nextquery.text.vocabulary import END_OF_QUERY, UNKNOWN, Vocabulary

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

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

    def _walk(self, batch: ContextBatch, contexts: Integers, words: Integers) -> Floats:
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

    def _log_probabilities(self, batch: ContextBatch, prefixes: Prefixes, step: "Step") -> Floats:
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
