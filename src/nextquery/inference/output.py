"""The output layer in NumPy: softmax over the vocabulary, mixed with a pointer into the session.

Independent of how a network computes its output vectors: any decoder can use it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nextquery.inference.context import ContextBatch, Floats
from nextquery.inference.decoder import ALL, BestWords, Ids, Prediction
from nextquery.inference.rules import Totals, rows_by_context
from nextquery.inference.weights import WeightProducts, Weights
from nextquery.model.settings import AGES
from nextquery.text.vocabulary import PADDING

BLOCK = 64
"""Words per block: the best words are looked for only in the blocks that can have them."""


@dataclass(frozen=True, eq=False)
class CopyTable:
    """The words that can be copied in each context of a batch.

    Each word has a key `context * width + word`, and the keys are sorted: a look-up is a bisection,
    and no array of the size (words asked for, words of the session) is needed.
    """

    words: Ids
    """(total,): word ids, distinct and ascending in each context."""
    first: Ids
    """(contexts + 1,): where the words of each context begin."""
    keys: Ids
    """(total,): the keys of all contexts."""
    width: int
    """More than any id."""
    most: int
    """The largest number of words of one context."""

    @classmethod
    def of(cls, contexts: Sequence[Sequence[int]], width: int) -> "CopyTable":
        """From the ascending ids of each context."""
        counts = [len(ids) for ids in contexts]
        words = np.array([word for ids in contexts for word in ids], dtype=np.int64)
        keys = np.repeat(np.arange(len(contexts)), counts) * width + words
        return cls(words, np.cumsum([0, *counts]), keys, width, max(counts))

    def columns(self, contexts: Ids, words: Ids) -> Ids:
        """The columns of `words` among those of their contexts; -1: cannot be copied."""
        keys = contexts * self.width + words
        positions = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[positions] == keys, positions - self.first[contexts], -1)


@dataclass(frozen=True, eq=False)
class Pointer:
    """The copied part of the mixture `(1 - g) softmax + g attention`, row by row."""

    table: CopyTable
    contexts: Ids
    """(rows,): the context of each row."""
    log_copied: Floats
    """(rows, table.most): log(g) + log of the attention on that word."""
    log_generated: Floats
    """(rows,): log(1 - g)."""


class Softmax:
    """Log-probabilities over the vocabulary (Eq. 9)."""

    def __init__(self, logits: Floats) -> None:
        """`logits` (rows, whole blocks of words) becomes log-probabilities, in place."""
        highest = logits.max(axis=1, keepdims=True)
        for row in range(len(logits)):  # a second matrix of this size would be the largest array
            logits[row] -= highest[row] + np.log(np.exp(logits[row] - highest[row]).sum())
        self._flat = logits
        self._blocks = logits.reshape(len(logits), -1, BLOCK)
        self._block_best = self._blocks.max(axis=2)

    def best(self, rows: slice, before: Totals, count: int) -> BestWords:
        """The `count` best extensions: they are in the `count` blocks with the highest maxima."""
        blocks, block_best = self._blocks[rows], self._block_best[rows] + before[:, None]
        number = min(count, block_best.size)
        chosen = np.argpartition(block_best, -number, axis=None)[-number:]
        row, block = np.divmod(chosen, block_best.shape[1])
        inside = blocks[row, block] + before[row][:, None]  # (blocks, BLOCK)
        cells = np.argpartition(inside, -min(count, inside.size), axis=None)[-count:]
        block_index, word = np.divmod(cells, BLOCK)
        totals = inside.ravel()[cells]
        best = BestWords.sorted(row[block_index], block[block_index] * BLOCK + word, totals)
        return best if len(best.totals) < count else replace(best, rest=float(best.totals[-1]))

    def of(self, words: Ids, rows: slice = ALL) -> Floats:
        """The log-probability of given words (rows, words), for some rows or for all."""
        return np.take_along_axis(self._flat[rows], words, axis=1)


class ArrayPrediction(Prediction):
    """The softmax, mixed with the pointer if there is one."""

    def __init__(self, softmax: Softmax, rows: int, words: int, pointer: Pointer | None) -> None:
        """`words` is V."""
        self.rows = rows
        self._softmax = softmax
        self._words = words
        self._pointer = pointer

    def of(self, words: Ids, rows: slice = ALL) -> Floats:
        """The log-probability of given words (rows, words), for some rows or for all."""
        pointer = self._pointer
        if pointer is None:
            return self._softmax.of(words, rows)
        in_vocabulary = words < self._words
        generated = self._softmax.of(np.where(in_vocabulary, words, 0), rows)
        generated = generated + pointer.log_generated[rows, None]
        columns = pointer.table.columns(pointer.contexts[rows, None], words)
        copied = np.take_along_axis(pointer.log_copied[rows], np.maximum(columns, 0), axis=1)
        never = np.float32(-np.inf)
        return np.asarray(
            np.logaddexp(
                np.where(in_vocabulary, generated, never), np.where(columns < 0, never, copied)
            )
        )

    def best(self, rows: slice, before: Totals, count: int) -> BestWords:
        """At least the `count` best extensions: those of the softmax, and all words to copy."""
        pointer = self._pointer
        if pointer is None:
            return self._softmax.best(rows, before, count)
        best = self._softmax.best(rows, before + pointer.log_generated[rows], count)
        contexts, table = pointer.contexts[rows], pointer.table
        not_copied = table.columns(contexts[best.rows], best.words) < 0
        bounds = zip(table.first[contexts], table.first[contexts + 1], strict=True)
        copied = self.among(rows, before, [table.words[start:stop] for start, stop in bounds])
        return BestWords.sorted(
            np.concatenate([best.rows[not_copied], copied.rows]),
            np.concatenate([best.words[not_copied], copied.words]),
            np.concatenate([best.totals[not_copied], copied.totals]),
            best.rest,
        )


class OutputLayer:
    """From output vectors omega to the distribution of the next word."""

    def __init__(self, matrix: Floats, bias: Floats | None) -> None:
        """`matrix` (V, d_e): the output vectors of the words; `bias` (V,): added to the logits."""
        self._matrix = matrix
        self._bias = output_bias(len(matrix), bias)

    def predict(self, omega: Floats, pointer: Pointer | None) -> ArrayPrediction:
        """The next word of every row of omega (rows, d_e)."""
        words = len(self._matrix)
        logits = np.empty((len(omega), len(self._bias)), dtype=np.float32)
        logits[:, :words] = omega @ self._matrix.T
        logits[:, words:] = 0.0
        logits += self._bias
        return ArrayPrediction(Softmax(logits), len(omega), words, pointer)


def output_bias(words: int, bias: Floats | None) -> Floats:
    """What is added to the logits (whole blocks,): padding and the rest of the last block: -inf."""
    padded = np.full(words + -words % BLOCK, -np.inf, dtype=np.float32)
    padded[:words] = 0.0 if bias is None else bias
    padded[PADDING] = -np.inf
    return padded


LEAST_ATTENTION = 1e-30
"""Attention below this counts as this: its logarithm must stay finite."""


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
        """The words of a batch; None if there is nothing to copy or the model does not copy."""
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
        # How many queries back each word is: 1 for those of the last query.
        ages = np.array(
            [
                len(memory.word_states) - index
                for memory in batch.memories
                for index, words in enumerate(memory.word_states)
                for _ in words
            ]
        )
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
    for context, rows_of_context in rows_by_context(contexts):
        part = slice(sources.first[context], sources.first[context + 1])
        if part.start == part.stop:
            continue
        attention = softmax(
            queries[rows_of_context] @ sources.keys[part].T + sources.age_scores[part]
        )
        seen[rows_of_context] = attention @ sources.states[part]
        np.add.at(attention_by_word[:, rows_of_context], sources.columns[part], attention.T)
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
