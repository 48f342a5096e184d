"""Copying words of the session, in NumPy (the equations are in `model/copying.py`).

Shared by the networks: they differ only in the states of the words that can be copied.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nextquery.inference.context import ContextBatch, Floats
from nextquery.inference.decoder import Ids
from nextquery.inference.hred_network import WeightProducts
from nextquery.inference.output import CopyTable, Pointer
from nextquery.inference.weights import AGES, Weights

LEAST_ATTENTION = 1e-30
"""Attention below this counts as this: its logarithm must stay finite."""


class CopyMemory(Protocol):
    """The part of a session's memory that copying reads."""

    @property
    def word_states(self) -> Sequence[Floats]:
        """The word states of each query (words, d_h), without the end of the query."""
        ...


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
    columns: Ids
    """(sources,): the column of each among the distinct words of its context."""
    table: CopyTable
    """The distinct words of each context."""

    @classmethod
    def of(
        cls, weights: Weights, products: WeightProducts, batch: ContextBatch[Any]
    ) -> "CopySources | None":
        """The words of a batch; None if there is nothing to copy."""
        counts = [len(context.copied_words) for context in batch.contexts]
        if not any(counts):
            return None
        word_ids = [
            [vocabulary.id(word) for word in context.copied_words]
            for context, vocabulary in zip(batch.contexts, batch.vocabularies, strict=True)
        ]
        distinct = [vocabulary.distinct for vocabulary in batch.vocabularies]
        width = max(vocabulary.size for vocabulary in batch.vocabularies)
        states = np.concatenate([part for memory in batch.memories for part in memory.word_states])
        ages = np.array([age for memory in batch.memories for age in _ages(memory)])
        scale = np.float32(states.shape[1] ** -0.5)
        return cls(
            first=np.cumsum([0, *counts]),
            states=states,
            keys=products.times("copying.key.weight", states) * scale,
            age_scores=weights["copying.age"][np.clip(ages - 1, 0, AGES - 1)],
            columns=np.concatenate(
                [np.searchsorted(d, ids) for d, ids in zip(distinct, word_ids, strict=True)]
            ).astype(np.int64),
            table=CopyTable.of(distinct, width),
        )


def _ages(memory: CopyMemory) -> list[int]:
    """How many queries back each word is: 1 for those of the last query."""
    newest_first = enumerate(reversed(memory.word_states), start=1)
    return [age for age, words in newest_first for _ in words][::-1]


def attend(
    weights: Weights, sources: CopySources, hidden: Floats, previous: Floats, contexts: Ids
) -> tuple[Floats, Pointer]:
    """What attention adds to omega (rows, d_e), and the copied part of the mixture.

    `hidden` (rows, d_h) and `previous` (rows, d_e) are the decoder's states and its last words,
    `contexts` (rows,) the context of each row, ascending.
    """
    inputs = np.concatenate([hidden, previous], axis=1)
    queries = inputs @ weights["copying.query.weight"].T
    seen = np.zeros_like(hidden)  # c_n
    attention_by_word = np.zeros((sources.table.most, len(hidden)), dtype=np.float32)
    for context in np.unique(contexts).tolist():
        some = slice(*np.searchsorted(contexts, [context, context + 1]))
        part = slice(sources.first[context], sources.first[context + 1])
        if part.start == part.stop:
            continue
        attention = softmax(queries[some] @ sources.keys[part].T + sources.age_scores[part])
        seen[some] = attention @ sources.states[part]
        np.add.at(attention_by_word[:, some], sources.columns[part], attention.T)
    gate = np.concatenate([inputs, seen], axis=1) @ weights["copying.gate.weight"][0]
    gate += weights["copying.gate.bias"]
    gate[np.diff(sources.first)[contexts] == 0] = -np.inf
    log_attention = np.log(np.maximum(attention_by_word.T, LEAST_ATTENTION))
    pointer = Pointer(
        table=sources.table,
        contexts=contexts,
        log_copied=_log_sigmoid(gate)[:, None] + log_attention,
        log_generated=_log_sigmoid(-gate),
    )
    return np.asarray(seen @ weights["copying.output.weight"].T), pointer


def softmax(scores: Floats) -> Floats:
    """The softmax over the last axis."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _log_sigmoid(values: Floats) -> Floats:
    return np.asarray(-np.logaddexp(np.float32(0.0), -values), dtype=np.float32)
