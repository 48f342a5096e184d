"""HRED and its copying piece against an independent NumPy transcription of the equations."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from nextquery.model.hred import HRED
from nextquery.model.likelihood import CandidateSampler, SessionLikelihood, SessionModel
from nextquery.model.settings import ModelConfig
from nextquery.text.batching import Batch, build_batch
from nextquery.text.corpus import EncodedSessions
from nextquery.text.vocabulary import Vocabulary

from .transcription import Choices, Weights, finite_difference, session_log_likelihood

SIZE = 12
OUTSIDE, OTHER = SIZE, SIZE + 1
# Two words outside the vocabulary: one is repeated in a later query, one is new each time.
SESSIONS: list[list[list[int]]] = [
    [[3, 4, 1], [5, 1], [3, 6, 7, 1]],
    [[OUTSIDE, 4, 1], [8, OUTSIDE, 1], [OTHER, 9, 1], [OTHER, OUTSIDE, 2, 1]],
    [[10, 1], [10, 10, 11, 1]],
    [[6, 1]],
]
CHOICES = [
    Choices(),
    Choices(factored=False),
    Choices(zero_step=True),
    Choices(start_query=True),
    Choices(tied=True),
    Choices(copy=True),
    Choices(copy=True, factored=False, zero_step=True, start_query=True),
    Choices(decoder_context="output"),
    Choices(decoder_context="all"),
    Choices(decoder_context="all", zero_step=True, gru_biases=True, output_bias=True),
    Choices(decoder_context="output", copy=True),
    Choices(decoder_context="all", copy=True, tied=True, gru_biases=True, output_bias=True),
]


def build(choices: Choices) -> SessionLikelihood:
    torch.manual_seed(1)
    sizes = {"embedding_size": 4, "query_size": 5, "session_size": 6}
    config = ModelConfig.model_validate({**sizes, **vars(choices)})
    return randomised(HRED(config, Vocabulary(f"word{index}" for index in range(SIZE - 3))))


@torch.no_grad()
def randomised(model: SessionModel) -> SessionLikelihood:
    """The likelihood of a model with other weights, in float64."""
    for parameter in model.double().parameters():
        parameter.copy_(0.7 * torch.randn_like(parameter))
    return SessionLikelihood(model, chunk=3).double().eval()


def corpus(sessions: Sequence[Sequence[Sequence[int]]]) -> EncodedSessions:
    queries = [query for session in sessions for query in session]
    bounds = np.cumsum([0, *(len(session) for session in sessions)])
    return EncodedSessions(
        words=np.array([word for query in queries for word in query], dtype=np.int32),
        query_starts=np.cumsum([0, *(len(query) for query in queries)]),
        session_starts=bounds[:-1],
        session_ends=bounds[1:],
        ids=np.arange(len(sessions)),
        vocabulary_size=SIZE,
    )


def batch_of(sessions: Sequence[Sequence[Sequence[int]]]) -> Batch:
    return build_batch(corpus(sessions), np.arange(len(sessions)))


def weights_of(likelihood: SessionLikelihood) -> Weights:
    return {name: p.detach().numpy().copy() for name, p in likelihood.model.named_parameters()}


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_a_batch_has_the_likelihood_of_the_equations(choices: Choices) -> None:
    likelihood = build(choices)
    weights = weights_of(likelihood)
    expected = sum(session_log_likelihood(weights, choices, item).sum() for item in SESSIONS)
    total, rows = likelihood(batch_of(SESSIONS))
    assert float(total.detach()) == pytest.approx(expected, abs=1e-9)
    assert float(rows.sum()) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_gradients_are_those_of_finite_differences(choices: Choices) -> None:
    likelihood = build(choices)
    weights = weights_of(likelihood)
    session = SESSIONS[1]
    total, _ = likelihood(batch_of([session]))
    total.backward()
    rng = np.random.default_rng(5)
    for name, parameter in likelihood.model.named_parameters():
        assert parameter.grad is not None
        for flat in rng.choice(parameter.numel(), size=min(6, parameter.numel()), replace=False):
            position = np.unravel_index(int(flat), parameter.shape)
            if name.endswith("word_vectors.weight") and position[0] == 0:
                continue  # padding is never read
            slope = finite_difference(weights, name, position, choices, session)
            assert float(parameter.grad[position]) == pytest.approx(slope, rel=1e-5, abs=1e-7), name


@pytest.mark.parametrize("copy", [False, True])
def test_batch_size_and_order_do_not_change_a_session(copy: bool) -> None:
    likelihood = build(Choices(copy=copy))
    alone = [float(likelihood(batch_of([item]))[0].detach()) for item in SESSIONS]
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        together, _ = likelihood(batch_of([SESSIONS[index] for index in order]))
        assert float(together.detach()) == pytest.approx(sum(alone), abs=1e-9)


@pytest.mark.parametrize("copy", [False, True])
def test_the_order_of_queries_and_words_matters(copy: bool) -> None:
    likelihood = build(Choices(copy=copy))
    first, second, third = SESSIONS[0]

    def last_query(session: list[list[int]]) -> float:
        batch = build_batch(corpus([session]), np.arange(1), last_only=True)
        return float(likelihood(batch)[0].detach())

    usual = last_query([first, second, third])
    assert last_query([second, first, third]) != pytest.approx(usual, abs=1e-6)
    assert last_query([[4, 3, 1], second, third]) != pytest.approx(usual, abs=1e-6)
    assert last_query([first, second, [6, 3, 7, 1]]) != pytest.approx(usual, abs=1e-6)


@pytest.mark.parametrize("copy", [False, True])
def test_a_context_of_all_queries_is_the_whole_session(copy: bool) -> None:
    likelihood = build(Choices(copy=copy))
    sessions = corpus(SESSIONS)
    whole = float(likelihood(batch_of(SESSIONS))[0].detach())
    windows = sessions.windows(10)
    last = build_batch(windows, np.arange(len(windows)), last_only=True)
    assert float(likelihood(last)[0].detach()) == pytest.approx(whole, abs=1e-9)


def test_no_context_is_every_query_alone() -> None:
    likelihood = build(Choices(copy=True))
    windows = corpus(SESSIONS).windows(0)
    alone = [[query] for session in SESSIONS for query in session]
    expected = float(likelihood(batch_of(alone))[0].detach())
    result = likelihood(build_batch(windows, np.arange(len(windows)), last_only=True))[0]
    assert float(result.detach()) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("copy", [False, True])
def test_candidates_that_are_all_of_v_give_the_exact_loss(copy: bool, bias: bool) -> None:
    likelihood = build(Choices(copy=copy, output_bias=bias))
    batch = batch_of(SESSIONS)
    sampler = CandidateSampler(np.arange(SIZE, dtype=np.int64), head_words=SIZE, sampled_words=4)
    candidates = sampler.draw(batch.targets, np.random.default_rng(0))
    assert candidates.words.tolist() == list(range(1, SIZE))
    candidates = type(candidates)(candidates.words, candidates.correction.astype(np.float64))
    sampled, _ = likelihood(batch, candidates)
    assert float(sampled.detach()) == pytest.approx(float(likelihood(batch)[0].detach()), abs=1e-9)


def test_usefulness_is_read_off_the_last_decoder_state() -> None:
    """The sum to be raised has the head's log-likelihood; that of the words stays what it was."""
    torch.manual_seed(1)
    sizes = {"embedding_size": 4, "query_size": 5, "session_size": 6, "usefulness": True}
    model = HRED(ModelConfig.model_validate(sizes), Vocabulary(f"word{n}" for n in range(SIZE - 3)))
    likelihood = SessionLikelihood(model.double(), chunk=3, usefulness_weight=2.0).double()
    useful = np.linspace(0, 1, sum(map(len, SESSIONS)), dtype=np.float32)
    batch = build_batch(replace(corpus(SESSIONS), useful=useful), np.arange(len(SESSIONS)))
    total, rows = likelihood(batch)
    expected, position = 0.0, 0
    assert model.usefulness is not None
    for queries in SESSIONS:
        state = model.start_session()
        for query in queries:
            inputs = model.session_inputs(state)
            decoder = model.start_decoder(state, inputs)
            known = [word if word < SIZE else 2 for word in query]
            for word in known[:-1]:
                decoder = model.advance_decoder(decoder, torch.tensor([word]), inputs)
            p = torch.sigmoid(model.usefulness(decoder)).item()
            is_useful = float(useful[position])
            expected += is_useful * np.log(p) + (1 - is_useful) * np.log(1 - p)
            vector, _ = model.encode_queries(torch.tensor([known]), torch.tensor([len(known)]))
            state, _ = model.extend_session(state, vector)
            position += 1
    assert (total.detach() - rows.sum()).item() == pytest.approx(2 * expected)
    total.backward()
    assert model.usefulness.weight.grad is not None
    assert model.session_input.weight.grad is not None
