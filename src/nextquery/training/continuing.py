"""Continuing from a trained model: its weights, word by word, and the sessions that are new since.

Fine-tuning costs what is new: an epoch is the sessions after the model's last one and, so that the
rest is not forgotten, some of the older ones (replay). Where nothing is new, as after somebody's
removal, an epoch is all that is left.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from nextquery.artifacts import open_artifact
from nextquery.errors import ArtifactError, ConfigError
from nextquery.logs.data_folder import PreparedData
from nextquery.model.hred import HRED
from nextquery.model.likelihood import NETWORKS, SessionModel
from nextquery.text.corpus import EncodedSessions
from nextquery.text.vocabulary import SPECIAL, UNKNOWN
from nextquery.training import REPLAY

WORD_PROJECTIONS = ("encoder_input", "decoder_input", "output_word")
FRESH = {"epochs": 1, "warmup_steps": 20, "word_vectors": ""}
"""What is not taken from the earlier run's settings: one pass, from weights that are there. The
optimiser begins without moments, so that its first steps would be too large without warm-up."""
_SIMILAR = 10
"""A new word begins as the mean of at most this many."""
_RARE = 20
"""At least this many of the rarest words make the mean of a word that is used like no other."""


@dataclass(frozen=True)
class Continuation:
    """Which model training continues, and with how much of its old data."""

    path: Path
    replay: float = REPLAY
    """Older sessions of an epoch, as a multiple of the new ones."""

    def __post_init__(self) -> None:
        if self.replay < 0:
            raise ConfigError(f"`replay` {self.replay}: must not be below 0")

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What the earlier model's folder says."""
        return open_artifact(self.path, *NETWORKS, verify=False).manifest

    @property
    def until(self) -> datetime | None:
        """The time of the last query that the earlier model learnt from, if it says."""
        text = self.manifest.get("data", {}).get("until")
        return None if text is None else datetime.fromisoformat(str(text))

    @property
    def run(self) -> str:
        """The id of the run that made the earlier model."""
        return str(self.manifest.get("training", {}).get("run", ""))

    def settings(self) -> dict[str, Any]:
        """The settings of the earlier run, as a config file would have them."""
        settings = self.manifest.get("settings")
        if not isinstance(settings, dict) or not isinstance(settings.get("train"), dict):
            raise ArtifactError(f"{self.path}: does not say how it was trained; train a new model")
        return {**settings, "train": {**settings["train"], **FRESH}}


@dataclass(frozen=True)
class Chosen:
    """The sessions of an epoch."""

    sessions: EncodedSessions
    new: int
    replayed: int
    background: EncodedSessions
    """All of them, from which these were chosen."""


def choose_sessions(
    continuation: Continuation, data: PreparedData, sessions: EncodedSessions, seed: int
) -> Chosen:
    """The sessions that are new since the earlier model, and some of the older ones."""
    if continuation.until is None:
        raise ArtifactError(
            f"{continuation.path}: does not say which days it was trained on; train a new model"
        )
    later = data.session_rows("background").filter(pl.col("time") > continuation.until)
    new_ids = later.select("session").unique().collect()["session"].to_numpy()
    new = np.isin(np.asarray(sessions.ids), new_ids)
    old = np.flatnonzero(~new)
    replayed = len(old) if not new.any() else round(continuation.replay * int(new.sum()))
    drawn = np.random.default_rng((seed, 3)).permutation(old)[:replayed]
    session_indices = np.sort(np.concatenate([np.flatnonzero(new), drawn]))
    chosen = replace(
        sessions,
        session_starts=sessions.session_starts[session_indices],
        session_ends=sessions.session_ends[session_indices],
        ids=sessions.ids[session_indices],
    )
    return Chosen(chosen, int(new.sum()), len(drawn), sessions)


@torch.no_grad()
def take_weights(model: SessionModel, earlier: SessionModel, sessions: EncodedSessions) -> int:
    """Give `model` the weights of an earlier one; returns how many of its words are new.

    A row of a table over the vocabulary goes with its word. A word that the earlier model did not
    know begins as the mean of the words that are used most like it in `sessions`. (As copies of
    the unknown word, N new words would take N times its probability from all others.) What the
    earlier model does not have (a usefulness head) stays as it is; a model of another shape is
    refused.
    """
    rows = torch.tensor([earlier.vocabulary.id(word) for word in model.vocabulary.words])
    new = np.flatnonzero(rows.numpy() == UNKNOWN)
    new = new[new != UNKNOWN]
    similar = similar_words(sessions, new)
    earlier_weights = dict(earlier.named_parameters())
    tables = {"word_vectors.weight", "output_vectors.weight", "output_bias"}  # a row per word
    if isinstance(model, HRED) and not model.config.factored:
        tables |= {f"{name}.matrix.weight" for name in WORD_PROJECTIONS}
    for name, parameter in model.named_parameters():
        source = earlier_weights.get(name)
        if source is None and name.startswith("usefulness."):
            continue
        if source is None or source.shape[1:] != parameter.shape[1:]:
            raise ConfigError(f"the earlier model has another shape ({name}): keep its `config`")
        if name in tables:
            parameter.copy_(source[rows])
            for word, (words, shares) in similar.items():
                weights = torch.tensor(shares, dtype=parameter.dtype)
                parameter[word] = torch.tensordot(weights, parameter[torch.tensor(words)], 1)
        elif source.shape == parameter.shape:
            parameter.copy_(source)
        else:
            raise ConfigError(f"the earlier model has another shape ({name}): keep its `config`")
    return len(new)


Weighted = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Words, and their shares of 1."""


def similar_words(sessions: EncodedSessions, new: NDArray[np.int64]) -> dict[int, Weighted]:
    """The words that are used most like each of the `new` ones, with their shares.

    Two words are used alike if the same words are before and after them in queries; contexts and
    words that are frequent anyway count less. A word without any such is used like a rare one.
    """
    counts = sessions.word_counts()
    old = np.setdiff1d(np.arange(len(SPECIAL), sessions.vocabulary_size), new)
    old = old[counts[old] > 0]
    if not len(new) or not len(old):
        return {}
    rarest = old[np.argsort(counts[old], kind="stable")[: max(_RARE, len(old) // 5)]]
    rare = rarest, np.full(len(rarest), 1 / len(rarest))
    words, contexts, times = _contexts(sessions, new)
    is_new = np.isin(words, new)
    by_context = np.argsort(contexts[~is_new], kind="stable")
    old_words, old_contexts, old_times = (
        values[~is_new][by_context] for values in (words, contexts, times)
    )
    new_words, new_contexts, new_times = (values[is_new] for values in (words, contexts, times))
    similar: dict[int, Weighted] = {}
    for word in new.tolist():
        alike = np.zeros(sessions.vocabulary_size)
        for row in np.flatnonzero(new_words == word).tolist():
            start, stop = np.searchsorted(old_contexts, [new_contexts[row], new_contexts[row] + 1])
            if start == stop:
                continue
            seen = np.minimum(old_times[start:stop], new_times[row])
            share = seen / np.sqrt(old_times[start:stop].sum())
            alike[old_words[start:stop]] += share / np.sqrt(counts[old_words[start:stop]])
        best = np.argsort(-alike, kind="stable")[:_SIMILAR]
        best = best[alike[best] > 0]
        similar[word] = (best, alike[best] / alike[best].sum()) if len(best) else rare
    return similar


def _contexts(
    sessions: EncodedSessions, new: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Words, contexts and how often they were seen together, of the contexts of new words.

    A context is a neighbour and its side, as one number.
    """
    symbols = sessions.vocabulary_size
    read = np.asarray(sessions.words)
    read = np.where(read < symbols, read, UNKNOWN).astype(np.int64)
    first, second = read[:-1], read[1:]
    words = np.concatenate([first, second])
    contexts = np.concatenate([second, first + symbols])
    is_new_context = np.isin(contexts, np.unique(contexts[np.isin(words, new)]))
    is_new_context &= words >= len(SPECIAL)
    pairs, times = np.unique(
        words[is_new_context] * (2 * symbols) + contexts[is_new_context], return_counts=True
    )
    return pairs // (2 * symbols), pairs % (2 * symbols), times


def describe(entry: Mapping[str, Any] | None) -> str:
    """A sentence for a model card.

    >>> describe({"run": "0af3", "new": 1200, "replayed": 1200})
    'Continued from an earlier model (run 0af3) with 1,200 new sessions and 1,200 older ones.'
    """
    if entry is None:
        return "Trained from random weights."
    return (
        f"Continued from an earlier model (run {str(entry['run'])[:8]}) with {entry['new']:,} new "
        f"sessions and {entry['replayed']:,} older ones."
    )
