"""The gated recurrent unit of Eq. 3. Knows neither words nor queries.

`nn.GRU` cannot stand in: it applies the reset gate after the recurrent product, the paper before.
Sequences are packed: sorted longest first, the inputs of step 1 of all sequences, then those of
step 2 of the sequences that have one, and so on. No padding is ever computed.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class GRU(nn.Module):
    """The recurrence of Eq. 3; inputs arrive already multiplied by `I_r`, `I_u` and `I`."""

    def __init__(self, state_size: int) -> None:
        super().__init__()
        self.state_size = state_size
        self.gates = nn.Parameter(torch.empty(2 * state_size, state_size))  # H_r above H_u
        self.candidate = nn.Parameter(torch.empty(state_size, state_size))  # H
        for matrix in (*self.gates.chunk(2), self.candidate):
            nn.init.orthogonal_(matrix.data)

    def step(self, projected: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step: the next states (rows, d) and the update gates `u_n` (rows, d).

        `projected` is (rows, 3 d): the input's share of reset gate, update gate and candidate.
        """
        d = self.state_size
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
        states = []
        for inputs in torch.split(projected, list(sizes)):
            state, _ = self.step(inputs, state[: len(inputs)])
            states.append(state)
        return torch.cat(states) if states else state.new_zeros((0, self.state_size))
