"""Products of packed matrices, exact and rough."""

import pytest
import torch

from nextquery.inference.kernels.packed_matrix import PackedMatrix, QuantisedMatrix


@pytest.mark.parametrize("count", [1, 4, 6, 11, 50, 52, 76])
def test_any_number_of_rows_gives_that_many_products(count: int) -> None:
    torch.manual_seed(2)
    matrix, rows, bias = torch.randn(128, 16), torch.randn(count, 16), torch.randn(128)
    expected = rows @ matrix.t() + bias
    torch.testing.assert_close(PackedMatrix(matrix, bias).product(rows), expected)
    rough = QuantisedMatrix([matrix], bias).product(rows)
    assert ((rough - expected).abs() <= rounding_bound(rows, matrix) + 1e-4).all()


def rounding_bound(rows: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """How far a product can be off when both sides are rounded: 7 bits where VNNI is missing."""
    levels = 127 if torch.cpu._is_vnni_supported() else 63
    of_rows = rows.abs().max() / levels / 2
    of_matrix = matrix.abs().amax(dim=1) / 127 / 2  # (outputs,)
    inputs = matrix.shape[1]
    return (
        of_rows * matrix.abs().sum(dim=1)
        + of_matrix * rows.abs().sum(dim=1, keepdim=True)
        + inputs * of_rows * of_matrix
    )


def test_eight_bits_may_come_in_blocks() -> None:
    torch.manual_seed(3)
    matrix, rows, bias = torch.randn(96, 8), torch.randn(4, 8), torch.zeros(96)
    whole = QuantisedMatrix([matrix], bias).product(rows)
    parts = QuantisedMatrix(torch.split(matrix, 40), bias).product(rows)
    torch.testing.assert_close(parts, whole, rtol=0, atol=0)


def test_a_row_of_zeros_has_zero_products() -> None:
    zeros = torch.zeros((2, 8))
    product = QuantisedMatrix([torch.randn(32, 8)], torch.zeros(32)).product(zeros)
    assert not product.any()
