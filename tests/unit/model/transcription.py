"""The paper's equations in NumPy, one query and one word at a time, in float64.

Written from the paper alone and sharing nothing with the package: no batches, no packing, no
chunks. `weights` holds the model's parameters by name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weights = dict[str, Array]
END_OF_QUERY, UNKNOWN = 1, 2


@dataclass(frozen=True)
class Choices:
    """The points where the authors' code differs from the paper, and copying."""

    factored: bool = True
    zero_step: bool = False
    start_query: bool = False
    tied: bool = False
    copy: bool = False
    decoder_context: str = "first"
    gru_biases: bool = False
    output_bias: bool = False


def sigmoid(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def gru(weights: Weights, name: str, projected: Array, state: Array) -> Array:
    """Eq. 3 with the input's products `I_r w`, `I_u w` and `I w` one above the other."""
    d = len(state)
    gates = weights[f"{name}.gates"]
    if f"{name}.bias" in weights:
        projected = projected + weights[f"{name}.bias"]
    r = sigmoid(projected[:d] + gates[:d] @ state)
    u = sigmoid(projected[d : 2 * d] + gates[d:] @ state)
    candidate = np.tanh(projected[2 * d :] + weights[f"{name}.candidate"] @ (r * state))
    return np.asarray((1 - u) * state + u * candidate)


def project(weights: Weights, choices: Choices, name: str, word: int) -> Array:
    """`I w` or `E_o w` of a one-hot word."""
    matrix = weights[f"{name}.matrix.weight"]
    if not choices.factored:
        return np.asarray(matrix[word])
    return np.asarray(matrix @ weights["word_vectors.weight"][word])


def encode(weights: Weights, choices: Choices, query: Sequence[int]) -> list[Array]:
    """Eq. 4: the state after each word."""
    state = np.zeros(weights["encoder.candidate"].shape[0])
    states = []
    for word in query:
        state = gru(weights, "encoder", project(weights, choices, "encoder_input", word), state)
        states.append(state)
    return states


def extend(weights: Weights, session: Array, query_vector: Array) -> Array:
    """Eq. 5."""
    return gru(weights, "session_encoder", weights["session_input.weight"] @ query_vector, session)


def copy_attention(
    weights: Weights, state: Array, previous: Array, memory: Sequence[tuple[int, int, Array]]
) -> tuple[Array, Array, float]:
    """The pointer over `memory` (word, age, state), what it adds to omega, and the gate."""
    here = np.concatenate([state, previous])
    asked = weights["copying.query.weight"] @ here
    scores = np.array(
        [
            asked @ (weights["copying.key.weight"] @ source) / np.sqrt(len(state))
            + weights["copying.age"][min(age, 10) - 1]
            for _, age, source in memory
        ]
    )
    pointer = np.exp(scores - scores.max())
    pointer /= pointer.sum()
    context = sum(share * source for share, (_, _, source) in zip(pointer, memory, strict=True))
    gate = weights["copying.gate.weight"][0] @ np.concatenate([here, context])
    gate = sigmoid(gate + weights["copying.gate.bias"][0])
    return pointer, weights["copying.output.weight"] @ context, float(gate)


def log_probability(
    weights: Weights,
    choices: Choices,
    state: Array,
    previous: int | None,
    session: Array,
    memory: Sequence[tuple[int, int, Array]],
    target: int,
) -> float:
    """Eq. 9 and 10, mixed with the pointer if there is something to copy."""
    outputs = weights["word_vectors.weight" if choices.tied else "output_vectors.weight"]
    size, d_e = outputs.shape
    echo = np.zeros(d_e) if previous is None else project(weights, choices, "output_word", previous)
    omega = weights["output_state.weight"] @ state + weights["output_state.bias"] + echo
    if choices.decoder_context in ("output", "all"):
        omega = omega + weights["output_session.weight"] @ session
    gate, copied = 0.0, 0.0
    result = [word for word, _, _ in memory]
    if choices.copy and memory:
        pointer, addition, gate = copy_attention(weights, state, echo, memory)
        omega = omega + addition
        copied = sum(share for share, word in zip(pointer, result, strict=True) if word == target)
    scores = np.exp(outputs @ omega + (weights["output_bias"] if choices.output_bias else 0.0))
    scores[0] = 0.0  # padding is never predicted
    softmax = scores / scores.sum()
    if target < size:
        generated = softmax[target]
    else:
        generated = 0.0 if choices.copy and target in result else softmax[UNKNOWN]
    return float(np.log((1 - gate) * generated + gate * copied))


def session_log_likelihood(
    weights: Weights, choices: Choices, session: Sequence[Sequence[int]]
) -> Array:
    """Eq. 11: the log-likelihood of each query; words from V on lie outside the vocabulary."""
    size = len(weights["word_vectors.weight" if choices.tied else "output_vectors.weight"])
    state = np.zeros(weights["session_encoder.candidate"].shape[0])
    if choices.start_query:
        state = extend(weights, state, encode(weights, choices, [END_OF_QUERY])[-1])
    history: list[tuple[int, int, Array]] = []  # word, query, state
    totals = []
    for number, query in enumerate(session):
        inputs = [word if word < size else UNKNOWN for word in query]
        decoder = np.tanh(weights["decoder_start.weight"] @ state + weights["decoder_start.bias"])
        steady = np.zeros(3 * len(decoder))  # what every step is given in addition to the word
        if choices.decoder_context == "all":
            steady = weights["decoder_session.weight"] @ state
        if choices.zero_step:
            decoder = gru(weights, "decoder", steady, decoder)
        memory = [(word, number - asked, source) for word, asked, source in history]
        total, previous = 0.0, None
        for word, known in zip(query, inputs, strict=True):
            total += log_probability(weights, choices, decoder, previous, state, memory, word)
            projected = project(weights, choices, "decoder_input", known)
            decoder = gru(weights, "decoder", projected + steady, decoder)
            previous = known
        totals.append(total)
        states = encode(weights, choices, inputs)
        history += [(w, number, s) for w, s in zip(query, states, strict=True) if w != END_OF_QUERY]
        state = extend(weights, state, states[-1])
    return np.array(totals)


def finite_difference(
    weights: Weights, name: str, index: Any, choices: Choices, session: Sequence[Sequence[int]]
) -> float:
    """The gradient of a session's log-likelihood along one weight."""
    step = 1e-6

    def moved(by: float) -> float:
        changed = weights[name].copy()
        changed[index] += by
        return float(session_log_likelihood({**weights, name: changed}, choices, session).sum())

    return (moved(step) - moved(-step)) / (2 * step)
