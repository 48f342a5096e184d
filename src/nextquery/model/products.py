"""Products of matrices by whichever library is quickest for their sizes. Knows no model.

PyTorch multiplies by MKL, which on many processors is well below what they can do where one of the
matrices is narrow. oneDNN, which PyTorch brings along, is nearer to it, and it can lay a matrix
out once (`PackedMatrix`) for the many products of a recurrence. It makes machine code for every
size it meets, which takes longer than a small product; so what varies from batch to batch is
filled up to one of a few sizes. Both sum in single precision; the results differ by rounding.
Where oneDNN is not there, or does not compute what is asked for (another device, double
precision), or the product is small, everything is PyTorch's own product.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

_WORTHWHILE = 1 << 26
"""Multiplications from which on oneDNN gains more than its start and the filling up cost."""
_WORTH_PACKING = 512
"""Rows and columns from which on a matrix outgrows the nearest cache, and its layout matters."""
_HAS_ONEDNN = torch._C._has_mkldnn and all(
    hasattr(torch.ops.mkldnn, name) for name in ("_linear_pointwise", "_reorder_linear_weight")
)


def round_size(size: int) -> int:
    """The next of the few sizes that oneDNN is given.

    >>> [round_size(size) for size in (1, 5, 33, 130, 700, 5700)]
    [1, 8, 48, 160, 704, 5760]
    """
    if size <= 16:
        return 1 << (size - 1).bit_length()
    step = 16 if size <= 128 else 32 if size <= 512 else 64
    return -(-size // step) * step


def times_transposed(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """`left right^T + bias` of (rows, inner), (columns, inner) and (columns,); without gradients.

    >>> times_transposed(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [5.0, 6.0]]))
    tensor([[11., 17.]])
    """
    if _suits(left, right):
        return _onednn(left, right, bias)
    if bias is None:
        return left @ right.t()
    return torch.addmm(bias, left, right.t())


def transposed_times(left: Tensor, right: Tensor) -> Tensor:
    """`left^T right` of (inner, rows) and (inner, columns), as the gradient of a matrix is."""
    if not _suits(left.t(), right.t()):
        return left.t() @ right
    left, right = _filled_with_zeros(left), _filled_with_zeros(right)
    if left.shape[1] > 2 * right.shape[1]:
        # The other way round is quicker by more than it takes to turn the result.
        return _linear(right.t(), left.t()).t().contiguous()
    return _linear(left.t(), right.t())


class PackedMatrix:
    """A matrix (columns, inner), laid out once for many products with up to so many `rows`."""

    def __init__(self, matrix: Tensor, rows: int) -> None:
        self._matrix = matrix
        large = min(matrix.shape) >= _WORTH_PACKING
        self._packed = (
            torch.ops.mkldnn._reorder_linear_weight(matrix.contiguous(), round_size(rows))
            if large and rows and _computes(matrix)
            else None
        )

    def product(self, left: Tensor) -> Tensor:
        """`left matrix^T`."""
        if self._packed is None:
            return left @ self._matrix.t()
        return _onednn(left, self._packed)

    def add_product(self, given: Tensor, left: Tensor, out: Tensor) -> Tensor:
        """`given + left matrix^T`, written to `out`."""
        if self._packed is None:
            return torch.addmm(given, left, self._matrix.t(), out=out)
        return torch.add(given, _onednn(left, self._packed), out=out)


class Linear(nn.Linear):
    """`nn.Linear`, parameter for parameter, with these products."""

    def forward(self, input: Tensor) -> Tensor:
        """`input` (..., in) times the matrix, plus the bias: (..., out)."""
        rows = input.flatten(0, -2)
        if not _suits(rows, self.weight):
            return super().forward(input)
        found: Tensor = _Linear.apply(rows, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return found.view(*input.shape[:-1], -1)


class _Linear(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(rows, matrix)
        return times_transposed(rows, matrix, bias)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        rows, matrix = ctx.saved_tensors
        (slope,), wanted = slopes, ctx.needs_input_grad
        return (
            times_transposed(slope, matrix.t()) if wanted[0] else None,
            transposed_times(slope, rows) if wanted[1] else None,
            slope.sum(dim=0) if wanted[2] else None,
        )


def _suits(left: Tensor, right: Tensor) -> bool:
    (rows, inner), columns = left.shape, right.shape[0]
    return rows * inner * columns >= _WORTHWHILE and _computes(left) and _computes(right)


def _computes(matrix: Tensor) -> bool:
    """Whether oneDNN takes this kind of numbers where they are."""
    return _HAS_ONEDNN and matrix.dtype == torch.float32 and matrix.device.type == "cpu"


def _onednn(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """`left right^T + bias`; the rows of `left` are filled up with whatever is there."""
    rows, filled = len(left), round_size(len(left))
    if rows < filled:
        larger = left.new_empty((filled, left.shape[1]))
        larger[:rows] = left
        left = larger
    return _linear(left, right, bias)[:rows]


def _filled_with_zeros(matrix: Tensor) -> Tensor:
    """The matrix with rows of zeros up to a round number of rows."""
    rows = round_size(len(matrix))
    if rows == len(matrix):
        return matrix
    larger = matrix.new_empty((rows, matrix.shape[1]))
    larger[: len(matrix)] = matrix
    larger[len(matrix) :] = 0.0
    return larger


def _linear(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    found: Tensor = torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], "")
    return found
