"""The session Transformer against an independent NumPy transcription of its equations."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from nextquery.model.likelihood import SessionLikelihood, open_model
from nextquery.model.settings import TransformerConfig
from nextquery.model.transformer import Transformer
from nextquery.text.batching import build_batch
from nextquery.text.vocabulary import Vocabulary

from .test_likelihood import SESSIONS, SIZE, batch_of, corpus, randomised, weights_of
from .transcription import Weights, copy_attention

Array = NDArray[np.float64]
END_OF_QUERY, UNKNOWN = 1, 2
LAYERS, HEADS, WIDTH = 2, 2, 8


def build(*, copy: bool) -> SessionLikelihood:
    torch.manual_seed(1)
    config = TransformerConfig.model_validate(
        {"embedding_size": 4, "model_size": WIDTH, "layers": LAYERS, "heads": HEADS, "copy": copy}
    )
    return randomised(Transformer(config, Vocabulary(f"word{index}" for index in range(SIZE - 3))))


def norm(vector: Array, scale: Array) -> Array:
    return np.asarray(vector / np.sqrt((vector**2).mean() + 1e-6) * scale)


def rotated(vector: Array, position: int) -> Array:
    half = len(vector) // 2
    result = vector.copy()
    for index in range(half):
        angle = position / 10_000 ** (2 * index / len(vector))
        left, right = vector[index], vector[half + index]
        result[index] = left * np.cos(angle) - right * np.sin(angle)
        result[half + index] = left * np.sin(angle) + right * np.cos(angle)
    return result


def states(weights: Weights, words: Sequence[int]) -> list[Array]:
    """The state after each symbol, one symbol and one head at a time."""
    layer_inputs = [weights["input.weight"] @ weights["word_vectors.weight"][w] for w in words]
    for layer in range(LAYERS):
        name = f"blocks.{layer}."
        keys: list[Array] = []
        values: list[Array] = []
        outputs = []
        for position, state in enumerate(layer_inputs):
            normed = norm(state, weights[name + "attention_norm.scale"])
            query, key, value = np.split(weights[name + "attention_input.weight"] @ normed, 3)
            keys.append(key)
            values.append(value)
            heads = []
            for head in range(HEADS):
                part = slice(head * WIDTH // HEADS, (head + 1) * WIDTH // HEADS)
                asked = rotated(query[part], position)
                scores = np.array([asked @ rotated(k[part], at) for at, k in enumerate(keys)])
                shares = np.exp(scores / np.sqrt(WIDTH / HEADS))
                shares /= shares.sum()
                heads.append(sum(s * v[part] for s, v in zip(shares, values, strict=True)))
            state = state + weights[name + "attention_output.weight"] @ np.concatenate(heads)
            normed = norm(state, weights[name + "feed_norm.scale"])
            hidden = (
                weights[name + "feed_input.weight"] @ normed + weights[name + "feed_input.bias"]
            )
            hidden = (
                hidden / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3)))
            )
            state = state + weights[name + "feed_output.weight"] @ hidden
            outputs.append(state + weights[name + "feed_output.bias"])
        layer_inputs = outputs
    return [norm(state, weights["norm.scale"]) for state in layer_inputs]


def log_likelihoods(
    weights: Weights, session: Sequence[Sequence[int]], *, copy: bool
) -> list[float]:
    """The log-likelihood of each query of a session; words from V on are outside it."""
    symbols = [(word, number) for number, query in enumerate(session) for word in query]
    known = [END_OF_QUERY, *(word if word < SIZE else UNKNOWN for word, _ in symbols)]
    all_states = states(weights, known[:-1])
    vectors = weights["word_vectors.weight"]
    totals = [0.0] * len(session)
    for index, (target, number) in enumerate(symbols):
        state, previous = all_states[index], vectors[known[index]]
        omega = weights["output.weight"] @ state + weights["output.bias"]
        memory = [
            (word, number - query, all_states[symbol + 1])
            for symbol, (word, query) in enumerate(symbols)
            if query < number and word != END_OF_QUERY
        ]
        gate, copied = 0.0, 0.0
        if copy and memory:
            pointer, addition, gate = copy_attention(weights, state, previous, memory)
            omega = omega + addition
            pairs = zip(pointer, memory, strict=True)
            copied = sum(share for share, (word, _, _) in pairs if word == target)
        scores = np.exp(vectors @ omega)
        scores[0] = 0.0  # padding is never predicted
        softmax = scores / scores.sum()
        can_copy = copy and target in [word for word, _, _ in memory]
        generated = softmax[target] if target < SIZE else 0.0 if can_copy else softmax[UNKNOWN]
        totals[number] += float(np.log((1 - gate) * generated + gate * copied))
    return totals


@pytest.mark.parametrize("copy", [False, True])
def test_a_packed_batch_has_the_likelihood_of_the_equations(copy: bool) -> None:
    likelihood = build(copy=copy)
    weights = weights_of(likelihood)
    expected = sum(sum(log_likelihoods(weights, session, copy=copy)) for session in SESSIONS)
    total, rows = likelihood(batch_of(SESSIONS))
    assert float(total.detach()) == pytest.approx(expected, abs=1e-9)
    assert float(rows.sum()) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("copy", [False, True])
def test_only_the_last_query_can_be_predicted(copy: bool) -> None:
    likelihood = build(copy=copy)
    weights = weights_of(likelihood)
    expected = [log_likelihoods(weights, session, copy=copy)[-1] for session in SESSIONS]
    batch = build_batch(corpus(SESSIONS), np.arange(len(SESSIONS)), last_only=True)
    assert float(likelihood(batch)[0].detach()) == pytest.approx(sum(expected), abs=1e-9)


@pytest.mark.parametrize("copy", [False, True])
def test_gradients_are_those_of_finite_differences(copy: bool) -> None:
    likelihood = build(copy=copy)
    total, _ = likelihood(batch_of(SESSIONS))
    total.backward()
    weights = weights_of(likelihood)
    generator = np.random.default_rng(1)
    for name, parameter in likelihood.model.named_parameters():
        index = tuple(int(generator.integers(size)) for size in parameter.shape)
        if name == "word_vectors.weight":
            index = (3, 1)  # the row of padding has no gradient

        def moved(by: float, name: str = name, index: tuple[int, ...] = index) -> float:
            changed = {**weights, name: weights[name].copy()}
            changed[name][index] += by
            return sum(sum(log_likelihoods(changed, session, copy=copy)) for session in SESSIONS)

        numeric = (moved(1e-6) - moved(-1e-6)) / 2e-6
        assert parameter.grad is not None
        assert float(parameter.grad[index]) == pytest.approx(numeric, abs=1e-5), name


def test_a_folder_gives_the_same_network_again(tmp_path: Path) -> None:
    likelihood = build(copy=True)
    likelihood.float().model.save_pretrained(tmp_path / "model")
    opened = open_model(tmp_path / "model")
    assert isinstance(opened, Transformer)
    again = SessionLikelihood(opened, chunk=3).eval()
    assert float(again(batch_of(SESSIONS))[0].detach()) == float(
        likelihood(batch_of(SESSIONS))[0].detach()
    )
