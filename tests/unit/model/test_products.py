"""Products by oneDNN are those of PyTorch, up to rounding, with their gradients."""

import pytest
import torch
from torch import Tensor, nn

from nextquery.model import recurrence
from nextquery.model.recurrence import (
    Linear,
    PackedMatrix,
    round_size,
    times_transposed,
    transposed_times,
)

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
