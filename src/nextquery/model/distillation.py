"""Learning from teachers: a model is trained on what others expect next, beside what came next.

A batch's loss per symbol is `(1 - share) (-log P(w)) + share (-sum_v Q(v) log P(v))`, with `Q` the
mean of the teachers' distributions, that of an ensemble. Distributions are over the vocabulary and
the session's own words outside it; where a model cannot copy, both sides count all of those as the
unknown word. They are held whole (symbols of a batch x vocabulary): there is no sampled form. Knows
models and batches; knows no folders.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from nextquery.model.hred import HRED
from nextquery.model.likelihood import Predictions, SessionLikelihood, predict, tensor
from nextquery.model.sampled_softmax import Candidates
from nextquery.text.batching import Batch
from nextquery.text.vocabulary import PADDING, UNKNOWN

_LEAST = 1e-30
"""A probability below this counts as this: its logarithm must stay finite."""


class DistilledLikelihood(SessionLikelihood):
    """A student as training sees it; measured, it is a model like any other.

    `teachers` have the student's vocabulary; their weights are none of its own.
    """

    def __init__(
        self, likelihood: SessionLikelihood, teachers: Sequence[HRED], share: float
    ) -> None:
        super().__init__(likelihood.model, likelihood.chunk, likelihood.usefulness_weight)
        self._teachers = tuple(teacher.eval() for teacher in teachers)
        self._share = share

    def forward(self, batch: Batch, candidates: Candidates | None = None) -> tuple[Tensor, Tensor]:
        """The sum to be raised, and the log-likelihood of each true symbol (positions,)."""
        if not self.training:
            return super().forward(batch, candidates)
        student, predictions = self.model, predict(self.model, batch)
        own = own_words(student, batch)
        found = distribution(student, predictions, batch, own)
        rows = _log(found.gather(1, _targets(student, predictions, batch, own)[:, None])[:, 0])
        wanted = self._expected(batch, own)
        if not all(model.config.copying for model in (student, *self._teachers)):
            words = len(student.vocabulary)
            found, wanted = _without_own(found, words), _without_own(wanted, words)
        agreed = (wanted * _log(found)).sum()
        total = (1 - self._share) * rows.sum() + self._share * agreed
        if self.usefulness_weight:
            total = total + self.usefulness_weight * self._usefulness(predictions, batch).sum()
        return total, rows.detach()

    @torch.no_grad()
    def _expected(self, batch: Batch, own: Tensor) -> Tensor:
        """The mean of the teachers' distributions, one of which is held beside the sum."""
        first, *others = self._teachers
        total = distribution(first, predict(first, batch), batch, own)
        for teacher in others:
            total += distribution(teacher, predict(teacher, batch), batch, own)
        return total / len(self._teachers)


def own_words(model: HRED, batch: Batch) -> Tensor:
    """The extended ids of the words outside the vocabulary that a batch can copy, ascending."""
    words = np.unique(batch.copies.source_words)
    return tensor(model, words[words >= len(model.vocabulary)])


def distribution(model: HRED, predictions: Predictions, batch: Batch, own: Tensor) -> Tensor:
    """The probability of every word of the vocabulary, then of `own` (positions, V + own)."""
    scores = model.word_scores(predictions.omega)
    never = torch.zeros_like(scores[:1])
    never[:, PADDING] = -torch.inf
    generated = (scores + never).softmax(dim=1)
    outside = generated.new_zeros((len(generated), len(own)))
    if predictions.attention is None or predictions.softmax_share is None:
        return torch.cat([generated, outside], dim=1)
    stays = predictions.softmax_share.exp()[:, None]  # 1 - g
    grid = batch.copies
    places = tensor(model, grid.places)
    words = tensor(model, grid.source_words)[places // grid.targets.shape[1]]
    columns = _columns(words, own, len(model.vocabulary))
    # As an embedding: the gradient of plain indexing adds up in no fixed order.
    attention = functional.embedding(places, predictions.attention.flatten(0, 1))
    return torch.cat([generated * stays, outside], dim=1).scatter_add(
        1, columns, (1 - stays) * attention
    )


def _columns(words: Tensor, own: Tensor, vocabulary: int) -> Tensor:
    """Where extended ids stand in a distribution; -1, which nothing points at, is padding."""
    outside = vocabulary + torch.searchsorted(own, words)
    return torch.where(words >= vocabulary, outside, words.clamp(min=PADDING))


def _targets(model: HRED, predictions: Predictions, batch: Batch, own: Tensor) -> Tensor:
    """Where the true symbols stand: a word that can only be copied, the unknown word, any other."""
    known = tensor(model, batch.targets)
    if predictions.copied_only is None:
        return known
    extended = tensor(model, batch.extended_targets)
    return torch.where(
        predictions.copied_only, _columns(extended, own, len(model.vocabulary)), known
    )


def _without_own(found: Tensor, vocabulary: int) -> Tensor:
    """The distribution over the vocabulary alone: own words count as the unknown word."""
    more = torch.zeros_like(found[:, :vocabulary])
    more[:, UNKNOWN] = 1.0
    return found[:, :vocabulary] + found[:, vocabulary:].sum(dim=1, keepdim=True) * more


def _log(values: Tensor) -> Tensor:
    return values.clamp(min=_LEAST).log()
