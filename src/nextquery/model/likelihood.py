"""The likelihood of whole sessions (Eq. 11): a network run over a packed batch.

Words are scored under the softmax of Eq. 9, exact or sampled. `NETWORKS` has the networks that can
be trained, by the kind of their model folders.

Every query of every session is predicted. A target outside the vocabulary is one event: with
copying, the copied word if an earlier query of the session has it; the unknown word otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

from nextquery.artifacts import open_artifact
from nextquery.model.hred import HRED
from nextquery.model.recurrence import round_size, times_transposed, transposed_times
from nextquery.model.settings import ModelConfig, TransformerConfig
from nextquery.model.stored import Layout, States, rows_at, tensor
from nextquery.model.transformer import Transformer
from nextquery.text.batching import Batch
from nextquery.text.vocabulary import PADDING, Vocabulary


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
        uncounted_share = 1.0 - self.frequency[counted].sum()
        weight = times * uncounted_share / (max(times.sum(), 1) * self.frequency[drawn])
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
    needs_grad = torch.is_grad_enabled() and any(
        tensor is not None and tensor.requires_grad for tensor in (omega, vectors, bias, rival)
    )
    total, rows = _ChunkedLikelihood.apply(omega, vectors, bias, targets, rival, chunk, needs_grad)  # type: ignore[no-untyped-call]
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
        needs_grad: bool,
    ) -> tuple[Tensor, Tensor]:
        rows = omega.new_empty(len(omega))
        omega_grad = torch.empty_like(omega) if needs_grad else None
        vectors_grad = torch.zeros_like(vectors) if needs_grad else None
        bias_grad = torch.zeros_like(bias) if needs_grad and ctx.needs_input_grad[2] else None
        rival_grad = torch.empty_like(rival) if needs_grad and rival is not None else None
        for start in range(0, len(omega), chunk):
            part = slice(start, start + chunk)
            log_p, shares = _softmax(omega[part], vectors, bias, targets[part])
            share = torch.ones_like(log_p)
            if rival is not None:
                rows[part] = torch.logaddexp(log_p, rival[part])
                share = torch.sigmoid(log_p - rival[part])
            else:
                rows[part] = log_p
            if omega_grad is None or vectors_grad is None:
                continue
            if rival_grad is not None:
                rival_grad[part] = 1 - share
            scores_grad = shares.mul_(-share[:, None])  # d total / d scores
            scores_grad.scatter_add_(1, targets[part].clamp(min=0)[:, None], share[:, None])
            omega_grad[part] = times_transposed(scores_grad, vectors.t())
            vectors_grad += transposed_times(scores_grad, omega[part])
            if bias_grad is not None:
                bias_grad += scores_grad.sum(dim=0)
        if needs_grad:
            ctx.save_for_backward(omega_grad, vectors_grad, bias_grad, rival_grad)
        ctx.mark_non_differentiable(rows)
        return rows.sum(), rows

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        omega_grad, vectors_grad, bias_grad, rival_grad = ctx.saved_tensors
        scale = grads[0]
        return (
            omega_grad * scale,
            vectors_grad * scale,
            None if bias_grad is None else bias_grad * scale,
            None,
            None if rival_grad is None else rival_grad * scale,
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


SessionModel = HRED | Transformer
NETWORKS: dict[str, type[SessionModel]] = {HRED.kind: HRED, Transformer.kind: Transformer}


def new_model(config: ModelConfig | TransformerConfig, vocabulary: Vocabulary) -> SessionModel:
    """Make the network that a configuration describes, with random weights."""
    if isinstance(config, ModelConfig):
        return HRED(config, vocabulary)
    return Transformer(config, vocabulary)


def open_model(folder: Path) -> SessionModel:
    """Open the model folder of any of the networks."""
    artifact = open_artifact(folder, *NETWORKS)
    return NETWORKS[artifact.kind].from_pretrained(artifact)


_LEAST_COPY = 1e-30
"""A pointer's share below this counts as this: its logarithm must stay finite."""


@dataclass(frozen=True)
class Predictions:
    """What the model says at every position of a batch, before the softmax."""

    omega: Tensor
    """(positions, d_e): Eq. 10."""
    rival: Tensor | None = None
    """(positions,): log of the copied share relative to the softmax's share."""
    softmax_share: Tensor | None = None
    """(positions,): log(1 - g)."""
    copied_only: Tensor | None = None
    """(positions,): the target is outside the vocabulary and can be copied."""
    usefulness: Tensor | None = None
    """(queries,): the log-odds that each query is useful, longest query first."""


class SessionLikelihood(nn.Module):
    """A network as training sees it: a batch in, the log-likelihood of its words out."""

    def __init__(self, model: SessionModel, chunk: int, usefulness_weight: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.chunk = chunk
        self.usefulness_weight = usefulness_weight
        never = torch.zeros(len(model.vocabulary))
        never[PADDING] = -torch.inf
        self.register_buffer("never", never, persistent=False)
        self.never: Tensor

    def forward(self, batch: Batch, candidates: Candidates | None = None) -> tuple[Tensor, Tensor]:
        """The sum to maximise, and the log-likelihood of each position (positions,), as packed.

        The sum is that of the positions, and with a usefulness head its weighted log-likelihood
        of what was useful. Over all of V, or over the `candidates` only.
        """
        predictions = predict(self.model, batch)
        vectors, bias, targets = self._outputs(batch, candidates)
        right = tensor(self.model, targets)
        if predictions.copied_only is not None:
            right = right.masked_fill(predictions.copied_only, -1)
        total, rows = log_likelihood(
            predictions.omega, vectors, bias, right, predictions.rival, self.chunk
        )
        if self.usefulness_weight:
            total = total + self.usefulness_weight * self._usefulness(predictions, batch).sum()
        if predictions.softmax_share is None:
            return total, rows
        share = predictions.softmax_share
        return total + share.sum(), rows + share.detach()

    def _usefulness(self, predictions: Predictions, batch: Batch) -> Tensor:
        """The log-likelihood of how useful each query was (queries,)."""
        assert predictions.usefulness is not None
        assert batch.useful is not None
        labels = tensor(self.model, batch.useful).to(predictions.usefulness.dtype)
        return -functional.binary_cross_entropy_with_logits(
            predictions.usefulness, labels, reduction="none"
        )

    def usefulness(self, batch: Batch) -> Tensor:
        """The log-likelihood of how useful each query of a batch was (queries,)."""
        return self._usefulness(predict(self.model, batch), batch)

    def _outputs(
        self, batch: Batch, candidates: Candidates | None
    ) -> tuple[Tensor, Tensor, NDArray[np.int64]]:
        """The output vectors that are summed over, what is added to their scores, the targets."""
        model, output_bias = self.model, self.model.output_bias
        if candidates is None:
            bias = self.never if output_bias is None else self.never + output_bias
            return model.output_matrix, bias, batch.targets
        # A round number of candidates: the padding symbol, which is never predicted, fills up.
        missing = (0, round_size(len(candidates.words)) - len(candidates.words))
        words = tensor(model, np.pad(candidates.words, missing, constant_values=PADDING))
        bias = tensor(model, np.pad(candidates.correction, missing, constant_values=-np.inf))
        if output_bias is not None:
            bias = bias + rows_at(output_bias[:, None], words).squeeze(1)
        return model.outputs_of(words), bias, candidates.index(batch.targets)


def predict(model: SessionModel, batch: Batch) -> Predictions:
    """Read the sessions with the true words as inputs and predict every symbol."""
    states = _hred_states(model, batch) if isinstance(model, HRED) else model.states(batch)
    predictions = Predictions(model.dropout(states.omega))
    if model.copying is not None:
        predictions = _with_copying(model, batch, states)
    if model.usefulness is None:
        return predictions
    last = rows_at(states.decoder, tensor(model, batch.decoder_ends))
    return replace(predictions, usefulness=model.usefulness(last).squeeze(1))


def _hred_states(model: HRED, batch: Batch) -> States:
    """Encode the sessions and run the decoder; everything is packed."""
    words = tensor(model, batch.encoder_words)
    word_states = model.run_encoder(words, batch.encoder_sizes, batch.outside)
    # Eq. 5: the state of an empty session, then `s_m` of all sessions.
    queries = rows_at(word_states, tensor(model, batch.query_ends))
    empty = model.start_session(1)
    projected = model.session_input(model.dropout(queries))
    first = empty.expand(batch.sessions, -1)
    read = model.session_encoder.run(projected, batch.session_sizes, first)
    contexts = rows_at(torch.cat([empty, read]), tensor(model, batch.contexts))
    session = model.session_inputs(contexts)
    # Eq. 7 and 8: `d_{n-1}` (positions, d_h) and `E_o w_{n-1}` (positions, d_e).
    start = model.start_decoder(contexts, session)
    inputs = model.word_inputs(tensor(model, batch.decoder_words))
    projected = model.decoder_input(inputs)
    if session.step is not None:
        projected = projected + _by_position(model, session.step, batch.decoder_sizes[1:])
    states = torch.cat([start, model.decoder.run(projected, batch.decoder_sizes[1:], start)])
    previous = model.output_word(inputs)
    nothing = previous.new_zeros((len(start), previous.shape[1]))  # w_0 = 0
    previous = torch.cat([nothing, previous])
    omega = model.output_state(states) + previous
    if session.output is not None:
        omega = omega + _by_position(model, session.output, batch.decoder_sizes)
    return States(word_states, states, previous, omega)


def _with_copying(model: SessionModel, batch: Batch, states: States) -> Predictions:
    assert model.copying is not None
    grid = batch.copies
    sources, places = tensor(model, grid.sources), tensor(model, grid.places)
    layout = Layout(tensor(model, grid.targets).clamp(min=0), places)
    # Cells without a word have that of any; they are never looked at.
    source_states = rows_at(states.words, sources.clamp(min=0))
    age = tensor(model, grid.target_queries[:, :, None] - grid.source_queries[:, None, :])
    age = age.clamp(min=0) * (sources >= 0)[:, None, :]
    attention = model.copying.attend(states.decoder, states.previous, source_states, age, layout)
    extended = tensor(model, batch.extended_targets)
    targets_on_grid = extended[layout.rows]
    same = (tensor(model, grid.source_words)[:, None, :] == targets_on_grid[:, :, None]) & (age > 0)
    copied = (attention.weights * same).sum(dim=-1).flatten()[places]  # sum_{j: w_j = w} a_j
    return Predictions(
        omega=model.dropout(states.omega + attention.output),
        rival=attention.gate + copied.clamp(min=_LEAST_COPY).log(),
        softmax_share=-functional.softplus(attention.gate),
        copied_only=(extended >= len(model.vocabulary)) & same.any(dim=-1).flatten()[places],
    )


def _by_position(model: HRED, by_query: Tensor, sizes: Sequence[int]) -> Tensor:
    """What belongs to a query (queries, d), at each of its packed positions (positions, d)."""
    query = np.concatenate([np.arange(size) for size in sizes] or [np.zeros(0, dtype=np.int64)])
    return rows_at(by_query, tensor(model, query))
