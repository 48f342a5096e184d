"""Sampling: queries drawn word by word by their probability, the second way to generate.

Temperature, top-k and top-p shape each draw; what the rules refuse cannot be drawn. The likelihood
reported is the model's own, untouched by any of them. Knows decoder and rules, like `beam.py`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nextquery.inference.beam import FinishedQuery
from nextquery.inference.giving_up import go_on
from nextquery.inference.lists.known_queries import KnownQueries
from nextquery.inference.network.batch import ContextBatch
from nextquery.inference.network.prediction import Decoder, Prediction
from nextquery.inference.rules import ContextRules
from nextquery.inference.settings import DecodeConfig
from nextquery.text.vocabulary import END_OF_QUERY

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A query in the making."""

    words: tuple[int, ...]
    log_likelihood: float


@dataclass(frozen=True)
class SampleState:
    """Queries being drawn in one context, and those that are finished."""

    live: tuple[Hypothesis, ...]
    finished: tuple[FinishedQuery, ...] = ()


class Sampler:
    """Draws `beam` queries a context; equal ones count once."""

    def __init__(
        self, decoder: Decoder, config: DecodeConfig, known: KnownQueries | None = None
    ) -> None:
        """With `known`, only these queries are drawn."""
        self._decoder = decoder
        self._config = config
        self._known = known

    def sample(self, batch: ContextBatch, rules: ContextRules) -> list[FinishedQuery]:
        """The queries drawn for the one context of `batch`, most likely first."""
        rng = np.random.default_rng(self._config.seed)
        count = self._config.beam
        prefixes = self._decoder.start(batch).take(np.zeros(count, dtype=np.int64))
        drawn = SampleState((Hypothesis((), 0.0),) * count)
        while drawn.live:
            go_on()
            prediction = self._decoder.predict(batch, prefixes)
            drawn, parents = self._step(drawn, prediction, rules, rng)
            del prediction  # before the next one is made: each may be tens of megabytes
            if drawn.live:
                last = np.array([hypothesis.words[-1] for hypothesis in drawn.live])
                prefixes = self._decoder.advance(batch, prefixes, np.array(parents), last)
        distinct = {found.text: found for found in drawn.finished}
        return sorted(
            distinct.values(),
            key=lambda found: (-found.value(self._config.length_normalised), found.text),
        )

    def _step(
        self,
        drawn: SampleState,
        prediction: Prediction,
        rules: ContextRules,
        rng: np.random.Generator,
    ) -> tuple[SampleState, list[int]]:
        """One more word for every query; one that no word may follow is given up."""
        live, parents, finished = [], [], list(drawn.finished)
        for row, hypothesis in enumerate(drawn.live):
            drawn_word = self._draw(hypothesis, row, prediction, rules, rng)
            if drawn_word is None:
                continue
            word, score = drawn_word
            total = hypothesis.log_likelihood + score
            if word != END_OF_QUERY:
                live.append(Hypothesis((*hypothesis.words, word), total))
                parents.append(row)
            elif rules.takes(rules.text(hypothesis.words)):
                text = rules.text(hypothesis.words)
                finished.append(FinishedQuery(text, total, len(hypothesis.words) + 1))
        return SampleState(tuple(live), tuple(finished)), parents

    def _draw(
        self,
        hypothesis: Hypothesis,
        row: int,
        prediction: Prediction,
        rules: ContextRules,
        rng: np.random.Generator,
    ) -> tuple[int, float] | None:
        """The next word and its log-probability; None if all likely ones are refused."""
        length = len(hypothesis.words)
        if length >= self._config.max_words:
            known = self._known is None or END_OF_QUERY in self._known.next_words(hypothesis.words)
            return (END_OF_QUERY, float(prediction.end[row])) if known else None
        best = prediction.best(slice(row, row + 1), np.zeros(1), self._config.top_k)
        words, scores = best.words, best.totals
        refused = rules.refused([hypothesis.words], np.zeros(len(words), dtype=np.int64), words)
        if self._known is not None:
            refused |= ~np.isin(words, self._known.next_words(hypothesis.words))
        if length < self._config.min_words:
            refused |= words == END_OF_QUERY
        allowed = np.where(refused, -np.inf, scores)
        if not np.isfinite(allowed).any():
            return None
        place = int(rng.choice(len(words), p=shape(allowed, self._config)))
        return int(words[place]), float(scores[place])


def shape(scores: Floats, config: DecodeConfig) -> Floats:
    """Log-probabilities (words,) as the probabilities to draw by: top-k, temperature, top-p."""
    order = np.argsort(-scores, kind="stable")
    scaled = np.full_like(scores, -np.inf)
    scaled[order[: config.top_k]] = scores[order[: config.top_k]] / config.temperature
    weights = np.exp(scaled - scaled.max())
    weights /= weights.sum()
    before = np.cumsum(weights[order]) - weights[order]
    weights[order[before >= config.top_p]] = 0.0
    total: Floats = weights / weights.sum()
    return total
