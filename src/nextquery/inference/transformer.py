"""A trained session Transformer as a `NeuralModel`.

The memory of a session is the key-value cache of its symbols; a query costs what its own symbols
cost. The state of the decoder adds the cache of each prefix. `transformer_blocks.py` computes the
blocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np

from nextquery.artifacts import Artifact
from nextquery.inference.context import ContextBatch, Floats
from nextquery.inference.decoder import Decoder, Ids, Prediction, SearchStart
from nextquery.inference.hred_network import DecodedBatch, DecoderState, SessionInputs
from nextquery.inference.native import native_library
from nextquery.inference.native_decoder import CompiledDecoder, PackedWeights
from nextquery.inference.output import CopySources, OutputLayer, attend
from nextquery.inference.settings import DecodeConfig, Mode
from nextquery.inference.transformer_blocks import ArrayBlocks, NativeBlocks
from nextquery.inference.weights import Shape, WeightProducts, copying_shapes, read_network
from nextquery.model.settings import TRANSFORMER, TransformerConfig
from nextquery.text.vocabulary import END_OF_QUERY, UNKNOWN, Vocabulary


@dataclass(frozen=True, eq=False)
class TransformerMemory:
    """What the Transformer remembers of a session: its key-value cache."""

    cache: Floats
    """(symbols, layers, 2, d): rotated keys, and values."""
    last: Floats
    """(d,): the state after the last symbol, which predicts the next word."""
    word_states: tuple[Floats, ...] = ()
    """The word states of each query (words, d), without the end of the query."""


@dataclass(frozen=True, eq=False)
class TransformerState(DecoderState):
    """The state of the decoder, with a key-value cache per prefix."""

    previous: Floats
    cache: Floats
    """(rows, words, layers, 2, d): of the words of each prefix."""

    def take(self, rows: Ids | slice) -> Self:
        """Some rows, in the given order."""
        return replace(super().take(rows), cache=self.cache[rows])


def weight_shapes(config: TransformerConfig, words: int) -> dict[str, Shape]:
    """The name and shape of every parameter of a model with a vocabulary of `words`."""
    d_e, d = config.embedding_size, config.model_size
    shapes: dict[str, Shape] = {"word_vectors.weight": (words, d_e), "input.weight": (d, d_e)}
    for layer in range(config.layers):
        block = {
            "attention_norm.scale": (d,),
            "attention_input.weight": (3 * d, d),
            "attention_output.weight": (d, d),
            "feed_norm.scale": (d,),
            "feed_input.weight": (4 * d, d),
            "feed_input.bias": (4 * d,),
            "feed_output.weight": (d, 4 * d),
            "feed_output.bias": (d,),
        }
        shapes |= {f"blocks.{layer}.{name}": shape for name, shape in block.items()}
    shapes |= {"norm.scale": (d,), "output.weight": (d_e, d), "output.bias": (d_e,)}
    return shapes | (copying_shapes(d_e, d) if config.copying else {})


class TransformerModel:
    """The weights of a trained Transformer, and its equations."""

    usefulness_head = None

    def __init__(
        self,
        config: TransformerConfig,
        vocabulary: Vocabulary,
        weights: Mapping[str, Floats],
        *,
        compiled: bool = True,
    ) -> None:
        """Without `compiled`, or where `nextquery-native` is not installed, NumPy computes all."""
        self.config = config
        self.vocabulary = vocabulary
        self.weights = weights
        self.copies = config.copying
        self.query_size = config.model_size
        self._library = native_library() if compiled else None
        self.products = WeightProducts(weights, self._library)
        self.blocks = (
            ArrayBlocks(config, weights)
            if self._library is None
            else NativeBlocks(self._library, config, weights)
        )
        empty = np.zeros((0, config.layers, 2, config.model_size), dtype=np.float32)
        nothing = TransformerMemory(empty, np.zeros(config.model_size, dtype=np.float32))
        self._start = self._read([nothing], [[END_OF_QUERY]])[0][0]

    @classmethod
    def from_pretrained(cls, folder: Path | str | Artifact) -> "TransformerModel":
        """Open a model folder; the weights stay in the file."""
        return read_network(folder, TRANSFORMER, TransformerConfig, weight_shapes, cls)

    @cached_property
    def _packed(self) -> PackedWeights | None:
        if self._library is None:
            return None
        vectors = self.word_vectors()
        return PackedWeights(self._library, self.vocabulary, self.weights, vectors, "output")

    def decoder(self, mode: Mode) -> Decoder[TransformerState]:
        """The compiled decoder of a mode, or NumPy's, which is always exact."""
        if self._packed is None:
            return TransformerArrayDecoder(self)
        return TransformerNativeDecoder(self, self._packed, mode)

    def word_vectors(self) -> Floats:
        """The vectors of all words (V, d_e)."""
        return self.weights["word_vectors.weight"]

    def query_vectors(self, queries: Sequence[str]) -> Floats:
        """The states after the end of single queries (queries, d)."""
        return np.stack([self.extend_session(self._start, query).last for query in queries])

    def read_sessions(self, sessions: Sequence[Sequence[str]]) -> list[TransformerMemory]:
        """The memory of each session."""
        words = [[self.vocabulary.encode(query) for query in session] for session in sessions]
        symbols = [[word for query in session for word in query] for session in words]
        memories = []
        for session, (memory, states) in zip(
            words, self._read([self._start] * len(sessions), symbols), strict=True
        ):
            ends = np.cumsum([0, *map(len, session)]).tolist()
            parts = [states[start : stop - 1] for start, stop in pairwise(ends)]
            memories.append(self._with_words(memory, parts))
        return memories

    def extend_session(self, memory: TransformerMemory, query: str) -> TransformerMemory:
        """The memory after one more query."""
        [(longer, states)] = self._read([memory], [self.vocabulary.encode(query)])
        return self._with_words(longer, [states[:-1]])

    def attention(self, sessions: Sequence[Sequence[str]]) -> list[Floats]:
        """How much the last symbol of each session attends to each of its queries (queries,).

        Means over heads and layers; the start symbol and the last symbol itself are left out, and
        the rest adds up to 1.
        """
        blocks = ArrayBlocks(self.config, self.weights)
        shares = []
        for session in sessions:
            words = [self.vocabulary.encode(query) for query in session]
            symbols = [word for query in words for word in query]
            if not symbols:
                shares.append(np.zeros(0, dtype=np.float32))
                continue
            [(before, _)] = self._read([self._start], [symbols[:-1]])
            weights: list[Floats] = []
            blocks.follow(np.array(symbols[-1:]), before.cache, weights)
            mean = np.mean([layer.mean(axis=(0, 1)) for layer in weights], axis=0)
            positions = np.repeat(np.arange(len(words)), list(map(len, words)))[:-1]
            share = np.bincount(positions, weights=mean[1:-1], minlength=len(words))
            shares.append((share / max(share.sum(), 1e-12)).astype(np.float32))
        return shares

    def _with_words(
        self, memory: TransformerMemory, word_states: Sequence[Floats]
    ) -> TransformerMemory:
        if not self.copies:
            return memory
        states = (*memory.word_states, *(states.copy() for states in word_states))
        return TransformerMemory(memory.cache, memory.last, states)

    def _read(
        self, memories: Sequence[TransformerMemory], words: Sequence[Sequence[int]]
    ) -> list[tuple[TransformerMemory, Floats]]:
        """Read symbols after each memory: the memory after them, and their states (symbols, d)."""
        caches = [memory.cache for memory in memories]
        read = self.blocks.read(caches, [np.array(part, dtype=np.int64) for part in words])
        results = []
        for memory, (states, added) in zip(memories, read, strict=True):
            cache = np.concatenate([memory.cache, added])
            last = states[-1].copy() if len(states) else memory.last
            results.append((TransformerMemory(cache, last, memory.word_states), states))
        return results


class TransformerDecoder:
    """The part that both decoders share: every row has a cache of its own words."""

    def __init__(self, model: TransformerModel) -> None:
        self._model = model

    def start(self, batch: ContextBatch[TransformerMemory]) -> TransformerState:
        """The empty prefix of every context."""
        model, memories, rows = self._model, batch.memories, len(batch.memories)
        shape = (rows, 0, model.config.layers, 2, model.config.model_size)
        sources = CopySources.of(model.weights, model.products, batch)
        return TransformerState(
            DecodedBatch(rows, SessionInputs(None, None), sources, [m.cache for m in memories]),
            hidden=np.stack([memory.last for memory in memories]),
            previous=np.repeat(model.word_vectors()[[END_OF_QUERY]], rows, axis=0),
            contexts=np.arange(rows),
            cache=np.zeros(shape, dtype=np.float32),
        )

    def select(self, state: TransformerState, rows: Ids | slice) -> TransformerState:
        """Some rows of a state; a row may be repeated."""
        return state.take(rows)

    def advance(self, state: TransformerState, parents: Ids, words: Ids) -> TransformerState:
        """Prefixes with one more word each; words outside V are read as unknown."""
        model, contexts = self._model, state.contexts[parents]
        read = np.where(words < len(model.vocabulary), words, UNKNOWN)
        length = state.cache.shape[1]
        shape = (len(read), length + 1, *state.cache.shape[2:])
        cache = np.empty(shape, dtype=np.float32)
        cache[:, :length] = state.cache[parents]
        hidden = model.blocks.extend(read, state.batch.caches, contexts, cache)
        previous = model.word_vectors()[read]
        return TransformerState(state.batch, hidden, previous, contexts, cache)


class TransformerNativeDecoder(TransformerDecoder, CompiledDecoder[TransformerState]):
    """The decoder with compiled kernels."""

    def __init__(self, model: TransformerModel, packed: PackedWeights, mode: Mode) -> None:
        TransformerDecoder.__init__(self, model)
        CompiledDecoder.__init__(self, packed, mode)


class TransformerArrayDecoder(TransformerDecoder):
    """The decoder with NumPy: what the compiled decoder must reproduce."""

    def __init__(self, model: TransformerModel) -> None:
        super().__init__(model)
        self.vocabulary = model.vocabulary
        self._output = OutputLayer(model.word_vectors(), None)

    def predict(self, state: TransformerState) -> Prediction:
        """The distribution of the next word of every row."""
        weights = self._model.weights
        omega = state.hidden @ weights["output.weight"].T + weights["output.bias"]
        sources = state.batch.sources
        if sources is None:
            return self._output.predict(omega, None)
        attended, pointer = attend(weights, sources, state.hidden, state.previous, state.contexts)
        return self._output.predict(omega + attended, pointer)

    def steps(self, start: SearchStart, config: DecodeConfig) -> None:
        """There are no faster ones than `search.ArraySteps`."""
