"""What a student is trained on, against the likelihood of its words and its teachers' own words."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from nextquery.model.distillation import DistilledLikelihood, distribution, own_words
from nextquery.model.hred import HRED
from nextquery.model.likelihood import SessionLikelihood, predict
from nextquery.model.settings import TrainConfig
from nextquery.text.vocabulary import PADDING, UNKNOWN

from .test_likelihood import OTHER, OUTSIDE, SESSIONS, SIZE, batch_of, build
from .transcription import Choices

BATCH = batch_of(SESSIONS)


def model(seed: int, **settings: Any) -> HRED:
    found = build(Choices(**settings)).model
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.copy_(0.7 * torch.randn_like(parameter))
    return found


def student(own: HRED, teachers: list[HRED], share: float) -> DistilledLikelihood:
    plain = SessionLikelihood(own, chunk=3)
    return DistilledLikelihood(plain, teachers, share).double().train()


def words_of(each: HRED) -> torch.Tensor:
    """The distribution at every position of the batch."""
    with torch.no_grad():
        return distribution(each, predict(each, BATCH), BATCH, own_words(each, BATCH))


@pytest.mark.parametrize("copy", [False, True])
def test_probabilities_are_those_of_the_likelihood(copy: bool) -> None:
    own = model(1, copy=copy)
    found = words_of(own)
    assert own_words(own, BATCH).tolist() == [OUTSIDE, OTHER]
    torch.testing.assert_close(found.sum(dim=1), torch.ones(len(found), dtype=torch.float64))
    assert not found[:, PADDING].any()
    assert bool(found[:, SIZE:].any()) == copy
    with torch.no_grad():
        total, rows = student(own, [model(2)], share=0.0)(BATCH)
        expected, expected_rows = SessionLikelihood(own, chunk=3).double()(BATCH)
    torch.testing.assert_close(rows, expected_rows)
    assert float(total) == pytest.approx(float(expected), abs=1e-9)


@pytest.mark.parametrize("copy", [False, True])
def test_a_student_of_itself_has_nothing_to_learn(copy: bool) -> None:
    """The cross-entropy is least where both say the same."""
    own, teacher = model(1, copy=copy), model(1, copy=copy)
    student(own, [teacher], share=1.0)(BATCH)[0].backward()
    for name, parameter in own.named_parameters():
        assert parameter.grad is not None, name
        assert float(parameter.grad.abs().max()) < 1e-9, name
    assert all(parameter.grad is None for parameter in teacher.parameters())
    student(own, [model(2, copy=copy)], share=1.0)(BATCH)[0].backward()
    assert float(own.output_vectors.weight.grad.abs().max()) > 1e-3  # type: ignore[union-attr]


@pytest.mark.parametrize(("mine", "theirs"), list(product([False, True], repeat=2)))
def test_the_loss_is_the_mean_over_teachers_in_words_that_both_have(
    mine: bool, theirs: bool
) -> None:
    own, first, second = model(1, copy=mine), model(2, copy=theirs), model(3, copy=theirs)
    with torch.no_grad():
        total, rows = student(own, [first, second], share=0.3)(BATCH)
    found, wanted = words_of(own), (words_of(first) + words_of(second)) / 2
    if not (mine and theirs):
        for each in (found, wanted):
            each[:, UNKNOWN] += each[:, SIZE:].sum(dim=1)
        found, wanted = found[:, :SIZE], wanted[:, :SIZE]
    agreed = torch.special.xlogy(wanted, found).sum()
    assert float(total) == pytest.approx(0.7 * float(rows.sum()) + 0.3 * float(agreed), abs=1e-6)


def test_measured_it_is_a_model_like_any_other() -> None:
    own = model(1, copy=True)
    likelihood = student(own, [model(2, copy=True)], share=0.9).eval()
    expected = SessionLikelihood(own, chunk=3).double()
    with torch.no_grad():
        assert float(likelihood(BATCH)[0]) == float(expected(BATCH)[0])
    assert len(list(likelihood.parameters())) == len(list(own.parameters()))


def test_the_sampled_loss_says_too_little() -> None:
    with pytest.raises(ValueError, match="teachers need loss = exact"):
        TrainConfig(teachers=("model",), loss="sampled")
    config = TrainConfig(teachers=("model",), exact_below=10)
    assert not config.sampled(11)
    assert TrainConfig(exact_below=10).sampled(11)
    assert np.all(
        [TrainConfig(loss="sampled").sampled(1), not TrainConfig(loss="exact").sampled(9)]
    )
