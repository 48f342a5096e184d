"""Perplexity: its numbers by hand, whatever the batches, and from fewer earlier queries."""

import math

import numpy as np
import pytest
import torch

from nextquery.model.hred import HRED
from nextquery.model.likelihood import SessionLikelihood
from nextquery.model.settings import ModelConfig
from nextquery.text.vocabulary import Vocabulary
from nextquery.training.trainer import Perplexity, measure

from .conftest import ALONE, SIZE, random_sessions


def likelihood_of(dropout: float = 0.0) -> SessionLikelihood:
    torch.manual_seed(1)
    config = ModelConfig(embedding_size=6, query_size=8, session_size=10, dropout=dropout)
    model = HRED(config, Vocabulary(f"word{index}" for index in range(SIZE - 3)))
    return SessionLikelihood(model, chunk=7)


def test_the_numbers_by_hand() -> None:
    found = Perplexity(-10 * math.log(8), 10, -4 * math.log(3), 4)
    assert found.nll == pytest.approx(math.log(8))
    assert found.perplexity == pytest.approx(8)
    assert found.known_perplexity == pytest.approx(3)


def test_perplexity_is_the_same_for_any_batch_size() -> None:
    likelihood = likelihood_of(dropout=0.5)
    sessions = random_sessions(20, 5)
    found = [measure(likelihood, sessions, ALONE, None, words) for words in (10, 1000)]
    assert found[0].nll == pytest.approx(found[1].nll, abs=1e-6)
    assert found[0].symbols == len(sessions.words)
    assert likelihood.training


def test_an_untrained_model_that_knows_nothing_is_as_good_as_chance() -> None:
    likelihood = likelihood_of()
    with torch.no_grad():
        for parameter in likelihood.parameters():
            parameter.zero_()
    found = measure(likelihood, random_sessions(20, 5), ALONE)
    assert found.perplexity == pytest.approx(SIZE - 1, rel=1e-5)  # padding is never predicted


def test_context_limits_what_a_query_is_predicted_from() -> None:
    likelihood, sessions = likelihood_of(), random_sessions(20, 5)
    with torch.no_grad():
        for parameter in likelihood.parameters():
            parameter.mul_(3)
    by_context = [measure(likelihood, sessions, ALONE, k) for k in (0, 1, 9, None)]
    assert [found.symbols for found in by_context] == [len(sessions.words)] * 4
    assert by_context[2].nll == pytest.approx(by_context[3].nll, abs=1e-6)
    assert abs(by_context[0].nll - by_context[3].nll) > 1e-3


def test_processes_share_the_sessions() -> None:
    likelihood, sessions = likelihood_of(), random_sessions(20, 5)
    whole = measure(likelihood, sessions, ALONE, batch_words=20)

    class Half:
        """One of two processes, which asks nobody else for a total."""

        def __init__(self, rank: int) -> None:
            self.rank, self.count = rank, 2

        def total(self, values: list[float]) -> list[float]:
            return values

    halves = [measure(likelihood, sessions, Half(rank), batch_words=20) for rank in (0, 1)]  # type: ignore[arg-type]
    sums = np.sum([(half.log_likelihood, half.symbols) for half in halves], axis=0)
    assert sums.tolist() == pytest.approx([whole.log_likelihood, whole.symbols])
    assert all(half.symbols > 0 for half in halves)
