"""Eq. 3 by hand, packed runs against single steps, gradients, and oneDNN's products."""

from math import exp, tanh

import pytest
import torch
from torch import Tensor, nn

from nextquery.model import recurrence
from nextquery.model.recurrence import (
    GRU,
    Linear,
    PackedMatrix,
    round_size,
    times_transposed,
    transposed_times,
)


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


# Large enough for oneDNN, and no round numbers.
ROWS, COLUMNS, INNER = 211, 613, 531


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(3)


def _near(found: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(found.double(), right, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("rows", [3, ROWS])
def test_a_product_with_a_transposed_matrix(rows: int) -> None:
    left, right, bias = torch.randn(rows, INNER), torch.randn(COLUMNS, INNER), torch.randn(COLUMNS)
    exact = left.double() @ right.double().t()
    _near(times_transposed(left, right), exact)
    _near(times_transposed(left, right, bias), exact + bias)


@pytest.mark.parametrize("columns", [71, COLUMNS])
@pytest.mark.parametrize("inner", [5, 1003])
def test_a_product_of_a_transposed_matrix(columns: int, inner: int) -> None:
    left, right = torch.randn(inner, COLUMNS), torch.randn(inner, columns)
    found = transposed_times(left, right)
    assert found.is_contiguous(), "an optimiser would take the slow way"
    _near(found, left.double().t() @ right.double())


@pytest.mark.parametrize("rows", [1, 7, 40, ROWS])
def test_a_packed_matrix_multiplies_any_number_of_rows(rows: int) -> None:
    matrix, left, given = (
        torch.randn(COLUMNS, INNER),
        torch.randn(rows, INNER),
        torch.randn(rows, 1),
    )
    packed, exact = PackedMatrix(matrix, 100), left.double() @ matrix.double().t()
    _near(packed.product(left), exact)
    out = torch.empty(rows, COLUMNS)
    assert packed.add_product(given.expand(-1, COLUMNS), left, out=out) is out
    _near(out, exact + given)


def test_other_numbers_are_left_to_pytorch() -> None:
    left, right = torch.randn(ROWS, INNER).double(), torch.randn(COLUMNS, INNER).double()
    assert torch.equal(times_transposed(left, right), left @ right.t())
    assert torch.equal(PackedMatrix(right, 9).product(left), left @ right.t())


def test_without_onednn_everything_is_pytorchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrence, "_HAS_ONEDNN", False)
    left, right = torch.randn(ROWS, INNER), torch.randn(COLUMNS, INNER)
    assert torch.equal(times_transposed(left, right), left @ right.t())
    assert torch.equal(PackedMatrix(right, 9).product(left), left @ right.t())
    assert torch.equal(transposed_times(left, left), left.t() @ left)


@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_is_the_layer_of_pytorch(bias: bool) -> None:
    ours = Linear(INNER, COLUMNS, bias=bias)
    plain = nn.Linear(INNER, COLUMNS, bias=bias).double()
    plain.load_state_dict(ours.state_dict())
    inputs = torch.randn(2, ROWS, INNER)
    results = []
    for layer, given in ((ours, inputs.clone()), (plain, inputs.double())):
        given.requires_grad_()
        found = layer(given)
        (found * found.detach().cos()).sum().backward()
        assert given.grad is not None
        results.append([found, given.grad, *(each.grad for each in layer.parameters())])
    for found, right in zip(*results, strict=True):
        torch.testing.assert_close(found.double(), right, rtol=1e-4, atol=1e-3)


def test_the_sizes_are_few_and_waste_little() -> None:
    sizes = {round_size(size) for size in range(1, 2000)}
    assert len(sizes) < 60
    assert all(size <= round_size(size) <= 2 * size for size in range(1, 2000))
    assert all(round_size(size) <= 1.25 * size for size in range(112, 2000))
