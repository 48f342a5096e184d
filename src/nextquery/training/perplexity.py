"""How well a model predicts sessions, always by the exact loss. Knows nothing of training."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from nextquery.model.likelihood import SessionLikelihood
from nextquery.text.batching import Batch, build_batch, cut
from nextquery.text.corpus import EncodedSessions
from nextquery.training.distributed import Processes


@dataclass(frozen=True)
class Perplexity:
    """Natural-log likelihoods summed over symbols, end-of-query symbols included."""

    log_likelihood: float
    symbols: int
    known_log_likelihood: float
    """The part of the targets that the vocabulary knows."""
    known_symbols: int

    @property
    def nll(self) -> float:
        """Negative log-likelihood per symbol."""
        return -self.log_likelihood / self.symbols

    @property
    def perplexity(self) -> float:
        """Per symbol, words outside the vocabulary included."""
        return math.exp(self.nll)

    @property
    def known_perplexity(self) -> float:
        """Per symbol that the vocabulary knows."""
        return math.exp(-self.known_log_likelihood / self.known_symbols)


def measure(
    likelihood: SessionLikelihood,
    corpus: EncodedSessions,
    processes: Processes,
    context: int | None = None,
    batch_words: int = 2048,
) -> Perplexity:
    """The perplexity of every query of every session, each process doing its share.

    With `context`, a query is predicted from at most that many queries before it.
    """
    sums = np.zeros(4)
    training = likelihood.training
    likelihood.eval()
    with torch.no_grad():
        for batch in _batches(corpus, context, batch_words, processes):
            _, rows = likelihood(batch)
            rows = rows.double().cpu().numpy()
            known = batch.extended_targets < corpus.vocabulary_size
            sums += (rows.sum(), len(rows), rows[known].sum(), known.sum())
    likelihood.train(training)
    total, symbols, known_total, known_symbols = processes.total(sums.tolist())
    return Perplexity(total, int(symbols), known_total, int(known_symbols))


@dataclass(frozen=True)
class UsefulnessLoss:
    """How well a usefulness head tells useful queries from others, in nats per query."""

    queries: int
    nll: float
    share_nll: float
    """Of saying the same of every query: the share of useful ones."""


def measure_usefulness(
    likelihood: SessionLikelihood, corpus: EncodedSessions, processes: Processes
) -> UsefulnessLoss | None:
    """The loss of the usefulness head on every query; None where the model has none."""
    if likelihood.model.usefulness is None:
        return None
    sums = np.zeros(3)
    training = likelihood.training
    likelihood.eval()
    with torch.no_grad():
        for batch in _batches(corpus, None, 2048, processes):
            assert batch.useful is not None
            found = likelihood.usefulness(batch).double().sum()
            sums += (len(batch.useful), float(found), batch.useful.sum())
    likelihood.train(training)
    queries, total, useful = processes.total(sums.tolist())
    return UsefulnessLoss(int(queries), -total / queries, _entropy(useful / queries))


def _entropy(share: float) -> float:
    return -sum(each * math.log(each) for each in (share, 1 - share) if each > 0)


def _batches(
    corpus: EncodedSessions, context: int | None, batch_words: int, processes: Processes
) -> Iterator[Batch]:
    sessions = corpus if context is None else corpus.windows(context)
    lengths, queries = sessions.lengths(), sessions.queries()
    order: NDArray[np.int64] = np.lexsort((lengths, queries))
    mine = list(cut(order, lengths, batch_words))[processes.rank :: processes.count]
    for members in mine:
        yield build_batch(sessions, members, last_only=context is not None)
