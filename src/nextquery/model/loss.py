"""The log-likelihood of words under the softmax of Eq. 9, exact or sampled."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function

from nextquery.model.recurrence import times_transposed, transposed_times
from nextquery.text.vocabulary import PADDING


@dataclass(frozen=True)
class Candidates:
    """The words that one step sums over."""

    words: NDArray[np.int64]
    """(candidates,): word ids, ascending."""
    correction: NDArray[np.float32]
    """(candidates,): the log of each word's weight; 0 for those counted exactly."""

    def index(self, targets: NDArray[np.int64]) -> NDArray[np.int64]:
        """The index of each target among the candidates; all targets are candidates."""
        return np.searchsorted(self.words, targets)


class CandidateSampler:
    """Draws candidates by word frequency."""

    def __init__(self, counts: NDArray[np.int64], head_words: int, sampled_words: int) -> None:
        weights = np.maximum(counts, 1).astype(np.float64) ** 0.75
        weights[PADDING] = 0.0
        self.frequency = weights / weights.sum()
        self._cumulative = np.cumsum(self.frequency)
        self._sampled_words = sampled_words
        self._head = np.argsort(-counts, kind="stable")[:head_words]
        self._head = self._head[self._head != PADDING]

    def draw(self, targets: NDArray[np.int64], rng: np.random.Generator) -> Candidates:
        """The candidates for a batch with these targets."""
        counted = np.union1d(self._head, targets)
        # Scaling by the last sum keeps a draw of almost 1 inside the vocabulary.
        points = rng.random(self._sampled_words) * self._cumulative[-1]
        drawn, times = np.unique(np.searchsorted(self._cumulative, points), return_counts=True)
        fresh = ~np.isin(drawn, counted, assume_unique=True)
        drawn, times = drawn[fresh], times[fresh]
        rest = 1.0 - self.frequency[counted].sum()
        weight = times * rest / (max(times.sum(), 1) * self.frequency[drawn])
        words = np.concatenate([counted, drawn])
        correction = np.concatenate([np.zeros(len(counted)), np.log(weight)])
        order = np.argsort(words)
        return Candidates(words[order], correction[order].astype(np.float32))


def log_likelihood(
    omega: Tensor,
    vectors: Tensor,
    bias: Tensor,
    targets: Tensor,
    rival: Tensor | None,
    chunk: int,
) -> tuple[Tensor, Tensor]:
    """The summed log-likelihood, to be differentiated, and that of each prediction (rows,).

    `omega` is (rows, d_e), `vectors` (candidates, d_e) with `bias` (candidates,) added to their
    scores: the model's own bias, if it has one, and minus infinity for a word that is never
    predicted or a sampled word's correction.
    `targets` (rows,) indexes the candidates, -1 where no candidate is right. With `rival` (rows,)
    the result is `log(p + exp(rival))`: what copying adds, relative to the softmax's share.
    """
    wanted = torch.is_grad_enabled() and any(
        tensor is not None and tensor.requires_grad for tensor in (omega, vectors, bias, rival)
    )
    total, rows = _ChunkedLikelihood.apply(omega, vectors, bias, targets, rival, chunk, wanted)  # type: ignore[no-untyped-call]
    return total, rows


class _ChunkedLikelihood(Function):
    """Forward makes value and gradient chunk by chunk; backward only scales the gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        omega: Tensor,
        vectors: Tensor,
        bias: Tensor,
        targets: Tensor,
        rival: Tensor | None,
        chunk: int,
        wanted: bool,
    ) -> tuple[Tensor, Tensor]:
        rows = omega.new_empty(len(omega))
        omega_slope = torch.empty_like(omega) if wanted else None
        vectors_slope = torch.zeros_like(vectors) if wanted else None
        bias_slope = torch.zeros_like(bias) if wanted and ctx.needs_input_grad[2] else None
        rival_slope = torch.empty_like(rival) if wanted and rival is not None else None
        for start in range(0, len(omega), chunk):
            part = slice(start, start + chunk)
            log_p, shares = _softmax(omega[part], vectors, bias, targets[part])
            share = torch.ones_like(log_p)
            if rival is not None:
                rows[part] = torch.logaddexp(log_p, rival[part])
                share = torch.sigmoid(log_p - rival[part])
            else:
                rows[part] = log_p
            if omega_slope is None or vectors_slope is None:
                continue
            if rival_slope is not None:
                rival_slope[part] = 1 - share
            slope = shares.mul_(-share[:, None])  # d total / d scores
            slope.scatter_add_(1, targets[part].clamp(min=0)[:, None], share[:, None])
            omega_slope[part] = times_transposed(slope, vectors.t())
            vectors_slope += transposed_times(slope, omega[part])
            if bias_slope is not None:
                bias_slope += slope.sum(dim=0)
        if wanted:
            ctx.save_for_backward(omega_slope, vectors_slope, bias_slope, rival_slope)
        ctx.mark_non_differentiable(rows)
        return rows.sum(), rows

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        omega_slope, vectors_slope, bias_slope, rival_slope = ctx.saved_tensors
        scale = grads[0]
        return (
            omega_slope * scale,
            vectors_slope * scale,
            None if bias_slope is None else bias_slope * scale,
            None,
            None if rival_slope is None else rival_slope * scale,
            None,
            None,
        )


def _softmax(
    omega: Tensor, vectors: Tensor, bias: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """log p of the targets (rows,), and p of all candidates (rows, candidates)."""
    scores = times_transposed(omega, vectors, bias)
    right = scores.gather(1, targets.clamp(min=0)[:, None]).squeeze(1)
    highest = scores.amax(dim=1)
    shares = torch.softmax(scores, dim=1, out=scores)  # a row at a time, which stays in the cache
    # The highest score's share is one over the normaliser; p of a target may be too small a number.
    log_p = right - highest + shares.amax(dim=1).log()
    return log_p.masked_fill(targets < 0, -torch.inf), shares
