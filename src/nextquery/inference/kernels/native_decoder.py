"""The decoder with compiled kernels: the same answers as `array_decoder.py`, far sooner.

Weights are packed once; a step is three calls (advance, predict, best) that allocate nothing but
what they return. `fast` mode: 8-bit products for all words choose, 32-bit ones score the chosen and
take the place of the 8-bit ones in the normaliser. Knows the layout of the records, not the search.
"""

import ctypes
from functools import cached_property
from itertools import accumulate, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.inference.extensions import Totals
from nextquery.inference.kernels.library import (
    ContextsRecord,
    DecoderRecord,
    Library,
    MatrixRecord,
    PredictionRecord,
    address,
    aligned,
)
from nextquery.inference.kernels.native_rules import RulesCache
from nextquery.inference.kernels.native_search import (
    ModelSizes,
    NativeSteps,
    SearchKernel,
    Workspaces,
)
from nextquery.inference.kernels.process_memory import page_out
from nextquery.inference.network.array_decoder import BLOCK, start_prefixes
from nextquery.inference.network.batch import ContextBatch
from nextquery.inference.network.network import Ids, Network
from nextquery.inference.network.prediction import (
    ALL,
    BestWords,
    Prediction,
    Prefixes,
    SearchStart,
)
from nextquery.inference.network.weights import Floats
from nextquery.inference.settings import DecodeConfig, Mode
from nextquery.text.vocabulary import PADDING, UNKNOWN

WORD_INPUTS = ("decoder_input.matrix.weight", "output_word.matrix.weight")
"""What words give to the gates and to the output vector (Eq. 8, 10)."""


class PackedWeights:
    """A model's decoder laid out for the kernels, with the output layers that are asked for."""

    def __init__(self, model: Network, library: Library) -> None:
        self.model, self.library = model, library
        self._kept: list[NDArray[Any]] = []  # what the records point to
        words = len(model.vocabulary)
        self.width = words + -words % BLOCK
        self._added = np.full(self.width, -np.inf, dtype=np.float32)
        self._added[:words] = model.weights.get("output_bias", np.float32(0.0))
        self._added[PADDING] = -np.inf

    def record(self, mode: Mode) -> ctypes.Structure:
        """The record of a decoder with the output layer of a mode."""
        if mode == "fast":
            rounded = self._in_16_bits if self.library.rounds else self._in_32_bits
            return DecoderRecord(**self._common, **rounded, **self._rough)
        return DecoderRecord(**self._common, **self._in_32_bits, **self._exact)

    @cached_property
    def _common(self) -> dict[str, Any]:
        model, config = self.model, self.model.config
        fields = {
            "words": len(model.vocabulary),
            "width": self.width,
            "word_size": config.embedding_size,
            "state_size": config.query_size,
            "gate_bias": self._plain("decoder.bias"),
            "output_state": self._packed(model.weights["output_state.weight"]),
            "output_start": self._plain("output_state.bias"),
            "output_vectors": self._keep(np.ascontiguousarray(model.output_matrix)),
            "added": self._keep(self._added),
        }
        return fields | self._word_inputs() | (self._copying() if config.copying else {})

    def _word_inputs(self) -> dict[str, int]:
        if self.model.config.factored:
            return {"word_vectors": self._plain("word_vectors.weight")}
        tables = ("input_table", "previous_table")
        return {key: self._plain(name) for key, name in zip(tables, WORD_INPUTS, strict=True)}

    def _copying(self) -> dict[str, Any]:
        weights = self.model.weights
        gate = np.concatenate([weights["copying.gate.weight"][0], weights["copying.gate.bias"]])
        return {
            "attention_output": self._packed(weights["copying.output.weight"]),
            "copy_gate": self._keep(gate),
        }

    def _of_states(self) -> "dict[str, Floats]":
        """The matrices whose products only states and gates are made of."""
        weights, config = self.model.weights, self.model.config
        found = {"gates": weights["decoder.gates"], "candidate": weights["decoder.candidate"]}
        if config.factored:
            found["word_inputs"] = np.concatenate([weights[name] for name in WORD_INPUTS])
        if config.copying:
            found["attention_query"] = weights["copying.query.weight"]
        return found

    @cached_property
    def _in_32_bits(self) -> dict[str, ctypes.Structure]:
        return {name: self._packed(matrix) for name, matrix in self._of_states().items()}

    @cached_property
    def _in_16_bits(self) -> dict[str, ctypes.Structure]:
        return {name: self._rounded(matrix) for name, matrix in self._of_states().items()}

    @cached_property
    def _exact(self) -> dict[str, int]:
        vectors = self.model.output_matrix
        fields = {"exact_vectors": self._keep(self.library.packed(vectors, self.width))}
        page_out(vectors)  # mapped: what is needed again comes back
        return fields

    @cached_property
    def _rough(self) -> dict[str, int]:
        packed = self.library.packed_8(self.model.output_matrix, self.width)
        page_out(self.model.output_matrix)
        names = ("rough_vectors", "rough_scale", "rough_sums")
        return {name: self._keep(each) for name, each in zip(names, packed, strict=True)}

    def _packed(self, matrix: Floats) -> ctypes.Structure:
        return MatrixRecord(packed=self._keep(self.library.packed(matrix)))

    def _rounded(self, matrix: Floats) -> ctypes.Structure:
        packed, scale, largest = self.library.packed_16(matrix)
        places = {"rounded": self._keep(packed), "scale": self._keep(scale)}
        return MatrixRecord(**places, largest=largest)

    def _plain(self, name: str) -> int:
        array = self.model.weights.get(name)
        return 0 if array is None else self._keep(np.ascontiguousarray(array))

    def _keep(self, array: NDArray[Any]) -> int:
        self._kept.append(array)
        return address(array)


class NativePrediction(Prediction):
    """What the kernel wrote of the next words, in a buffer that is used again."""

    def __init__(self, decoder: "NativeDecoder", batch: ContextBatch, contexts: Ids) -> None:
        self.rows = rows = len(contexts)
        self._decoder, self._batch, self._contexts = decoder, batch, contexts
        own = 0 if batch.sources is None else batch.sources.own.most
        width, size = decoder.packed.width, decoder.model.config.embedding_size
        sizes = (rows * width // BLOCK, rows * size, rows, rows * own, rows)
        starts = (0, *accumulate(sizes))
        self._buffer = _taken(decoder.buffers, starts[-1])
        places = (address(self._buffer) + 4 * start for start in starts)
        self._record = PredictionRecord(rows, address(contexts), *islice(places, len(sizes)))
        self.record = ctypes.byref(self._record)

    def __del__(self) -> None:
        if hasattr(self, "_buffer"):
            self._decoder.buffers.append(self._buffer)

    def best(self, rows: slice, before: Totals, count: int) -> BestWords:
        """Extensions among which are the `count` best of the prefixes in `rows`, best first."""
        first, stop = rows.start, min(rows.stop, self.rows)
        own = 0 if self._batch.sources is None else self._batch.sources.own.most
        most = (stop - first) * self._decoder.packed.width
        room = min(count, most) + own * (stop - first)
        found = np.empty((3, room), dtype=np.int64)
        rest, place = ctypes.c_double(), address(found)
        number = self._decoder.library.best(
            *(self._decoder.record, self._decoder.contexts(self._batch), self._decoder.fast),
            *(self.record, first, stop, address(before), count),
            *(place, place + 8 * room, place + 16 * room, room, ctypes.byref(rest)),
        )
        totals = found[2].view(np.float64)
        return BestWords(found[0, :number], found[1, :number], totals[:number], rest.value)

    def of(self, words: Ids, rows: slice = ALL) -> Floats:
        """The log-probability of given words (rows, words), for some rows or for all."""
        words = np.ascontiguousarray(words)
        asked = np.repeat(np.arange(self.rows)[rows], words.shape[1])
        found = np.empty(words.shape, dtype=np.float32)
        self._decoder.library.score(
            *(self._decoder.record, self._decoder.contexts(self._batch), self.record),
            *(words.size, address(asked), address(words), address(found)),
        )
        return found


class NativeDecoder:
    """Starts, predicts and advances prefixes with compiled kernels."""

    def __init__(self, packed: PackedWeights, mode: Mode) -> None:
        self.model = packed.model
        self.packed = packed
        self.library = packed.library
        self.fast = int(mode == "fast")
        self.buffers: list[Floats] = []
        self._record = packed.record(mode)
        self.record = ctypes.byref(self._record)
        self._rules = RulesCache(packed.library)
        config = packed.model.config
        sizes = (packed.width // BLOCK, config.embedding_size, config.query_size)
        self.workspaces = Workspaces(ModelSizes(*sizes))

    def start(self, batch: ContextBatch) -> Prefixes:
        """The empty prefix of every context (Eq. 7)."""
        return start_prefixes(self.model, batch)

    def advance(
        self, batch: ContextBatch, prefixes: Prefixes, parents: Ids, words: Ids
    ) -> Prefixes:
        """Some prefixes with one more word each (Eq. 8); own words are read as the unknown word."""
        config, rows = self.model.config, len(words)
        read = np.where(words < len(self.model.vocabulary), words, UNKNOWN)
        contexts = prefixes.contexts[parents]
        hidden = np.empty((rows, config.query_size), dtype=np.float32)
        previous = np.empty((rows, config.embedding_size), dtype=np.float32)
        given = (prefixes.hidden, parents, read, contexts, hidden, previous)
        self.library.advance(
            self.record, self.contexts(batch), rows, *(address(each) for each in given)
        )
        return Prefixes(hidden, previous, contexts)

    def predict(self, batch: ContextBatch, prefixes: Prefixes) -> Prediction:
        """What may come next (Eq. 9 and 10)."""
        prediction = NativePrediction(self, batch, prefixes.contexts)
        previous = 0 if prefixes.previous is None else address(prefixes.previous)
        self.library.predict(
            *(self.record, self.contexts(batch), self.fast, address(prefixes.hidden), previous),
            prediction.record,
        )
        return prediction

    def steps(self, start: SearchStart, config: DecodeConfig) -> NativeSteps:
        """The steps of a search, each one call."""
        rules, kept = self._rules.of(start.rules[0].shared).record(start.rules)
        contexts = self.contexts(start.batch)
        records = self.record, contexts, self.fast, ctypes.byref(rules)
        kernel = SearchKernel(self.library, records, (rules, *kept), self.workspaces)
        return NativeSteps(kernel, start, config)

    def contexts(self, batch: ContextBatch) -> Any:
        """The record of a batch, made once."""
        if batch.record is None:
            batch.record = _contexts_record(batch)
        return ctypes.byref(batch.record)


def _contexts_record(batch: ContextBatch) -> ctypes.Structure:
    step, output = batch.session_inputs
    fields = {
        "contexts": len(batch.contexts),
        "step_inputs": 0 if step is None else address(step),
        "output_inputs": 0 if output is None else address(output),
    }
    if (sources := batch.sources) is not None:
        fields |= {
            "first_source": address(sources.first),
            "source_states": address(sources.states),
            "source_keys": address(sources.keys),
            "source_scores": address(sources.age_scores),
            "source_places": address(sources.places),
            "first_own": address(sources.own.first),
            "own_words": address(sources.own.words),
            "most_own": sources.own.most,
        }
    return ContextsRecord(**fields)


def _taken(free: list[Floats], size: int) -> Floats:
    """A buffer of at least `size` numbers, one that was used before if there is one."""
    try:
        buffer = free.pop()
    except IndexError:
        return aligned(size, np.float32)
    return buffer if len(buffer) >= size else aligned(size + size // 4, np.float32)
