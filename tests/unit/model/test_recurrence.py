"""Eq. 3 by hand, packed runs against single steps, and the written-out gradient."""

from math import exp, tanh

import pytest
import torch

from nextquery.model.recurrence import GRU


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def test_a_step_by_hand() -> None:
    gru = GRU(1)
    with torch.no_grad():
        gru.gates.copy_(torch.tensor([[0.5], [-1.0]]))  # H_r, H_u
        gru.candidate.fill_(2.0)  # H
    state, update = gru.step(torch.tensor([[0.1, 0.2, 0.3]]), torch.tensor([[0.4]]))
    r, u = sigmoid(0.1 + 0.5 * 0.4), sigmoid(0.2 - 1.0 * 0.4)
    candidate = tanh(0.3 + 2.0 * r * 0.4)  # the reset gate acts before the product
    assert update.item() == pytest.approx(u)
    assert state.item() == pytest.approx((1 - u) * 0.4 + u * candidate)


@pytest.mark.parametrize("biases", [False, True])
def test_packed_sequences_are_the_same_steps(biases: bool) -> None:
    torch.manual_seed(1)
    gru = GRU(3, biases)
    if gru.bias is not None:
        torch.nn.init.normal_(gru.bias)
    lengths, start = (3, 2, 2, 1), torch.randn(4, 3)
    inputs = [torch.randn(length, 9) for length in lengths]
    sizes = [sum(length > step for length in lengths) for step in range(3)]  # 4, 3, 1
    packed = torch.cat([inputs[i][[s]] for s in range(3) for i in range(4) if lengths[i] > s])
    states = gru.run(packed, sizes, start)

    place = 0
    current = [start[[i]] for i in range(4)]
    for step, size in enumerate(sizes):
        for i in range(size):
            current[i], _ = gru.step(inputs[i][[step]], current[i])
            torch.testing.assert_close(states[[place]], current[i])
            place += 1
    assert place == len(states) == 8


def test_the_gradient_is_that_of_finite_differences() -> None:
    torch.manual_seed(2)
    gru = GRU(2).double()
    inputs = torch.randn(6, 6, dtype=torch.double, requires_grad=True)
    start = torch.randn(3, 2, dtype=torch.double, requires_grad=True)

    def run(x: torch.Tensor, s: torch.Tensor, *matrices: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.func.functional_call(
            _Runner(gru), dict(zip(("gru.gates", "gru.candidate"), matrices, strict=True)), (x, s)
        )
        return found

    assert torch.autograd.gradcheck(run, (inputs, start, gru.gates, gru.candidate))


class _Runner(torch.nn.Module):
    def __init__(self, gru: GRU) -> None:
        super().__init__()
        self.gru = gru

    def forward(self, inputs: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        return self.gru.run(inputs, (3, 2, 1), start)


def test_a_sequence_without_a_step_has_no_gradient() -> None:
    gru = GRU(2)
    start = torch.randn(3, 2, requires_grad=True)
    torch.autograd.backward(gru.run(torch.randn(3, 6), (2, 1), start).sum())
    assert start.grad is not None
    assert start.grad[2].tolist() == [0.0, 0.0]
    assert (start.grad[:2] != 0).all()


def test_recurrent_matrices_are_orthogonal_at_first() -> None:
    gru = GRU(4)
    for matrix in (*gru.gates.chunk(2), gru.candidate):
        torch.testing.assert_close(matrix @ matrix.t(), torch.eye(4), atol=1e-5, rtol=0)
