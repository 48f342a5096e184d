"""The gated recurrent unit of Eq. 3 in PyTorch, and matrix products that oneDNN computes faster.

`GRU.step` is one step by autograd: the reference, and what starts sessions and decoders.
`GRU.run` is all steps of packed sequences with the gradient written out, which training needs: each
matrix's gradient is one product instead of one per step.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

_WORTHWHILE = 1 << 26
"""Multiplications from which on oneDNN is faster, its start and the padding included."""
_WORTH_PACKING = 512
"""Rows and columns from which on a matrix outgrows the nearest cache, and its layout matters."""
_HAS_ONEDNN = torch._C._has_mkldnn and all(
    hasattr(torch.ops.mkldnn, name) for name in ("_linear_pointwise", "_reorder_linear_weight")
)


def round_size(size: int) -> int:
    """The next of the few sizes that oneDNN gets: it keeps a program per number of rows.

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
        # The other order is faster, the transposition of the result included.
        return _linear(right.t(), left.t()).t().contiguous()
    return _linear(left.t(), right.t())


class PackedMatrix:
    """A matrix (columns, inner), laid out once for many products with at most `rows` rows."""

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

    def add_product(self, addend: Tensor, left: Tensor, out: Tensor) -> Tensor:
        """`addend + left matrix^T`, written to `out`."""
        if self._packed is None:
            return torch.addmm(addend, left, self._matrix.t(), out=out)
        return torch.add(addend, _onednn(left, self._packed), out=out)


class Linear(nn.Linear):
    """`nn.Linear`, parameter for parameter, with these products."""

    def forward(self, input: Tensor) -> Tensor:
        """`input` (..., in) times the matrix, plus the bias: (..., out)."""
        rows = input.flatten(0, -2)
        if not _suits(rows, self.weight):
            return super().forward(input)
        outputs: Tensor = _Linear.apply(  # type: ignore[no-untyped-call]
            rows, self.weight, self.bias
        )
        return outputs.view(*input.shape[:-1], -1)


class _Linear(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(rows, matrix)
        return times_transposed(rows, matrix, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows, matrix = ctx.saved_tensors
        (grad,), needed = grads, ctx.needs_input_grad
        return (
            times_transposed(grad, matrix.t()) if needed[0] else None,
            transposed_times(grad, rows) if needed[1] else None,
            grad.sum(dim=0) if needed[2] else None,
        )


def _suits(left: Tensor, right: Tensor) -> bool:
    (rows, inner), columns = left.shape, right.shape[0]
    return rows * inner * columns >= _WORTHWHILE and _computes(left) and _computes(right)


def _computes(matrix: Tensor) -> bool:
    """Whether oneDNN computes with this type on this device."""
    return _HAS_ONEDNN and matrix.dtype == torch.float32 and matrix.device.type == "cpu"


def _onednn(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """`left right^T + bias`; `left` is padded with rows of any content."""
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
    product: Tensor = torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], "")
    return product


class GRU(nn.Module):
    """The recurrence of Eq. 3; inputs arrive already multiplied by `I_r`, `I_u` and `I`.

    Eq. 3 has no biases; with `biases` they are added to the inputs.
    """

    def __init__(self, state_size: int, biases: bool = False) -> None:
        super().__init__()
        self.state_size = state_size
        self.gates = nn.Parameter(torch.empty(2 * state_size, state_size))  # H_r above H_u
        self.candidate = nn.Parameter(torch.empty(state_size, state_size))  # H
        # b_r, b_u and b, one above the other
        self.bias = nn.Parameter(torch.zeros(3 * state_size)) if biases else None
        if not self.gates.is_meta:
            for matrix in (*self.gates.chunk(2), self.candidate):
                nn.init.orthogonal_(matrix.data)

    def step(self, projected: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step: the next states (rows, d) and the update gates `u_n` (rows, d).

        Differentiated by autograd: the reference for `run` and for NumPy. `projected` is
        (rows, 3 d): the input's share of reset gate, update gate and candidate.
        """
        d = self.state_size
        projected = self._with_bias(projected)
        gates = torch.sigmoid(torch.addmm(projected[:, : 2 * d], state, self.gates.t()))
        reset, update = gates[:, :d], gates[:, d:]
        candidate = torch.tanh(
            torch.addmm(projected[:, 2 * d :], reset * state, self.candidate.t())
        )
        return state + update * (candidate - state), update

    def run(self, projected: Tensor, sizes: Sequence[int], state: Tensor) -> Tensor:
        """All steps of packed sequences: the states after each step, packed alike (total, d).

        Exists for its gradient, written out so that it has one product per matrix. `projected`
        is (total, 3 d), `sizes` the number of sequences that have step 1, 2, ...,
        `state` (sequences, d) the state before the first step.
        """
        states: Tensor = _Packed.apply(  # type: ignore[no-untyped-call]
            self._with_bias(projected), state, self.gates, self.candidate, tuple(sizes)
        )
        return states

    def _with_bias(self, projected: Tensor) -> Tensor:
        return projected if self.bias is None else projected + self.bias


class _Packed(Function):
    """All steps at once, with the gradient written out: each matrix's is one product, not many."""

    @staticmethod
    def forward(
        ctx: Any,
        projected: Tensor,
        state: Tensor,
        gate_matrix: Tensor,
        candidate_matrix: Tensor,
        sizes: tuple[int, ...],
    ) -> Tensor:
        total, d = len(projected), state.shape[1]
        ctx.sizes, ctx.sequences = sizes, len(state)
        # The state before each step, the state after it, and what the reset gate kept.
        before, states, kept, candidates = (state.new_empty((total, d)) for _ in range(4))
        gates = state.new_empty((total, 2 * d))  # r_n and u_n
        rows_per_step = sizes[0] if sizes else 0
        gate_product = PackedMatrix(gate_matrix, rows_per_step)
        candidate_product = PackedMatrix(candidate_matrix, rows_per_step)
        for rows in _steps(sizes):
            previous = before[rows].copy_(state[: rows.stop - rows.start])
            gate_product.add_product(projected[rows, : 2 * d], previous, out=gates[rows])
            reset, update = gates[rows].sigmoid_().chunk(2, dim=1)
            torch.mul(reset, previous, out=kept[rows])
            candidate = candidates[rows]
            candidate_product.add_product(projected[rows, 2 * d :], kept[rows], out=candidate)
            state = torch.lerp(previous, candidate.tanh_(), update, out=states[rows])
        ctx.save_for_backward(before, kept, candidates, gates, gate_matrix, candidate_matrix)
        return states

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        before, kept, candidates, gates, gate_matrix, candidate_matrix = ctx.saved_tensors
        total, d = before.shape
        grad_inputs = before.new_empty((total, 3 * d))  # d loss / d projected
        carried = before.new_zeros((0, d))  # d loss / d state, from the step after
        rows_per_step = ctx.sizes[0] if ctx.sizes else 0
        gate_product = PackedMatrix(gate_matrix.t(), rows_per_step)
        candidate_product = PackedMatrix(candidate_matrix.t(), rows_per_step)
        for rows in reversed(_steps(ctx.sizes)):
            grad = grads[0][rows].clone()
            grad[: len(carried)] += carried
            reset, update = gates[rows].chunk(2, dim=1)
            candidate, previous = candidates[rows], before[rows]
            grad_reset, grad_update, grad_candidate = grad_inputs[rows].chunk(3, dim=1)
            candidate_grad = grad * update
            torch.ops.aten.tanh_backward.grad_input(
                candidate_grad, candidate, grad_input=grad_candidate
            )
            _sigmoid_backward((candidate - previous).mul_(grad), update, out=grad_update)
            grad_kept = candidate_product.product(grad_candidate)
            _sigmoid_backward(grad_kept * previous, reset, out=grad_reset)
            passed = grad.sub_(candidate_grad).addcmul_(grad_kept, reset)
            carried = gate_product.add_product(passed, grad_inputs[rows, : 2 * d], out=passed)
        return (
            grad_inputs,
            # Sequences without a step have no influence through this recurrence.
            functional.pad(carried, (0, 0, 0, ctx.sequences - len(carried))),
            transposed_times(grad_inputs[:, : 2 * d], before),
            transposed_times(grad_inputs[:, 2 * d :], kept),
            None,
        )


def _sigmoid_backward(grad: Tensor, value: Tensor, out: Tensor) -> None:
    """`grad value (1 - value)`: back through a sigmoid."""
    torch.ops.aten.sigmoid_backward.grad_input(grad, value, grad_input=out)


def _steps(sizes: Sequence[int]) -> list[slice]:
    """The rows of each step of packed sequences."""
    ends = list(accumulate(sizes))
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
