"""The perplexities of n-gram models on the sessions by which HRED's own is measured.

Fitted to background queries and measured on validation queries, both in a model's own vocabulary,
so that they stand beside the validation perplexity that its training reported. Knows vocabularies
and prepared data, no neural model.
"""

import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from nextquery.evaluation.probes.ngrams import KneserNey
from nextquery.logs.data_folder import PreparedData
from nextquery.model.settings import TrainConfig
from nextquery.ranking.scoring import Track
from nextquery.text.corpus import EncodedSessions, SessionLimits, encode_sessions
from nextquery.text.vocabulary import Vocabulary

ORDERS = (1, 2, 3)
FITTED_SESSIONS = 200_000
"""The counts are held in memory: of a larger background only so many sessions are read."""
MEASURED_SESSIONS = 20_000


@dataclass(frozen=True)
class NgramPerplexity:
    """One Kneser-Ney model: per word, ends of queries included, unknown words as one word."""

    order: int
    fitted_sessions: int
    measured_sessions: int
    symbols: int
    perplexity: float
    known_perplexity: float
    """Of the words that the vocabulary knows."""


def ngram_perplexities(
    data: PreparedData, vocabulary: Vocabulary, track: Track
) -> tuple[NgramPerplexity, ...]:
    """Unigrams, bigrams and trigrams; none without background or validation sessions."""
    with tempfile.TemporaryDirectory() as folder:
        background = _encoded(data, "background", FITTED_SESSIONS, vocabulary, Path(folder))
        validation = _encoded(data, "validation", MEASURED_SESSIONS, vocabulary, Path(folder))
        if not len(background) or not len(validation):
            return ()
        return tuple(
            _measured(ORDERS[place], background, validation) for place in track(range(len(ORDERS)))
        )


def _measured(
    order: int, background: EncodedSessions, validation: EncodedSessions
) -> NgramPerplexity:
    found = KneserNey(background, order).measure(validation)
    return NgramPerplexity(
        order,
        len(background),
        len(validation),
        found.symbols,
        found.perplexity,
        found.known_perplexity,
    )


def _encoded(
    data: PreparedData, split: str, most: int, vocabulary: Vocabulary, folder: Path
) -> EncodedSessions:
    limits = TrainConfig().max_queries, TrainConfig().max_words
    sessions = islice(data.sessions(split), most)
    return encode_sessions(sessions, vocabulary, SessionLimits(*limits), folder / split)
