"""A trained session Transformer as a `NeuralModel`, on NumPy arrays.

Serving must not import PyTorch, so the forward pass of `model/transformer.py` is written a second
time here, with a key-value cache. The memory of a session is the cache of its symbols; a query
costs what its own symbols cost. The state of the decoder adds the cache of each prefix.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from nextquery.artifacts import Artifact, read_artifact
from nextquery.config import stored_section
from nextquery.inference.context import ContextBatch, Floats
from nextquery.inference.copying import CopySources, attend, softmax
from nextquery.inference.decoder import Decoder, Ids, Prediction, SearchStart
from nextquery.inference.hred_network import WeightProducts
from nextquery.inference.native import native_library
from nextquery.inference.output import OutputLayer
from nextquery.inference.settings import DecodeConfig, Mode
from nextquery.inference.weights import Shape, check_finite, copying_shapes, read_weights
from nextquery.model.settings import TRANSFORMER, VOCABULARY, WEIGHTS, TransformerConfig
from nextquery.text.vocabulary import END_OF_QUERY, UNKNOWN, Vocabulary

ROTARY_BASE = 10_000.0
NORM_EPSILON = np.float32(1e-6)


@dataclass(frozen=True, eq=False)
class TransformerMemory:
    """What the Transformer remembers of a session: its key-value cache."""

    cache: Floats
    """(layers, 2, heads, symbols, head_size): rotated keys, and values."""
    last: Floats
    """(d,): the state after the last symbol, which predicts the next word."""
    word_states: tuple[Floats, ...] = ()
    """The word states of each query (words, d), without the end of the query."""


@dataclass(frozen=True, eq=False)
class TransformerState:
    """The state of the decoder: one row per prefix, rows of one context together."""

    memories: Sequence[TransformerMemory]
    sources: CopySources | None
    cache: Floats
    """(layers, 2, rows, heads, words, head_size): of the words of each prefix."""
    hidden: Floats
    """(rows, d): the state after the last symbol."""
    previous: Floats
    """(rows, d_e): the vector of the last symbol."""
    contexts: Ids
    """(rows,): the context of each row, ascending."""


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
        """Without `compiled`, or where `nextquery-native` is not installed, NumPy multiplies."""
        self.config = config
        self.vocabulary = vocabulary
        self.weights = weights
        self.products = WeightProducts(weights, native_library() if compiled else None)
        self.head_size = config.model_size // config.heads
        exponents = np.arange(0, self.head_size, 2) / self.head_size
        self._frequencies = ROTARY_BASE**-exponents
        self._start = self._read(self._empty(), [END_OF_QUERY])[0]

    @classmethod
    def from_pretrained(cls, folder: Path | str | Artifact) -> "TransformerModel":
        """Open a model folder; the weights stay in the file."""
        opened = folder if isinstance(folder, Artifact) else Path(folder)
        return read_artifact(opened, cls._open, TRANSFORMER)

    @classmethod
    def _open(cls, artifact: Artifact) -> "TransformerModel":
        config = stored_section(TransformerConfig, artifact.entry("model"), artifact.path)
        vocabulary = Vocabulary.load(artifact.file(VOCABULARY))
        shapes = weight_shapes(config, len(vocabulary))
        weights = read_weights(artifact.file(WEIGHTS), shapes, artifact.path / WEIGHTS)
        artifact.check_once("weights", lambda: check_finite(weights))
        return cls(config, vocabulary, weights)

    @property
    def copies(self) -> bool:
        """Whether it was trained with copying."""
        return self.config.copying

    @property
    def query_size(self) -> int:
        """Numbers in a query vector: d."""
        return self.config.model_size

    def decoder(self, mode: Mode) -> Decoder[TransformerState]:
        """A decoder with an exact output layer, whatever the mode."""
        return TransformerDecoder(self)

    def word_vectors(self) -> Floats:
        """The vectors of all words (V, d_e)."""
        return self.weights["word_vectors.weight"]

    def query_vectors(self, queries: Sequence[str]) -> Floats:
        """The states after the end of single queries (queries, d)."""
        return np.stack([self.extend_session(self._start, query).last for query in queries])

    def read_sessions(self, sessions: Sequence[Sequence[str]]) -> list[TransformerMemory]:
        """The memory of each session."""
        memories = []
        for session in sessions:
            words = [self.vocabulary.encode(query) for query in session]
            memory, states = self._read(self._start, [word for query in words for word in query])
            ends = np.cumsum([0, *map(len, words)]).tolist()
            parts = [states[start : stop - 1] for start, stop in pairwise(ends)]
            memories.append(self._with_words(memory, parts))
        return memories

    def extend_session(self, memory: TransformerMemory, query: str) -> TransformerMemory:
        """The memory after one more query."""
        longer, states = self._read(memory, self.vocabulary.encode(query))
        return self._with_words(longer, [states[:-1]])

    def attention(self, sessions: Sequence[Sequence[str]]) -> list[Floats]:
        """How much the last symbol of each session attends to each of its queries (queries,).

        Means over heads and layers; the start symbol and the last symbol itself are left out, and
        the rest adds up to 1.
        """
        shares = []
        for session in sessions:
            words = [self.vocabulary.encode(query) for query in session]
            symbols = [word for query in words for word in query]
            if not symbols:
                shares.append(np.zeros(0, dtype=np.float32))
                continue
            before, _ = self._read(self._start, symbols[:-1])
            weights: list[Floats] = []
            self._run(np.array(symbols[-1:]), [before], weights=weights)
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

    def _empty(self) -> TransformerMemory:
        """The memory before the start symbol."""
        config = self.config
        shape = (config.layers, 2, config.heads, 0, self.head_size)
        return TransformerMemory(
            np.zeros(shape, dtype=np.float32), np.zeros(config.model_size, dtype=np.float32)
        )

    def _read(
        self, memory: TransformerMemory, words: Sequence[int]
    ) -> tuple[TransformerMemory, Floats]:
        """Read symbols after a memory: the memory after them, and their states (symbols, d)."""
        if not words:
            return memory, np.zeros((0, self.config.model_size), dtype=np.float32)
        states, caches = self._run(np.array(words), [memory])
        cache = np.concatenate([memory.cache, caches], axis=3)
        return TransformerMemory(cache, states[-1], memory.word_states), states

    def _run(
        self,
        words: Ids,
        memories: Sequence[TransformerMemory],
        prefixes: Floats | None = None,
        contexts: Ids | None = None,
        weights: list[Floats] | None = None,
    ) -> tuple[Floats, Floats]:
        """Run all blocks; returns states (symbols, d) and what they add to the cache.

        Without `prefixes` the symbols follow each other after one memory. With `prefixes`, a cache
        of the rows' words, each symbol extends its own row after the memory of its context.
        """
        states = self.products.times("input.weight", self.word_vectors()[words])
        rows, heads, size = len(words), self.config.heads, self.head_size
        positions = self._positions(rows, memories, prefixes, contexts)
        angles = positions[:, None] * self._frequencies
        cosines, sines = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        added = []
        for layer in range(self.config.layers):
            name = f"blocks.{layer}."
            normed = rms_norm(states, self.weights[f"{name}attention_norm.scale"])
            projected = self.products.times(f"{name}attention_input.weight", normed)
            # (3, heads, rows, head_size)
            parts = projected.reshape(rows, 3, heads, size).transpose(1, 2, 0, 3)
            query = rotate(parts[0], cosines, sines) * np.float32(size**-0.5)
            key, value = rotate(parts[1], cosines, sines), parts[2]
            if prefixes is None or contexts is None:
                [memory] = memories
                mixed = _follow(query, key, value, memory.cache[layer], weights)
                added.append(np.stack([key, value]))
            else:
                grown = [
                    np.concatenate([old, new.transpose(1, 0, 2)[:, :, None]], axis=2)
                    for old, new in zip(prefixes[layer], (key, value), strict=True)
                ]
                caches = [memory.cache[layer] for memory in memories]
                mixed = _extend(query, grown[0], grown[1], caches, contexts)
                added.append(np.stack(grown))
            joined = mixed.transpose(1, 0, 2).reshape(rows, -1)
            states = states + self.products.times(f"{name}attention_output.weight", joined)
            normed = rms_norm(states, self.weights[f"{name}feed_norm.scale"])
            hidden = self.products.times(f"{name}feed_input.weight", normed)
            hidden = gelu(hidden + self.weights[f"{name}feed_input.bias"])
            states = states + self.products.times(f"{name}feed_output.weight", hidden)
            states = states + self.weights[f"{name}feed_output.bias"]
        return rms_norm(states, self.weights["norm.scale"]), np.stack(added)

    def _positions(
        self,
        rows: int,
        memories: Sequence[TransformerMemory],
        prefixes: Floats | None,
        contexts: Ids | None,
    ) -> Ids:
        """The position of each symbol in its session."""
        lengths = np.array([memory.cache.shape[3] for memory in memories])
        if prefixes is None or contexts is None:
            return np.asarray(lengths[0] + np.arange(rows))
        return np.asarray(lengths[contexts] + prefixes.shape[4])


class TransformerDecoder:
    """The decoder: every row has a cache of its own words after that of its context."""

    def __init__(self, model: TransformerModel) -> None:
        self._model = model
        self._output = OutputLayer(model.word_vectors(), None)

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that it predicts."""
        return self._model.vocabulary

    def start(self, batch: ContextBatch[TransformerMemory]) -> TransformerState:
        """The empty prefix of every context."""
        model, memories = self._model, batch.memories
        config = model.config
        rows = len(memories)
        shape = (config.layers, 2, rows, config.heads, 0, model.head_size)
        return TransformerState(
            memories=memories,
            sources=CopySources.of(model.weights, model.products, batch) if model.copies else None,
            cache=np.zeros(shape, dtype=np.float32),
            hidden=np.stack([memory.last for memory in memories]),
            previous=np.repeat(model.word_vectors()[[END_OF_QUERY]], rows, axis=0),
            contexts=np.arange(rows),
        )

    def select(self, state: TransformerState, rows: Ids | slice) -> TransformerState:
        """Some rows of a state; a row may be repeated."""
        return TransformerState(
            state.memories,
            state.sources,
            state.cache[:, :, rows],
            state.hidden[rows],
            state.previous[rows],
            state.contexts[rows],
        )

    def advance(self, state: TransformerState, parents: Ids, words: Ids) -> TransformerState:
        """Prefixes with one more word each; words outside V are read as unknown."""
        model, contexts = self._model, state.contexts[parents]
        read = np.where(words < len(self.vocabulary), words, UNKNOWN)
        hidden, cache = model._run(read, state.memories, state.cache[:, :, parents], contexts)
        previous = model.word_vectors()[read]
        return TransformerState(state.memories, state.sources, cache, hidden, previous, contexts)

    def predict(self, state: TransformerState) -> Prediction:
        """The distribution of the next word of every row."""
        weights = self._model.weights
        omega = self._model.products.times("output.weight", state.hidden) + weights["output.bias"]
        if state.sources is None:
            return self._output.predict(omega, None)
        attended, pointer = attend(
            weights, state.sources, state.hidden, state.previous, state.contexts
        )
        return self._output.predict(omega + attended, pointer)

    def steps(self, start: SearchStart, config: DecodeConfig) -> None:
        """There are no faster ones than `search.ArraySteps`."""


def rms_norm(states: Floats, scale: Floats) -> Floats:
    """`x / sqrt(mean(x^2) + epsilon) * scale`."""
    squares = np.einsum("rd,rd->r", states, states)[:, None]
    root = np.sqrt(squares / np.float32(states.shape[1]) + NORM_EPSILON)
    return np.asarray(states * (scale / root))


def gelu(values: Floats) -> Floats:
    """The tanh form of GELU."""
    inner = values * values  # a power is ten times slower
    inner *= np.float32(0.044715 * np.sqrt(2 / np.pi))
    inner += np.float32(np.sqrt(2 / np.pi))
    inner *= values
    np.tanh(inner, out=inner)
    inner += 1
    inner *= values
    inner *= np.float32(0.5)
    return inner


def rotate(vectors: Floats, cosines: Floats, sines: Floats) -> Floats:
    """Rotate the two halves of queries or keys (heads, symbols, head_size) by their positions."""
    half = vectors.shape[-1] // 2
    left, right = vectors[..., :half], vectors[..., half:]
    rotated = np.empty_like(vectors)
    rotated[..., :half] = left * cosines - right * sines
    rotated[..., half:] = left * sines + right * cosines
    return rotated


def _follow(
    query: Floats, key: Floats, value: Floats, cache: Floats, weights: list[Floats] | None
) -> Floats:
    """Causal attention of symbols that follow each other (heads, symbols, head_size)."""
    keys = np.concatenate([cache[0], key], axis=1)
    values = np.concatenate([cache[1], value], axis=1)
    scores = query @ keys.transpose(0, 2, 1)
    later = np.triu(np.ones(scores.shape[1:], dtype=bool), k=1 + cache.shape[2])
    shares = softmax(np.where(later, np.float32(-np.inf), scores))
    if weights is not None:
        weights.append(shares)
    return np.asarray(shares @ values)


def _extend(
    query: Floats, keys: Floats, values: Floats, caches: Sequence[Floats], contexts: Ids
) -> Floats:
    """Attention of rows to their contexts and to their own words.

    `query` is (heads, rows, head_size); `keys` and `values` are (rows, heads, words, head_size).
    """
    mixed = np.empty_like(query)
    own = (keys @ query.transpose(1, 0, 2)[:, :, :, None])[..., 0].transpose(1, 0, 2)
    bounds = np.searchsorted(contexts, np.arange(len(caches) + 1)).tolist()
    for context, (start, stop) in enumerate(pairwise(bounds)):
        if start == stop:
            continue
        rows = slice(start, stop)
        past_keys, past_values = caches[context]
        past = query[:, rows] @ past_keys.transpose(0, 2, 1)
        shares = softmax(np.concatenate([past, own[:, rows]], axis=2))
        symbols = past.shape[2]
        of_own = shares[:, :, symbols:].transpose(1, 0, 2)[:, :, None]  # (rows, heads, 1, words)
        from_own = (of_own @ values[rows])[:, :, 0].transpose(1, 0, 2)
        mixed[:, rows] = shares[:, :, :symbols] @ past_values + from_own
    return mixed
