"""The optimisers, dense and by rows.

Word vectors get sparse gradients: a step touches only the rows of words that occurred. Rows that
were not touched keep value and moments, so a step costs what the batch costs, not what the
vocabulary costs.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

DECAY, MOMENTUM, EPSILON = 0.95, 0.9, 1e-4
"""RMSProp's constants in the paper's reference (Graves 2013, Eq. 38 to 41)."""
MEAN_DECAY, SQUARE_DECAY, ADAM_EPSILON = 0.9, 0.999, 1e-8
"""Adam's constants, as everywhere."""
_BLOCK = 1 << 16
"""Numbers that are updated at a time."""


class _PerParameter(Optimizer):
    """Updates the parameters, or the rows of them, that have a gradient."""

    def __init__(self, parameters: Iterable[Tensor], rate: float) -> None:
        super().__init__(parameters, {"lr": rate})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group["lr"])

    def _update(self, parameter: Tensor, gradient: Tensor, rate: float) -> None:
        raise NotImplementedError


class RMSProp(_PerParameter):
    """RMSProp, centred, with momentum; its constant inside the root as in Graves (2013), or not.

        n = .95 n + .05 g^2,  m = .95 m + .05 g,  v = .9 v + g / sqrt(n - m^2 + .0001)

    and a step of `-rate v`. Outside, as PyTorch has it, it is `sqrt(n - m^2) + .0001`: gradients
    between .0001 and .01 then make steps as large as any, while inside they make small ones. Of a
    sparse gradient only the rows that it has are updated.
    """

    def __init__(self, parameters: Iterable[Tensor], rate: float, *, inside: bool) -> None:
        super().__init__(parameters, rate)
        self._inside = inside

    def _update(self, parameter: Tensor, gradient: Tensor, rate: float) -> None:
        state = self.state[parameter]
        if not state:
            for name in ("square_avg", "grad_avg", "momentum_buffer"):
                state[name] = torch.zeros_like(parameter)
        moments = state["square_avg"], state["grad_avg"], state["momentum_buffer"]
        if not gradient.is_sparse:
            # A block at a time, which stays in the cache from the first operation to the last.
            arrays = (parameter, gradient, *moments)
            for part, grad, *moment in zip(*(_blocks(array) for array in arrays), strict=True):
                part -= rate * self._velocity(tuple(moment), grad)
            return
        gradient = gradient.coalesce()
        rows = gradient.indices()[0]
        touched = tuple(moment[rows] for moment in moments)
        parameter[rows] -= rate * self._velocity(touched, gradient.values())
        for moment, values in zip(moments, touched, strict=True):
            moment[rows] = values

    def _velocity(self, moments: tuple[Tensor, ...], gradient: Tensor) -> Tensor:
        """Bring the moments `n`, `m` and `v` up to date, in place, and return `v`."""
        square, mean, velocity = moments
        square.mul_(DECAY).addcmul_(gradient, gradient, value=1 - DECAY)
        mean.mul_(DECAY).add_(gradient, alpha=1 - DECAY)
        # Rounding may bring the variance below zero.
        variance = torch.addcmul(square, mean, mean, value=-1).clamp_(min=0)
        spread = variance.add_(EPSILON).sqrt_() if self._inside else variance.sqrt_().add_(EPSILON)
        return velocity.mul_(MOMENTUM).addcdiv_(gradient, spread)


class RowAdam(_PerParameter):
    """Adam for sparse gradients, of which only the rows that they have are updated.

    The numbers of PyTorch's SparseAdam, which makes a sparse matrix of every intermediate result.
    """

    def _update(self, parameter: Tensor, gradient: Tensor, rate: float) -> None:
        gradient = gradient.coalesce()
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            state["exp_avg"], state["exp_avg_sq"] = (torch.zeros_like(parameter) for _ in range(2))
        state["step"] += 1
        rows, grad = gradient.indices()[0], gradient.values()
        mean, square = (state[name].index_select(0, rows) for name in ("exp_avg", "exp_avg_sq"))
        mean_change = (grad - mean).mul_(1 - MEAN_DECAY)
        square_change = grad.square().sub_(square).mul_(1 - SQUARE_DECAY)
        state["exp_avg"].index_add_(0, rows, mean_change)
        state["exp_avg_sq"].index_add_(0, rows, square_change)
        spread = square.add_(square_change).sqrt_().add_(ADAM_EPSILON)
        # Both moments begin at zero; this makes up for it.
        unbiased = math.sqrt(1 - SQUARE_DECAY ** state["step"]) / (1 - MEAN_DECAY ** state["step"])
        parameter.index_add_(0, rows, mean.add_(mean_change).div_(spread).mul_(-rate * unbiased))


def _blocks(array: Tensor) -> tuple[Tensor, ...]:
    return torch.split(array.view(-1), _BLOCK) if array.is_contiguous() else (array,)


class Optimiser:
    """One optimiser for the dense parameters and one for those with sparse gradients."""

    def __init__(self, module: nn.Module, kind: str, rate: float) -> None:
        sparse = {
            id(child.weight): child.weight
            for child in module.modules()
            if isinstance(child, nn.Embedding) and child.sparse
        }
        dense = [parameter for parameter in module.parameters() if id(parameter) not in sparse]
        self._parameters = list(module.parameters())
        adam = kind == "adam"
        self._parts: list[Optimizer] = [
            Adam(dense, rate, fused=True) if adam else _rms(kind, dense, rate)
        ]
        if sparse:
            rows = list(sparse.values())
            self._parts.append(RowAdam(rows, rate) if adam else _rms(kind, rows, rate))

    def clear(self) -> None:
        """Forget the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    def clip(self, limit: float) -> float:
        """Scale the gradients down to norm `limit` if they exceed it; return their norm."""
        values = []
        for parameter in self._parameters:
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()
            if parameter.grad is not None:
                gradient = parameter.grad
                values.append(gradient.values() if gradient.is_sparse else gradient)
        norm = float(
            torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(v) for v in values]))
        )
        if norm > limit:
            torch._foreach_mul_(values, limit / norm)
        return norm

    def step(self, rate: float) -> None:
        """Update the parameters at this rate."""
        for part in self._parts:
            for group in part.param_groups:
                group["lr"] = rate
            part.step()

    def tensors(self) -> dict[str, Tensor]:
        """The state, by names that say optimiser, parameter and entry."""
        return {
            f"{index}.{number}.{name}": value if isinstance(value, Tensor) else torch.tensor(value)
            for index, part in enumerate(self._parts)
            for number, entries in part.state_dict()["state"].items()
            for name, value in entries.items()
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Restore the state that `tensors` returned."""
        for index, part in enumerate(self._parts):
            state: dict[int, dict[str, Any]] = {}
            for key, value in tensors.items():
                owner, number, name = key.split(".")
                if int(owner) == index:
                    # RowAdam counts its steps with a plain number.
                    plain = name == "step" and isinstance(part, RowAdam)
                    state.setdefault(int(number), {})[name] = int(value) if plain else value
            part.load_state_dict({**part.state_dict(), "state": state})


def _rms(kind: str, parameters: Iterable[Tensor], rate: float) -> RMSProp:
    return RMSProp(parameters, rate, inside=kind == "graves")
