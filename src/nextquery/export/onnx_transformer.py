"""The session Transformer as one ONNX graph (equations: docs/explanation/model.md).

Symbols that follow each other and the key-value cache before them go in; the cache after them, the
states of the symbols and what may come next come out. Reading a session and adding a word to a
prefix are the same call.
"""

import math

import numpy as np
import onnx
from onnx import TensorProto

from nextquery.export.onnx_graphs import Graph, Name, copying
from nextquery.inference.transformer import TransformerModel
from nextquery.inference.transformer_blocks import NORM_EPSILON, ROTARY_BASE
from nextquery.text.vocabulary import PADDING


def transformer(model: TransformerModel) -> onnx.ModelProto:
    """Read `words` (prefixes, symbols) after `cache` (prefixes, past, layers, 2, d)."""
    graph, config = _TransformerGraph(model), model.config
    cached: list[int | str] = ["prefixes", "past", config.layers, 2, config.model_size]
    words = graph.input("words", ["prefixes", "symbols"], TensorProto.INT64)
    cache = graph.input("cache", cached)
    vectors = graph.add("Gather", graph.weight("word_vectors.weight"), words)
    states = graph.times(vectors, "input.weight")
    graph.angles(words, cache)
    added = []
    for layer in range(config.layers):
        states, keys_and_values = graph.block(layer, states, cache)
        added.append(keys_and_values)
    states = graph.norm(states, "norm.scale")
    grown = graph.add("Concat", cache, graph.add("Concat", *added, axis=2), axis=1)
    state, previous = graph.last(states), graph.last(vectors)
    omega = graph.product(state, graph.weight("output.weight"), graph.weight("output.bias"))
    pointer = copying(graph, config.model_size, state, previous) if config.copying else None
    if pointer is not None:
        omega = graph.add("Add", omega, pointer.omega)
    never = np.zeros(len(model.vocabulary), dtype=np.float32)
    never[PADDING] = -np.inf
    vectors_and_bias = graph.weight("word_vectors.weight"), graph.array("never", never)
    softmax = graph.add("LogSoftmax", graph.product(omega, *vectors_and_bias), axis=1)
    graph.output("word_states", states, ["prefixes", "symbols", config.model_size])
    graph.output("next_cache", grown, ["prefixes", "symbols read", *cached[2:]])
    if pointer is not None:
        softmax = graph.add("Add", softmax, pointer.softmax_share)
        graph.output("copy_log_probabilities", pointer.log_attention, ["prefixes", "sources"])
    graph.output("log_probabilities", softmax, ["prefixes", len(model.vocabulary)])
    return graph.model("transformer")


class _TransformerGraph(Graph):
    """A graph with the pieces of a block; states are (prefixes, symbols, d)."""

    def __init__(self, model: TransformerModel) -> None:
        super().__init__(model.weights)
        self._config = model.config
        self._head_size = model.config.model_size // model.config.heads
        self._cosines = self._sines = self._mask = ""

    def times(self, states: Name, weight: Name) -> Name:
        """`x W^T` for states of three dimensions."""
        turned = self.array(f"{weight}.turned", self.weights[weight].T.copy())
        return str(self.add("MatMul", states, turned))

    def norm(self, states: Name, scale: Name) -> Name:
        """`x / sqrt(mean(x^2) + epsilon) * scale`."""
        squares = self.add("ReduceMean", self.add("Mul", states, states), axes=[-1])
        root = self.add("Sqrt", self.add("Add", squares, self._number(float(NORM_EPSILON))))
        return str(self.add("Mul", self.add("Div", states, root), self.weight(scale)))

    def last(self, states: Name) -> Name:
        """The row of the last symbol (prefixes, d)."""
        return str(self.add("Gather", states, self.array("last", np.array(-1)), axis=1))

    def angles(self, words: Name, cache: Name) -> None:
        """Cosines and sines (symbols, 1, head_size / 2), and who sees whom (symbols, all)."""
        scalar = self.array("scalar", np.array([], dtype=np.int64))
        past, symbols = (
            self.add("Reshape", self.add("Shape", value, start=1, end=2), scalar)
            for value in (cache, words)
        )
        zero, one = (self.array(f"integer_{n}", np.array(n)) for n in (0, 1))
        total = self.add("Add", past, symbols)
        positions = self._column(self.add("Range", past, total, one))
        exponents = np.arange(0, self._head_size, 2) / self._head_size
        frequencies = self.array("frequencies", (ROTARY_BASE**-exponents).astype(np.float32))
        angle = self.add("Mul", self.add("Cast", positions, to=TensorProto.FLOAT), frequencies)
        middle = self.array("axis_1", np.array([1]))
        self._cosines, self._sines = (
            self.add("Unsqueeze", self.add(function, angle), middle) for function in ("Cos", "Sin")
        )
        keys = self.add("Range", zero, total, one)
        self._mask = self.add("LessOrEqual", keys, positions)

    def block(self, layer: int, states: Name, cache: Name) -> tuple[Name, Name]:
        """The states after a block, and its keys and values (prefixes, symbols, 1, 2, d)."""
        name = f"blocks.{layer}."
        normed = self.norm(states, f"{name}attention_norm.scale")
        projected = self.times(normed, f"{name}attention_input.weight")
        parts = self.array("thirds", np.array([self._config.model_size] * 3))
        query, key, value = self.add("Split", projected, parts, outputs=3, axis=2)
        key = self._joined(self._rotated(self._by_head(key)))
        pair = self.array("axis_2", np.array([2]))
        new = self.add(
            "Concat", *(self.add("Unsqueeze", part, pair) for part in (key, value)), axis=2
        )
        of_layer = self.add("Gather", cache, self.array(f"layer_{layer}", np.array(layer)), axis=2)
        both = self.add("Concat", of_layer, new, axis=1)
        keys, values = (
            self._by_head(self.add("Gather", both, self.array(f"pick_{n}", np.array(n)), axis=2))
            for n in (0, 1)
        )
        scale = self._number(1 / math.sqrt(self._head_size))
        rotated = self.add("Mul", self._rotated(self._by_head(query)), scale)
        by_head = self.add("Transpose", rotated, perm=[0, 2, 1, 3])
        scores = self.add("MatMul", by_head, self.add("Transpose", keys, perm=[0, 2, 3, 1]))
        seen = self.add("Where", self._mask, scores, self._number(-1e9))
        shares = self.add("Softmax", seen, axis=-1)
        mixed = self.add("MatMul", shares, self.add("Transpose", values, perm=[0, 2, 1, 3]))
        joined = self._joined(self.add("Transpose", mixed, perm=[0, 2, 1, 3]))
        states = self.add("Add", states, self.times(joined, f"{name}attention_output.weight"))
        return self._feed(name, states), str(self.add("Unsqueeze", new, pair))

    def _feed(self, name: Name, states: Name) -> Name:
        """`x + W_2 gelu(W_1 N(x) + b_1) + b_2`, with the tanh form of GELU."""
        normed = self.norm(states, f"{name}feed_norm.scale")
        hidden = self.times(normed, f"{name}feed_input.weight")
        hidden = str(self.add("Add", hidden, self.weight(f"{name}feed_input.bias")))
        cube = self.add("Mul", self.add("Mul", hidden, hidden), hidden)
        inner = self.add("Add", hidden, self.add("Mul", cube, self._number(0.044715)))
        tangent = self.add("Tanh", self.add("Mul", inner, self._number(math.sqrt(2 / math.pi))))
        opened = self.add("Add", tangent, self._number(1.0))
        gelu = self.add("Mul", self.add("Mul", hidden, opened), self._number(0.5))
        output = self.times(gelu, f"{name}feed_output.weight")
        output = str(self.add("Add", output, self.weight(f"{name}feed_output.bias")))
        return str(self.add("Add", states, output))

    def _rotated(self, vectors: Name) -> Name:
        """Queries or keys (prefixes, symbols, heads, head_size) rotated by their positions."""
        halves = self.array("halves", np.array([self._head_size // 2] * 2))
        left, right = self.add("Split", vectors, halves, outputs=2, axis=3)
        products = {
            (half, angle): self.add("Mul", half, angle)
            for half in (left, right)
            for angle in (self._cosines, self._sines)
        }
        first = self.add("Sub", products[left, self._cosines], products[right, self._sines])
        second = self.add("Add", products[left, self._sines], products[right, self._cosines])
        return str(self.add("Concat", first, second, axis=3))

    def _by_head(self, vectors: Name) -> Name:
        """(prefixes, symbols, d) as (prefixes, symbols, heads, head_size)."""
        shape = np.array([0, 0, self._config.heads, self._head_size])
        return str(self.add("Reshape", vectors, self.array("by_head", shape)))

    def _joined(self, vectors: Name) -> Name:
        shape = self.array("joined", np.array([0, 0, self._config.model_size]))
        return str(self.add("Reshape", vectors, shape))

    def _column(self, values: Name) -> Name:
        return str(self.add("Unsqueeze", values, self.array("axis_1", np.array([1]))))

    def _number(self, value: float) -> Name:
        return self.array(f"number_{value!r}", np.array(value, dtype=np.float32))
