"""Rescoring (section 3.4): the likelihood of given candidates after given contexts.

All candidates of all contexts go through the decoder together, and a beginning that several
candidates of a context share goes through it once. Knows the decoder; knows nothing of search.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from nextquery.inference.contexts import ContextState
from nextquery.inference.decoder import ContextBatch, Decoder, Prefixes
from nextquery.inference.memory import MOST_LOGITS
from nextquery.normalise import normalise_query
from nextquery.records import ScoredQuery
from nextquery.text.vocabulary import END_OF_QUERY, UNKNOWN

Node = tuple[int, tuple[int, ...]]
"""A context's place and the words of a prefix."""


@dataclass(frozen=True)
class Reading:
    """A candidate as the model reads it in its context."""

    text: str
    ids: tuple[int, ...]
    """Words and the end of the query."""
    unknown: tuple[str, ...]


class Rescorer:
    """Scores candidates with a trained model."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    @torch.inference_mode()
    def score_many(
        self, contexts: Sequence[ContextState], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """The log-likelihood of each context's candidates, in the given order."""
        if not contexts:
            return []
        batch = ContextBatch(self._decoder.model, contexts)
        readings = [
            [self._read(batch, place, text) for text in texts]
            for place, texts in enumerate(candidates)
        ]
        scores = self._tree(batch, readings)
        return [
            [
                ScoredQuery(each.text, scores[place, each.ids], len(each.ids), each.unknown)
                for each in row
            ]
            for place, row in enumerate(readings)
        ]

    def _read(self, batch: ContextBatch, place: int, text: str) -> Reading:
        words = normalise_query(text).split()
        ids = [batch.own[place].id(word) for word in words]
        unknown = [word for word, one in zip(words, ids, strict=True) if one == UNKNOWN]
        return Reading(text, (*ids, END_OF_QUERY), tuple(dict.fromkeys(unknown)))

    def _tree(
        self, batch: ContextBatch, readings: Sequence[Sequence[Reading]]
    ) -> dict[Node, float]:
        """The log-likelihood of every prefix of every candidate, level by level."""
        children: dict[Node, dict[int, None]] = defaultdict(dict)
        for place, row in enumerate(readings):
            for reading in row:
                for length, word in enumerate(reading.ids):
                    children[place, reading.ids[:length]][word] = None
        scores: dict[Node, float] = {(place, ()): 0.0 for place in range(len(readings))}
        level = [node for node in scores if node in children]
        prefixes = self._decoder.start(batch).take(torch.tensor([node[0] for node in level]).long())
        while level:
            words = [list(children[node]) for node in level]
            self._add(batch, prefixes, level, words, scores)
            level, prefixes = self._next(prefixes, level, words)
        return scores

    def _add(
        self,
        batch: ContextBatch,
        prefixes: Prefixes,
        level: Sequence[Node],
        words: Sequence[Sequence[int]],
        scores: dict[Node, float],
    ) -> None:
        """Give a score to every child of a level's prefixes."""
        rows = max(1, MOST_LOGITS // len(self._decoder.model.vocabulary))
        for start in range(0, len(level), rows):
            some = range(start, min(start + rows, len(level)))
            wanted = torch.zeros((len(some), max(len(words[row]) for row in some))).long()
            for place, row in enumerate(some):
                wanted[place, : len(words[row])] = torch.tensor(words[row])
            prediction = self._decoder.predict(batch, prefixes.take(torch.tensor(some)))
            for row, values in zip(some, prediction.of(wanted).tolist(), strict=True):
                context, prefix = level[row]
                for word, value in zip(words[row], values, strict=False):
                    scores[context, (*prefix, word)] = scores[context, prefix] + value

    def _next(
        self, prefixes: Prefixes, level: Sequence[Node], words: Sequence[Sequence[int]]
    ) -> tuple[list[Node], Prefixes]:
        """The level below: every prefix with one more word."""
        parents, last, below = [], [], []
        for row, (context, prefix) in enumerate(level):
            for word in words[row]:
                if word != END_OF_QUERY:
                    parents.append(row)
                    last.append(word)
                    below.append((context, (*prefix, word)))
        if not below:
            return [], prefixes
        taken = prefixes.take(torch.tensor(parents))
        return below, self._decoder.advance(taken, torch.tensor(last))
