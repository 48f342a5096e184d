"""Networks as ONNX graphs, built from the weights alone (equations: docs/explanation/model.md).

HRED has three graphs:

    query_encoder    words of queries          -> query vectors                       (Eq. 4)
    session_encoder  a session, one more query -> the next session state              (Eq. 5)
    decoder          a prefix, one more word   -> its state, what may come next       (Eq. 7-10)

The session Transformer has one. Symbols that follow each other and the key-value cache before them
go in; the cache after them, the states of the symbols and what may come next come out. Reading a
session and adding a word to a prefix are the same call.

Only operators of every runtime are used.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from nextquery.errors import InputError
from nextquery.inference.hred_network import HREDNetwork, Recurrence
from nextquery.inference.transformer import TransformerModel
from nextquery.inference.transformer_blocks import NORM_EPSILON, ROTARY_BASE
from nextquery.inference.weights import Floats, Weights
from nextquery.model.settings import AGES
from nextquery.text.vocabulary import PADDING

OPSET = 17
IR_VERSION = 8
"""What runtimes of 2022 and later read."""
_LARGEST = 2**31 - 2**20
"""A file of ONNX is one message of at most 2 GB."""

Name = str
Shape = Sequence[int | str]


class Graph:
    """A graph on its way: every operator is added by a call and named by what it gives."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._arrays: dict[Name, NDArray[Any]] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def add(self, operator: str, *inputs: Name, **attributes: Any) -> Name:
        """One operator; the name of its output."""
        [name] = self.add_several(1, operator, *inputs, **attributes)
        return name

    def add_several(
        self, outputs: int, operator: str, *inputs: Name, **attributes: Any
    ) -> tuple[Name, ...]:
        """One operator with several outputs; their names."""
        number = len(self._nodes)
        names = tuple(f"{operator.lower()}_{number}_{index}" for index in range(outputs))
        self._nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return names

    def split(self, value: Name, sizes: Sequence[int], axis: int) -> tuple[Name, ...]:
        """The parts of a value, of these sizes along an axis."""
        parts = self.array(f"sizes_{'_'.join(map(str, sizes))}", np.array(sizes))
        return self.add_several(len(sizes), "Split", value, parts, axis=axis)

    def array(self, name: Name, values: NDArray[Any]) -> Name:
        """An array of the graph, once, however often it is asked for."""
        self._arrays.setdefault(name, values)
        return name

    def weight(self, name: Name) -> Name:
        """A weight of the model by its name."""
        return self.array(name, self.weights[name])

    def input(self, name: Name, shape: Shape, kind: int = TensorProto.FLOAT) -> Name:
        """An input of the graph."""
        self._inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name: Name, value: Name, shape: Shape) -> None:
        """An output of the graph."""
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def product(self, value: Name, weight: Name, *bias: Name) -> Name:
        """`x W^T`, plus a bias."""
        return self.add("Gemm", value, weight, *bias, transB=1)

    def linear(self, value: Name, name: Name) -> Name:
        """A linear layer of the model by its name, with its bias if it has one."""
        bias = f"{name}.bias"
        biases = [self.weight(bias)] if bias in self.weights else []
        return self.product(value, self.weight(f"{name}.weight"), *biases)

    def model(self, name: str) -> onnx.ModelProto:
        """The whole graph, checked."""
        size = sum(values.nbytes for values in self._arrays.values())
        if size > _LARGEST:
            raise InputError(
                f"{name}.onnx would have {size / 1e9:.1f} GB, and a file of ONNX at most 2; "
                "train with factored = true or a smaller vocabulary"
            )
        arrays = [
            numpy_helper.from_array(np.asarray(values, order="C"), key)
            for key, values in self._arrays.items()
        ]
        graph = helper.make_graph(self._nodes, name, self._inputs, self._outputs, arrays)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="nextquery"
        )
        onnx.checker.check_model(model, full_check=True)
        return model


class _HREDGraph(Graph):
    """A graph with the steps that HRED repeats."""

    def __init__(self, network: HREDNetwork) -> None:
        super().__init__(network.weights)
        self.network = network

    def project(self, name: Name, words: Name) -> Name:
        """A matrix over one-hot words (Eq. 3 and 10)."""
        matrix = self.weight(f"{name}.matrix.weight")
        if not self.network.config.factored:
            return self.add("Gather", matrix, words)
        return self.product(self.add("Gather", self.weight("word_vectors.weight"), words), matrix)

    def recurrence(self, name: Name, projected: Name, state: Name, size: int) -> Name:
        """One step of the GRU of Eq. 3 as ONNX operators; `projected` is (rows, 3 d).

        ONNX's own GRU operator runs whole sequences; a decoder needs single steps.
        """
        if f"{name}.bias" in self.weights:
            projected = self.add("Add", projected, self.weight(f"{name}.bias"))
        gates_input, candidate_input = self.split(projected, [2 * size, size], axis=1)
        raw = self.add("Add", self.product(state, self.weight(f"{name}.gates")), gates_input)
        reset, update = self.split(self.add("Sigmoid", raw), [size, size], axis=1)
        reset_product = self.product(
            self.add("Mul", reset, state), self.weight(f"{name}.candidate")
        )
        candidate = self.add("Tanh", self.add("Add", reset_product, candidate_input))
        change = self.add("Mul", update, self.add("Sub", candidate, state))
        return self.add("Add", state, change)


def query_encoder(network: HREDNetwork) -> onnx.ModelProto:
    """Eq. 4: `words` (queries, words) with `lengths` (queries,) become query vectors.

    ONNX's GRU keeps the share of the old state, not of the new one: the update gate is negated.
    """
    graph, size = _HREDGraph(network), network.config.query_size
    words = graph.input("words", ["queries", "words"], TensorProto.INT64)
    lengths = graph.input("lengths", ["queries"], TensorProto.INT64)
    matrix = network.weights["encoder_input.matrix.weight"]
    if network.config.factored:
        table = graph.weight("word_vectors.weight")
    else:
        table, matrix = graph.weight("encoder_input.matrix.weight"), np.eye(3 * size, dtype="f4")
    rows = graph.add("Transpose", graph.add("Gather", table, words), perm=[1, 0, 2])
    kernels = np.concatenate(
        [network.weights[f"encoder.{name}"] for name in ("gates", "candidate")]
    )
    states, last = graph.add_several(
        2,
        "GRU",
        rows,
        graph.array("encoder.input", _gru(matrix)[None]),
        graph.array("encoder.own", _gru(kernels)[None]),
        graph.array("encoder.bias", _gru_bias(network.encoder, size)),
        graph.add("Cast", lengths, to=TensorProto.INT32),
        hidden_size=size,
    )
    first = graph.array("first", np.array([0]))
    graph.output("query_vector", graph.add("Squeeze", last, first), ["queries", size])
    if network.config.copying:
        direction = graph.array("direction", np.array([1]))
        turned = graph.add("Transpose", graph.add("Squeeze", states, direction), perm=[1, 0, 2])
        graph.output("word_states", turned, ["queries", "words", size])
    return graph.model("query_encoder")


def _gru(rows: Floats) -> Floats:
    """Our order (reset, update, candidate) in ONNX's (update, reset, candidate)."""
    reset, update, candidate = np.split(rows, 3)
    return np.concatenate([-update, reset, candidate])


def _gru_bias(recurrence: Recurrence, size: int) -> Floats:
    bias = np.zeros(3 * size, dtype=np.float32) if recurrence.bias is None else recurrence.bias
    return np.concatenate([_gru(bias), np.zeros_like(bias)])[None]


def session_encoder(network: HREDNetwork) -> onnx.ModelProto:
    """Eq. 5: `s_m` from `s_{m-1}` and the vector of query m, for any number of sessions."""
    graph, config = _HREDGraph(network), network.config
    state = graph.input("session_state", ["sessions", config.session_size])
    vector = graph.input("query_vector", ["sessions", config.query_size])
    projected = graph.linear(vector, "session_input")
    after = graph.recurrence("session_encoder", projected, state, config.session_size)
    graph.output("next_session_state", after, ["sessions", config.session_size])
    return graph.model("session_encoder")


def decoder(network: HREDNetwork) -> onnx.ModelProto:
    """Eq. 7 to 10: prefixes with one more word each, and what may come next.

    The word 0 (padding) begins a query: the state that is given then counts for nothing.
    """
    graph, config = _HREDGraph(network), network.config
    session = graph.input("session_state", ["prefixes", config.session_size])
    before = graph.input("decoder_state", ["prefixes", config.query_size])
    word = graph.input("word", ["prefixes"], TensorProto.INT64)
    begins = graph.add(
        "Unsqueeze",
        graph.add("Equal", word, graph.array("padding", np.array([PADDING]))),
        graph.array("columns", np.array([1])),
    )
    state = graph.add(
        "Where", begins, _first_state(graph, session), _next_state(graph, session, before, word)
    )
    nothing = graph.array("nothing", np.zeros(1, dtype=np.float32))
    previous = graph.add("Where", begins, nothing, graph.project("output_word", word))
    omega = graph.add("Add", graph.linear(state, "output_state"), previous)
    if "output_session.weight" in network.weights:
        omega = graph.add("Add", omega, graph.linear(session, "output_session"))
    graph.output("next_decoder_state", state, ["prefixes", config.query_size])
    table = "word_vectors.weight" if config.tied else "output_vectors.weight"
    bias = network.weights.get("output_bias", np.zeros(len(network.vocabulary)))
    size = config.query_size if config.copying else None
    predict(graph, state, previous, omega, table, bias, size)
    return graph.model("decoder")


def _first_state(graph: _HREDGraph, session: Name) -> Name:
    """Eq. 7: `d_0`, after a step on a zero input with `zero_step`."""
    start = graph.add("Tanh", graph.linear(session, "decoder_start"))
    if not graph.network.config.zero_step:
        return start
    size = graph.network.config.query_size
    if "decoder_session.weight" in graph.network.weights:
        projected = graph.linear(session, "decoder_session")
    else:
        projected = graph.array("zero_input", np.zeros((1, 3 * size), dtype=np.float32))
    return graph.recurrence("decoder", projected, start, size)


def _next_state(graph: _HREDGraph, session: Name, before: Name, word: Name) -> Name:
    """Eq. 8: `d_n`."""
    projected = graph.project("decoder_input", word)
    if "decoder_session.weight" in graph.network.weights:
        projected = graph.add("Add", projected, graph.linear(session, "decoder_session"))
    return graph.recurrence("decoder", projected, before, graph.network.config.query_size)


def predict(
    graph: Graph,
    state: Name,
    previous: Name,
    omega: Name,
    table: Name,
    bias: NDArray[Any],
    copied_size: int | None,
) -> None:
    """The outputs of Eq. 9: the softmax over the words of `table`, and what copying gives.

    `copied_size` is the size of a source's state; None without copying.
    """
    copied = copying(graph, copied_size, state, previous) if copied_size is not None else None
    if copied is not None:
        omega = graph.add("Add", omega, copied[0])
    added = bias.astype(np.float32)
    added[PADDING] = -np.inf  # padding is not a word
    product = graph.product(omega, graph.weight(table), graph.array("output.added", added))
    softmax = graph.add("LogSoftmax", product, axis=1)
    if copied is not None:
        graph.output("copy_log_probabilities", copied[1], ["prefixes", "sources"])
        softmax = graph.add("Add", softmax, copied[2])
    graph.output("log_probabilities", softmax, ["prefixes", len(bias)])


def copying(graph: Graph, size: int, state: Name, previous: Name) -> tuple[Name, Name, Name]:
    """Attention over the words of the session so far, which all prefixes share.

    `state` is (prefixes, size), `previous` (prefixes, d_e). Returns what is added to omega, the
    log-probability of every source, and what is added to that of every word.
    """
    sources = graph.input("source_states", ["sources", size])
    ages = graph.input("source_ages", ["sources"], TensorProto.INT64)
    inputs = graph.add("Concat", state, previous, axis=1)
    query, keys = graph.linear(inputs, "copying.query"), graph.linear(sources, "copying.key")
    scale = graph.array("scale", np.array([size**-0.5], dtype=np.float32))
    near = graph.add("Mul", graph.product(query, keys), scale)
    # A source of age 0 is none: an empty session has one of these, so that no tensor is empty.
    zero, one, most = (graph.array(f"age_{age}", np.array(age)) for age in (0, 1, AGES))
    absent = graph.add("Equal", ages, zero)
    indices = graph.add("Sub", graph.add("Min", graph.add("Max", ages, one), most), one)
    scores = graph.add("Add", near, graph.add("Gather", graph.weight("copying.age"), indices))
    never, nothing = (graph.array(f"float_{n}", np.array(n, "f4")) for n in (-np.inf, 0))
    least = graph.array("least", np.array(-1e9, dtype=np.float32))
    scores = graph.add("Where", absent, least, scores)
    log_attention = graph.add("LogSoftmax", scores, axis=1)
    attention = graph.add("Where", absent, nothing, graph.add("Exp", log_attention))
    seen = graph.add("MatMul", attention, sources)
    parts = graph.add("Concat", inputs, seen, axis=1)
    gate = graph.linear(parts, "copying.gate")
    copied, generated = (_log_sigmoid(graph, value) for value in (gate, graph.add("Neg", gate)))
    empty = graph.add("Equal", graph.add("ReduceMax", ages, keepdims=0), zero)
    return (
        graph.linear(seen, "copying.output"),
        graph.add("Where", absent, never, graph.add("Add", log_attention, copied)),
        graph.add("Where", empty, nothing, generated),
    )


def _log_sigmoid(graph: Graph, value: Name) -> Name:
    """`-softplus(-x)`."""
    return graph.add("Neg", graph.add("Softplus", graph.add("Neg", value)))


GRAPHS = {
    "query_encoder": query_encoder,
    "session_encoder": session_encoder,
    "decoder": decoder,
}


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
    omega = graph.linear(state, "output")
    graph.output("word_states", states, ["prefixes", "symbols", config.model_size])
    graph.output("next_cache", grown, ["prefixes", "symbols read", *cached[2:]])
    bias = np.zeros(len(model.vocabulary))
    size = config.model_size if config.copying else None
    predict(graph, state, previous, omega, "word_vectors.weight", bias, size)
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
        return self.add("MatMul", states, turned)

    def norm(self, states: Name, scale: Name) -> Name:
        """`x / sqrt(mean(x^2) + epsilon) * scale`."""
        squares = self.add("ReduceMean", self.add("Mul", states, states), axes=[-1])
        root = self.add("Sqrt", self.add("Add", squares, self._number(float(NORM_EPSILON))))
        return self.add("Mul", self.add("Div", states, root), self.weight(scale))

    def last(self, states: Name) -> Name:
        """The row of the last symbol (prefixes, d)."""
        return self.add("Gather", states, self.array("last", np.array(-1)), axis=1)

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
        query, key, value = self.split(projected, [self._config.model_size] * 3, axis=2)
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
        return self._feed(name, states), self.add("Unsqueeze", new, pair)

    def _feed(self, name: Name, states: Name) -> Name:
        """`x + W_2 gelu(W_1 N(x) + b_1) + b_2`, with the tanh form of GELU."""
        normed = self.norm(states, f"{name}feed_norm.scale")
        hidden = self.times(normed, f"{name}feed_input.weight")
        hidden = self.add("Add", hidden, self.weight(f"{name}feed_input.bias"))
        cube = self.add("Mul", self.add("Mul", hidden, hidden), hidden)
        inner = self.add("Add", hidden, self.add("Mul", cube, self._number(0.044715)))
        tangent = self.add("Tanh", self.add("Mul", inner, self._number(math.sqrt(2 / math.pi))))
        opened = self.add("Add", tangent, self._number(1.0))
        gelu = self.add("Mul", self.add("Mul", hidden, opened), self._number(0.5))
        output = self.times(gelu, f"{name}feed_output.weight")
        output = self.add("Add", output, self.weight(f"{name}feed_output.bias"))
        return self.add("Add", states, output)

    def _rotated(self, vectors: Name) -> Name:
        """Queries or keys (prefixes, symbols, heads, head_size) rotated by their positions."""
        left, right = self.split(vectors, [self._head_size // 2] * 2, axis=3)
        products = {
            (half, angle): self.add("Mul", half, angle)
            for half in (left, right)
            for angle in (self._cosines, self._sines)
        }
        first = self.add("Sub", products[left, self._cosines], products[right, self._sines])
        second = self.add("Add", products[left, self._sines], products[right, self._cosines])
        return self.add("Concat", first, second, axis=3)

    def _by_head(self, vectors: Name) -> Name:
        """(prefixes, symbols, d) as (prefixes, symbols, heads, head_size)."""
        shape = np.array([0, 0, self._config.heads, self._head_size])
        return self.add("Reshape", vectors, self.array("by_head", shape))

    def _joined(self, vectors: Name) -> Name:
        shape = self.array("joined", np.array([0, 0, self._config.model_size]))
        return self.add("Reshape", vectors, shape)

    def _column(self, values: Name) -> Name:
        return self.add("Unsqueeze", values, self.array("axis_1", np.array([1])))

    def _number(self, value: float) -> Name:
        return self.array(f"number_{value!r}", np.array(value, dtype=np.float32))
