"""How likely a trained model finds every symbol of the validation sessions, kinds of them apart.

Symbols are told apart by how often the word to be predicted stands in the background sessions, and
by the rarest word among the earlier queries of its session.
"""

import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from nextquery.logs.data_folder import PreparedData
from nextquery.model.hred import HRED
from nextquery.model.likelihood import SessionLikelihood
from nextquery.text.batching import Batch, build_batch, cut
from nextquery.text.corpus import EncodedSessions, SessionLimits, encode_sessions
from nextquery.text.vocabulary import END_OF_QUERY

RARE, SOME = 10, 100
"""A word that the background has fewer times than this is rare, or not frequent."""

TARGETS = ("end of query", "100 times or more", "10 to 99 times", "1 to 9 times", "outside")
CONTEXTS = ("no earlier query", "words of 10 times or more", "a rarer word", "a word outside")

Ints = NDArray[np.int64]
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Losses:
    """The symbols of the validation sessions, in an order that is the same for every model."""

    rows: NDArray[np.float64]
    """(symbols,): the log-likelihood of each."""
    targets: Ints
    """(symbols,): which of `TARGETS` each is."""
    contexts: Ints
    """(symbols,): which of `CONTEXTS` its earlier queries are."""

    def perplexity(self, chosen: NDArray[np.bool_] | slice = slice(None)) -> float:
        """Of some symbols, or of all."""
        return round(math.exp(-float(self.rows[chosen].mean())), 2)

    def classes(self) -> list[tuple[str, tuple[str, ...], Ints]]:
        """The ways to tell symbols apart: title, names, the number of each symbol's name."""
        return [
            ("by_target", TARGETS, self.targets),
            ("by_context", CONTEXTS, self.contexts),
        ]


def mean_of(members: Sequence[Losses]) -> Losses:
    """The ensemble: the mean of the members' probabilities of every symbol."""
    total = np.logaddexp.reduce([each.rows for each in members])
    return replace(members[0], rows=total - math.log(len(members)))


def losses(folder: Path, data: Path, batch_words: int = 2048) -> Losses:
    """What a model folder says of the validation sessions of a data folder."""
    model, prepared = HRED.from_pretrained(folder), PreparedData(data)
    likelihood = SessionLikelihood(model, chunk=256).eval()
    with tempfile.TemporaryDirectory() as place, torch.no_grad():
        counts = _encoded(model, prepared, "background", Path(place)).word_counts()
        sessions = _encoded(model, prepared, "validation", Path(place))
        parts = [
            (likelihood(batch)[1].double().numpy(), _targets(batch, counts), _seen(batch, counts))
            for batch in _batches(sessions, batch_words)
        ]
    rows, targets, seen = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Losses(rows, targets, seen)


def _encoded(model: HRED, data: PreparedData, split: str, folder: Path) -> EncodedSessions:
    limits, buckets = SessionLimits(20, 30), model.config.character_ngrams
    sessions = data.sessions(split)
    return encode_sessions(
        sessions, model.vocabulary, limits, folder / split, ngram_buckets=buckets
    )


def _batches(sessions: EncodedSessions, batch_words: int) -> Iterator[Batch]:
    lengths, queries = sessions.lengths(), sessions.queries()
    for members in cut(np.lexsort((lengths, queries)), lengths, batch_words):
        yield build_batch(sessions, members)


def _targets(batch: Batch, counts: Ints) -> Ints:
    words = batch.extended_targets
    times = counts[batch.targets]
    kinds = np.where(times >= SOME, 1, np.where(times >= RARE, 2, 3))
    kinds = np.where(words >= len(counts), 4, kinds)
    return np.where(words == END_OF_QUERY, 0, kinds)


def _seen(batch: Batch, counts: Ints) -> Ints:
    """The rarest word that each position's earlier queries have."""
    grid, size = batch.copies, len(counts)
    row, column = np.divmod(grid.places, grid.targets.shape[1])
    words = grid.source_words[row]  # (positions, sources)
    earlier = grid.source_queries[row] < grid.target_queries[row, column][:, None]
    there = earlier & (words >= 0)
    times = np.where(words < size, counts[np.clip(words, 0, size - 1)], -1)
    rarest = np.where(there, times, _NEVER).min(axis=1, initial=_NEVER)
    kinds = np.where(rarest >= RARE, 1, np.where(rarest >= 0, 2, 3))
    return np.where(there.any(axis=1), kinds, 0)
