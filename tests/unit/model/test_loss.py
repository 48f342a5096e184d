"""The log-likelihood of words: exact and sampled."""

from math import e, log

import numpy as np
import pytest
import torch

from nextquery.model.loss import CandidateSampler, _softmax, log_likelihood

VECTORS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])


def test_a_likelihood_by_hand() -> None:
    total, rows = log_likelihood(
        torch.tensor([[1.0, 0.0], [0.0, 2.0]]),  # scores 1 0 0 and 0 2 0
        VECTORS,
        torch.tensor([0.0, 0.0, 1.0]),  # and the third word's bias of 1
        torch.tensor([0, 1]),
        None,
        8,
    )
    expected = [1 - log(e + 1 + e), 2 - log(1 + e**2 + e)]
    assert rows.tolist() == pytest.approx(expected)
    assert total.item() == pytest.approx(sum(expected))


def test_a_word_that_is_never_predicted_takes_no_probability() -> None:
    bias = torch.tensor([0.0, 0.0, -torch.inf])
    _, rows = log_likelihood(torch.tensor([[1.0, 0.0]]), VECTORS, bias, torch.tensor([0]), None, 8)
    assert rows.item() == pytest.approx(1 - log(e + 1))


def test_copying_adds_its_share() -> None:
    omega, bias = torch.zeros(2, 2), torch.zeros(3)  # each word has 1/3
    rival = torch.tensor([log(0.5), log(0.5)])
    _, rows = log_likelihood(omega, VECTORS, bias, torch.tensor([1, -1]), rival, 8)
    assert rows.tolist() == pytest.approx([log(1 / 3 + 0.5), log(0.5)])


@pytest.mark.parametrize("with_rival", [False, True])
def test_value_and_gradient_do_not_depend_on_the_chunk(with_rival: bool) -> None:
    torch.manual_seed(1)
    tensors = [torch.randn(7, 4), torch.randn(5, 4), torch.randn(5)]
    rival = torch.randn(7) if with_rival else None
    targets = torch.tensor([0, 1, 2, 3, 4, 0, -1 if with_rival else 1])

    def slopes(chunk: int | None) -> list[torch.Tensor]:
        omega, vectors, bias = (tensor.clone().requires_grad_() for tensor in tensors)
        more = None if rival is None else rival.clone().requires_grad_()
        if chunk is None:  # by PyTorch's own means, whole
            scores = (omega @ vectors.t() + bias).log_softmax(1)
            rows = scores.gather(1, targets.clamp(min=0)[:, None]).squeeze(1)
            rows = rows.masked_fill(targets < 0, -torch.inf)
            total = (rows if more is None else torch.logaddexp(rows, more)).sum()
        else:
            total, _ = log_likelihood(omega, vectors, bias, targets, more, chunk)
        torch.autograd.backward(3 * total)
        return [total, *(t.grad for t in (omega, vectors, bias, more) if t is not None)]  # type: ignore[list-item]

    expected = slopes(None)
    assert len(expected) == 4 + with_rival
    for chunk in (1, 3, 100):
        torch.testing.assert_close(slopes(chunk), expected, atol=1e-5, rtol=1e-5)


def test_nothing_is_kept_for_a_gradient_that_nobody_wants() -> None:
    omega = torch.zeros(1, 2, requires_grad=True)
    with torch.no_grad():
        total, _ = log_likelihood(omega, VECTORS, torch.zeros(3), torch.tensor([0]), None, 8)
    assert not total.requires_grad
    assert total.item() == pytest.approx(-log(3))


@pytest.mark.parametrize("candidates", [1, 7, 2432, 90_003])
def test_shares_are_those_of_softmax_though_made_in_place(candidates: int) -> None:
    torch.manual_seed(1)
    omega, vectors = torch.randn(3, 4), torch.randn(candidates, 4)
    bias = torch.zeros(candidates)
    bias[candidates // 2] = 200.0  # the others' p is no number of 32 bits
    log_p, shares = _softmax(omega, vectors, bias, torch.zeros(3, dtype=torch.int64))
    expected = (omega @ vectors.t() + bias).double().log_softmax(dim=1)
    torch.testing.assert_close(shares.double(), expected.exp(), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(log_p.double(), expected[:, 0], atol=1e-4, rtol=1e-5)


COUNTS = np.array([9, 256, 16, 16, 1, 0, 1])  # the first is padding, whatever its count


def test_words_are_drawn_by_their_damped_frequency() -> None:
    sampler = CandidateSampler(COUNTS, 0, 1)
    weights = np.array([0, 64, 8, 8, 1, 1, 1])  # counts of at least 1, to the power of 3/4
    np.testing.assert_allclose(sampler.frequency, weights / weights.sum())


def test_the_most_frequent_and_the_targets_are_counted_exactly() -> None:
    sampler = CandidateSampler(COUNTS, 3, 1)
    found = sampler.draw(np.array([4, 4, 1]), np.random.default_rng(1))
    exact = found.words[found.correction == 0].tolist()
    assert {1, 2, 4} <= set(exact)  # the head without padding, and the target 4
    assert found.words.tolist() == sorted(set(found.words.tolist()))
    assert 0 not in found.words
    np.testing.assert_array_equal(found.words[found.index(np.array([4, 1]))], [4, 1])


def test_a_drawn_word_stands_for_those_like_it() -> None:
    sampler = CandidateSampler(COUNTS, 2, 50)  # padding and word 1 lead: word 1 is the head
    found = sampler.draw(np.array([2, 3]), np.random.default_rng(1))
    # 4, 5 and 6 are left, alike: the weights of those drawn sum to three words.
    drawn = ~np.isin(found.words, [1, 2, 3])
    assert np.exp(found.correction[drawn]).sum() == pytest.approx(3.0)


def test_the_estimate_has_no_bias() -> None:
    rng = np.random.default_rng(5)
    counts = np.array([0, *rng.integers(1, 200, 30)])
    value = np.concatenate([[0.0], rng.random(30)])  # what each word adds to the normaliser
    sampler = CandidateSampler(counts, 4, 40)
    sums = []
    for _ in range(3000):
        found = sampler.draw(np.array([7]), rng)
        sums.append((np.exp(found.correction) * value[found.words]).sum())
    error = np.std(sums) / np.sqrt(len(sums))
    assert error < 0.02 * value.sum()
    assert abs(np.mean(sums) - value.sum()) < 4 * error
