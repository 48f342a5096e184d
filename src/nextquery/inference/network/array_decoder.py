"""The decoder in NumPy alone: always there, and what the compiled kernels are held to.

Every number has 32 bits, whatever the mode: NumPy has no quick products of 8 bits.
"""

import numpy as np

from nextquery.inference.extensions import Totals
from nextquery.inference.network.batch import ContextBatch, CopySources
from nextquery.inference.network.network import Ids, Network
from nextquery.inference.network.prediction import (
    ALL,
    LEAST_COPY,
    BestWords,
    CopiedShare,
    Prediction,
    Prefixes,
    SearchStart,
    in_order,
)
from nextquery.inference.network.weights import Floats
from nextquery.inference.settings import DecodeConfig
from nextquery.text.vocabulary import PADDING, UNKNOWN

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
