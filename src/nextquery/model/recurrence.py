"""The gated recurrent unit of Eq. 3. Knows neither words nor queries.

`nn.GRU` cannot stand in: it applies the reset gate after the recurrent product, the paper before.
Sequences are packed: sorted longest first, the inputs of step 1 of all sequences, then those of
step 2 of the sequences that have one, and so on. No padding is ever computed. All steps are one
call of the compiled kernels where they are installed (`compiled_recurrence.py`).
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

from nextquery.model.compiled_recurrence import RecurrenceKernels, Steps, recurrence_kernels
from nextquery.model.products import PackedMatrix, transposed_times


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

        `projected` is (rows, 3 d): the input's share of reset gate, update gate and candidate.
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

        `projected` is (total, 3 d), `sizes` the number of sequences that have step 1, 2, ...,
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
        kernels, matrices = _kernels(state), (gate_matrix, candidate_matrix)
        forward = _forward if kernels is None else kernels.forward
        made = forward(projected, state, matrices, sizes)
        *needed, states = made
        ctx.save_for_backward(*needed, *matrices)
        ctx.sizes, ctx.sequences = sizes, len(state)
        return states

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        before, kept, candidates, gates, gate_matrix, candidate_matrix = ctx.saved_tensors
        kernels, d = _kernels(before), before.shape[1]
        backward = _backward if kernels is None else kernels.backward
        inputs, start = backward(
            slopes[0],
            Steps(before, kept, candidates, gates),
            (gate_matrix, candidate_matrix),
            ctx.sizes,
            ctx.sequences,
        )
        return (
            inputs,
            start,
            transposed_times(inputs[:, : 2 * d], before),
            transposed_times(inputs[:, 2 * d :], kept),
            None,
        )


def _kernels(states: Tensor) -> RecurrenceKernels | None:
    """The compiled kernels, where they compute this kind of numbers."""
    suits = states.dtype == torch.float32 and states.device.type == "cpu"
    return recurrence_kernels() if suits else None


def _forward(
    projected: Tensor, state: Tensor, matrices: tuple[Tensor, Tensor], sizes: Sequence[int]
) -> tuple[Tensor, ...]:
    """The steps by PyTorch: what `RecurrenceKernels.forward` computes."""
    total, d = len(projected), state.shape[1]
    before, states, kept, candidates = (state.new_empty((total, d)) for _ in range(4))
    gates = state.new_empty((total, 2 * d))  # r_n beside u_n
    rows_per_step = sizes[0] if sizes else 0
    gate_product, candidate_product = (PackedMatrix(matrix, rows_per_step) for matrix in matrices)
    for rows in _steps(sizes):
        previous = before[rows].copy_(state[: rows.stop - rows.start])
        gate_product.add_product(projected[rows, : 2 * d], previous, out=gates[rows])
        reset, update = gates[rows].sigmoid_().chunk(2, dim=1)
        here, candidate = kept[rows], candidates[rows]
        torch.mul(reset, previous, out=here)
        candidate_product.add_product(projected[rows, 2 * d :], here, out=candidate)
        state = torch.lerp(previous, candidate.tanh_(), update, out=states[rows])
    return (*Steps(before, kept, candidates, gates), states)


def _backward(
    slopes: Tensor,
    made: Steps,
    matrices: tuple[Tensor, Tensor],
    sizes: Sequence[int],
    sequences: int,
) -> tuple[Tensor, Tensor]:
    """The gradients by PyTorch: what `RecurrenceKernels.backward` computes."""
    total, d = slopes.shape
    inputs = slopes.new_empty((total, 3 * d))  # d loss / d projected
    carried = slopes.new_zeros((0, d))  # d loss / d state, from the step behind
    rows_per_step = sizes[0] if sizes else 0
    gate_product, candidate_product = (PackedMatrix(each.t(), rows_per_step) for each in matrices)
    for rows in reversed(_steps(sizes)):
        slope = slopes[rows].clone()
        slope[: len(carried)] += carried
        reset, update = made.gates[rows].chunk(2, dim=1)
        candidate, previous = made.candidates[rows], made.before[rows]
        reset_slope, update_slope, candidate_slope = inputs[rows].chunk(3, dim=1)
        taken = slope * update
        _tanh_slope(taken, candidate, out=candidate_slope)
        _sigmoid_slope((candidate - previous).mul_(slope), update, out=update_slope)
        kept_slope = candidate_product.product(candidate_slope)
        _sigmoid_slope(kept_slope * previous, reset, out=reset_slope)
        passed = slope.sub_(taken).addcmul_(kept_slope, reset)
        carried = gate_product.add_product(passed, inputs[rows, : 2 * d], out=passed)
    # Sequences without a step have no influence through this recurrence.
    return inputs, functional.pad(carried, (0, 0, 0, sequences - len(carried)))


def _sigmoid_slope(slope: Tensor, value: Tensor, out: Tensor) -> None:
    """`slope value (1 - value)`: back through a sigmoid."""
    torch.ops.aten.sigmoid_backward.grad_input(slope, value, grad_input=out)


def _tanh_slope(slope: Tensor, value: Tensor, out: Tensor) -> None:
    """`slope (1 - value^2)`: back through a tanh."""
    torch.ops.aten.tanh_backward.grad_input(slope, value, grad_input=out)


def _steps(sizes: Sequence[int]) -> list[slice]:
    """The rows of each step of packed sequences."""
    ends = list(accumulate(sizes))
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
