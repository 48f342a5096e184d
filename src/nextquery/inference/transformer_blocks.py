"""The blocks of the session Transformer, with key-value caches: in NumPy, and compiled.

Serving must not import PyTorch, so the forward pass of `model/transformer.py` is written a second
time in NumPy; the compiled version is compared with it. A cache is (symbols, layers, 2, d): rotated
keys, and values.
"""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.inference.context import Floats
from nextquery.inference.decoder import Ids
from nextquery.inference.native import (
    BlockRecord,
    Library,
    SessionsRecord,
    SymbolsRecord,
    TransformerRecord,
    address,
)
from nextquery.inference.output import softmax
from nextquery.inference.rules import rows_by_context
from nextquery.model.settings import TransformerConfig

ROTARY_BASE = 10_000.0
NORM_EPSILON = np.float32(1e-6)
ROWS_TOGETHER = 256
"""Symbols that are read in one call: enough for fast products, few enough for the cache."""


class Read(NamedTuple):
    """What was read of one session."""

    states: Floats
    """(symbols, d): the normalised states."""
    added: Floats
    """(symbols, layers, 2, d): what they add to the cache."""


class Rotations:
    """Cosines and sines (positions, head_size / 2) of the rotary embedding, made when needed."""

    def __init__(self, head_size: int) -> None:
        self._frequencies = ROTARY_BASE ** -(np.arange(0, head_size, 2) / head_size)
        self._table = self._make(512)

    def at_least(self, positions: int) -> tuple[Floats, Floats]:
        """The tables for at least this many positions."""
        if positions > len(self._table[0]):
            self._table = self._make(2 * positions)
        return self._table

    def _make(self, positions: int) -> tuple[Floats, Floats]:
        angles = np.arange(positions)[:, None] * self._frequencies
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


class ArrayBlocks:
    """The blocks in NumPy."""

    def __init__(self, config: TransformerConfig, weights: Mapping[str, Floats]) -> None:
        self._config, self._weights = config, weights
        self._heads = (config.heads, config.model_size // config.heads)
        self._rotations = Rotations(self._heads[1])

    def read(self, caches: Sequence[Floats], words: Sequence[Ids]) -> list[Read]:
        """Read symbols (symbols,) that follow each other after each cache."""
        return [self.follow(part, cache) for part, cache in zip(words, caches, strict=True)]

    def follow(self, words: Ids, cache: Floats, attention: list[Floats] | None = None) -> Read:
        """Read symbols (symbols,) after a cache; `attention` takes the weights of each layer."""
        added = np.empty((len(words), *cache.shape[1:]), dtype=np.float32)
        positions = len(cache) + np.arange(len(words))
        states = self._input(words)
        for layer in range(self._config.layers):
            query, key, value = self._projected(layer, states, positions)
            added[:, layer, 0], added[:, layer, 1] = _joined(key), _joined(value)
            keys, values = (
                np.concatenate([self._by_head(cache[:, layer, part]), new], axis=1)
                for part, new in enumerate((key, value))
            )
            scores = query @ keys.transpose(0, 2, 1)
            later = np.triu(np.ones(scores.shape[1:], dtype=bool), k=1 + len(cache))
            shares = softmax(np.where(later, np.float32(-np.inf), scores))
            if attention is not None:
                attention.append(shares)
            states = self._rest_of_block(layer, states, _joined(shares @ values))
        return Read(rms_norm(states, self._weights["norm.scale"]), added)

    def extend(self, words: Ids, caches: Sequence[Floats], contexts: Ids, tails: Floats) -> Floats:
        """The states (rows, d) of one more symbol per row.

        `tails` (rows, words, layers, 2, d) are the caches of the rows after those of their
        contexts; the last word of a row is the new one, and is written here.
        """
        lengths = np.array([len(cache) for cache in caches])
        positions = lengths[contexts] + tails.shape[1] - 1
        states = self._input(words)
        for layer in range(self._config.layers):
            query, key, value = self._projected(layer, states, positions)
            tails[:, -1, layer, 0], tails[:, -1, layer, 1] = (
                _joined(key),
                _joined(value),
            )
            # (rows, heads, words, head_size)
            keys, values = (
                tails[:, :, layer, part].reshape(*tails.shape[:2], *self._heads).swapaxes(1, 2)
                for part in (0, 1)
            )
            past = [(self._by_head(cache[:, layer, 0]), cache[:, layer, 1]) for cache in caches]
            mixed = np.empty_like(query)
            scores = (keys @ query.transpose(1, 0, 2)[:, :, :, None])[..., 0].transpose(1, 0, 2)
            for context, rows in rows_by_context(contexts):
                past_keys, past_values = past[context]
                of_past = query[:, rows] @ past_keys.transpose(0, 2, 1)
                shares = softmax(np.concatenate([of_past, scores[:, rows]], axis=2))
                symbols = of_past.shape[2]
                of_tail = shares[:, :, symbols:].transpose(1, 0, 2)[:, :, None]
                from_tail = (of_tail @ values[rows])[:, :, 0].transpose(1, 0, 2)
                mixed[:, rows] = shares[:, :, :symbols] @ self._by_head(past_values) + from_tail
            states = self._rest_of_block(layer, states, _joined(mixed))
        return rms_norm(states, self._weights["norm.scale"])

    def _input(self, words: Ids) -> Floats:
        return np.asarray(
            self._weights["word_vectors.weight"][words] @ self._weights["input.weight"].T
        )

    def _projected(
        self, layer: int, states: Floats, positions: Ids
    ) -> tuple[Floats, Floats, Floats]:
        """Scaled query, key and value (heads, rows, head_size)."""
        weights, name = self._weights, f"blocks.{layer}."
        normed = rms_norm(states, weights[f"{name}attention_norm.scale"])
        projected = normed @ weights[f"{name}attention_input.weight"].T
        query, key, value = projected.reshape(len(states), 3, *self._heads).transpose(1, 2, 0, 3)
        tables = self._rotations.at_least(int(positions.max(initial=0)) + 1)
        cosines, sines = (table[positions] for table in tables)
        scale = np.float32(query.shape[-1] ** -0.5)
        return rotate(query, cosines, sines) * scale, rotate(key, cosines, sines), value

    def _rest_of_block(self, layer: int, states: Floats, mixed: Floats) -> Floats:
        """From the mixed values (rows, d) to the states after the block."""
        weights, name = self._weights, f"blocks.{layer}."
        states = states + mixed @ weights[f"{name}attention_output.weight"].T
        normed = rms_norm(states, weights[f"{name}feed_norm.scale"])
        hidden = normed @ weights[f"{name}feed_input.weight"].T + weights[f"{name}feed_input.bias"]
        states = states + gelu(hidden) @ weights[f"{name}feed_output.weight"].T
        return np.asarray(states + weights[f"{name}feed_output.bias"])

    def _by_head(self, vectors: Floats) -> Floats:
        """Keys or values (symbols, d) as (heads, symbols, head_size)."""
        return vectors.reshape(len(vectors), *self._heads).transpose(1, 0, 2)


def _joined(vectors: Floats) -> Floats:
    """Heads (heads, rows, head_size) side by side (rows, d)."""
    heads, rows, size = vectors.shape
    return vectors.transpose(1, 0, 2).reshape(rows, heads * size)


class NativeBlocks:
    """The blocks with the compiled library; symbols of many sessions are read in one call."""

    def __init__(
        self, library: Library, config: TransformerConfig, weights: Mapping[str, Floats]
    ) -> None:
        self._library, self._config = library, config
        self._kept: list[NDArray[Any]] = []  # what the records point to
        self._rotations = Rotations(config.model_size // config.heads)
        self._blocks = (BlockRecord * config.layers)(
            *(self._block(weights, f"blocks.{layer}.") for layer in range(config.layers))
        )
        self._fields = {
            "layers": config.layers,
            "heads": config.heads,
            "word_size": config.embedding_size,
            "state_size": config.model_size,
            "word_vectors": self._plain(weights["word_vectors.weight"]),
            "input": self._packed(weights["input.weight"]),
            "norm": self._plain(weights["norm.scale"]),
            "blocks": ctypes.addressof(self._blocks),
        }

    def read(self, caches: Sequence[Floats], words: Sequence[Ids]) -> list[Read]:
        """Read symbols (symbols,) that follow each other after each cache."""
        results: list[Read] = []
        for part in _cut([len(session) for session in words]):
            counts = [len(session) for session in words[part]]
            firsts = np.cumsum([0, *counts])
            contexts = np.repeat(np.arange(len(counts)), counts)
            tail_first = firsts[contexts]
            tail_count = np.arange(firsts[-1]) - tail_first + 1
            tails = np.empty((int(firsts[-1]), *caches[0].shape[1:]), dtype=np.float32)
            symbols = (np.concatenate(words[part]), contexts, tail_first, tail_count)
            states = self._run(caches[part], symbols, tails)
            bounds = pairwise(firsts.tolist())
            results += [Read(states[start:stop], tails[start:stop]) for start, stop in bounds]
        return results

    def extend(self, words: Ids, caches: Sequence[Floats], contexts: Ids, tails: Floats) -> Floats:
        """The states (rows, d) of one more symbol per row, as in `ArrayBlocks`."""
        rows, length = tails.shape[:2]
        tail_first = np.arange(0, rows * length, length)
        tail_count = np.full(rows, length)
        return self._run(caches, (words, contexts, tail_first, tail_count), tails)

    def _run(
        self, caches: Sequence[Floats], symbols: tuple[Ids, Ids, Ids, Ids], tails: Floats
    ) -> Floats:
        config, rows = self._config, len(symbols[0])
        lengths = np.array([len(cache) for cache in caches])
        longest = int(lengths.max(initial=0)) + int(symbols[3].max(initial=0))
        cosines, sines = self._rotations.at_least(longest)
        model = TransformerRecord(**self._fields, cosines=address(cosines), sines=address(sines))
        addresses = np.array([address(cache) for cache in caches], dtype=np.uint64)
        sessions = SessionsRecord(address(addresses), address(lengths))
        hidden = np.empty((rows, config.model_size), dtype=np.float32)
        previous = np.empty((rows, config.embedding_size), dtype=np.float32)
        arrays: list[NDArray[Any]] = [
            *map(np.ascontiguousarray, symbols),
            tails,
            hidden,
            previous,
        ]
        record = SymbolsRecord(rows, *(address(array) for array in arrays))
        self._library.run_symbols(*map(ctypes.byref, (model, sessions, record)))
        return hidden

    def _block(self, weights: Mapping[str, Floats], name: str) -> ctypes.Structure:
        return BlockRecord(
            attention_norm=self._plain(weights[f"{name}attention_norm.scale"]),
            attention_input=self._packed(weights[f"{name}attention_input.weight"]),
            attention_output=self._packed(weights[f"{name}attention_output.weight"]),
            feed_norm=self._plain(weights[f"{name}feed_norm.scale"]),
            feed_input=self._packed(weights[f"{name}feed_input.weight"]),
            feed_input_bias=self._plain(weights[f"{name}feed_input.bias"]),
            feed_output=self._packed(weights[f"{name}feed_output.weight"]),
            feed_output_bias=self._plain(weights[f"{name}feed_output.bias"]),
        )

    def _packed(self, matrix: Floats) -> int:
        return self._plain(self._library.packed(matrix))

    def _plain(self, array: Floats) -> int:
        self._kept.append(np.ascontiguousarray(array))
        return address(self._kept[-1])


def _cut(counts: Sequence[int]) -> Iterator[slice]:
    """Sessions in stretches of about `ROWS_TOGETHER` symbols."""
    start = total = 0
    for index, count in enumerate(counts):
        if total and total + count > ROWS_TOGETHER:
            yield slice(start, index)
            start, total = index, 0
        total += count
    if counts:
        yield slice(start, len(counts))


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
