"""Beam search (section 3.4 of the paper) as start, expand, prune and finish over a frozen state.

At every step each of the k best prefixes is extended by its best words and the k best unfinished
results are kept; a result that ends before the k-th of them is a suggestion. A context is done
when it has k suggestions that no prefix can still beat. What the rules refuse takes no place: the
next best gets it. Knows decoder, rules and scores; knows nothing of text beyond the rules.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nextquery.inference.giving_up import go_on
from nextquery.inference.lists.folding import folding_key
from nextquery.inference.lists.known_queries import KnownQueries
from nextquery.inference.network.batch import ContextBatch
from nextquery.inference.network.prediction import (
    BestWords,
    Decoder,
    Prediction,
    Prefixes,
    Totals,
    in_order,
)
from nextquery.inference.rules import ContextRules, Ids
from nextquery.inference.settings import DecodeConfig
from nextquery.text.vocabulary import END_OF_QUERY

MOST_LOOKED_AT = 16
"""Where only words that have stood side by side are gone on with: so many times the first look at a
step, then no more. Many prefixes have few such words, and all others would have to be refused."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A query in the making, or a finished one without its end symbol."""

    words: tuple[int, ...]
    log_likelihood: float


@dataclass(frozen=True)
class FinishedQuery:
    """A finished query with its text."""

    text: str
    log_likelihood: float
    symbols: int
    """Predicted symbols: the words and the end of the query."""
    log_prior: float | None = None
    """The log-likelihood without a session, where it counts."""
    bonus: float = 0.0
    """What is added to the likelihood for ranking."""

    def value(self, length_normalised: bool) -> float:
        """What it is ranked by."""
        total = self.log_likelihood + self.bonus
        return total / self.symbols if length_normalised else total


@dataclass(frozen=True)
class Beam:
    """The search of one context: live prefixes, best first, and what is finished."""

    live: tuple[Hypothesis, ...] = (Hypothesis((), 0.0),)
    finished: tuple[FinishedQuery, ...] = ()


class BeamSearch:
    """Searches many contexts together."""

    def __init__(
        self,
        decoder: Decoder,
        config: DecodeConfig,
        known: KnownQueries | None = None,
        wanted: int | None = None,
    ) -> None:
        """With `known`, only these queries are looked for.

        A search is over when no prefix can become one of the best `wanted`: the beam's width unless
        fewer are enough, since nothing will order them anew.
        """
        self._decoder = decoder
        self._config = config
        self._known = known
        self._wanted = config.beam if wanted is None else wanted

    def search(
        self, batch: ContextBatch, rules: Sequence[ContextRules]
    ) -> list[list[FinishedQuery]]:
        """The finished queries of every context, best first."""
        return self.resume(batch, rules, self._decoder.start(batch), [Beam()] * len(rules))

    def resume(
        self,
        batch: ContextBatch,
        rules: Sequence[ContextRules],
        prefixes: Prefixes,
        beams: Sequence[Beam],
    ) -> list[list[FinishedQuery]]:
        """The same from where beams already stand; `prefixes` has a row for each live prefix."""
        while len(prefixes):
            go_on()
            prediction = self._decoder.predict(batch, prefixes)
            beams, parents = self._step(prediction, beams, rules)
            del prediction  # before the next one is made: each may be tens of megabytes
            words = [hypothesis.words[-1] for beam in beams for hypothesis in beam.live]
            if not words:
                break
            prefixes = self._decoder.advance(batch, prefixes, parents, np.array(words))
        return [self.finish(beam) for beam in beams]

    def _step(
        self, prediction: Prediction, beams: Sequence[Beam], rules: Sequence[ContextRules]
    ) -> tuple[list[Beam], Ids]:
        """All contexts one word further: the beams, and the parent of each new row."""
        after, parents, first = list(beams), [], 0
        for place, beam in enumerate(beams):
            if not beam.live:
                continue
            rows = slice(first, first + len(beam.live))
            count, kept = 2 * self._config.beam, None
            most = MOST_LOOKED_AT * count if self._config.known == "prefer" else np.inf
            while kept is None:
                extensions = self.expand(prediction, beam, rows, count)
                if count >= most:
                    extensions = replace(extensions, rest=-np.inf)
                kept = self.prune(beam, extensions, rules[place])
                count *= 4
            after[place] = kept[0]
            parents += [first + row for row in kept[1]]
            first = rows.stop
        return after, np.array(parents, dtype=np.int64)

    def expand(self, prediction: Prediction, beam: Beam, rows: slice, count: int) -> BestWords:
        """The `count` best extensions of a context's live prefixes, which stand in `rows`."""
        before = np.array([hypothesis.log_likelihood for hypothesis in beam.live])
        if self._known is not None:
            return self._known_extensions(prediction, beam, rows, before)
        if len(beam.live[0].words) < self._config.max_words:
            return prediction.best(rows, before, count)
        end = np.full(len(before), END_OF_QUERY)
        return in_order(np.arange(len(before)), end, prediction.end[rows] + before, -np.inf)

    def _known_extensions(
        self, prediction: Prediction, beam: Beam, rows: slice, before: Totals
    ) -> BestWords:
        """All words that bring a live prefix nearer to a known query."""
        assert self._known is not None
        following = [self._known.next_words(hypothesis.words) for hypothesis in beam.live]
        if len(beam.live[0].words) >= self._config.max_words:
            following = [words[words == END_OF_QUERY] for words in following]
        counts = np.array([len(words) for words in following])
        places = np.repeat(np.arange(len(following)), counts)
        columns = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        words = np.concatenate(following)
        grid = np.zeros((len(following), max(1, int(counts.max()))), dtype=np.int64)
        grid[places, columns] = words
        scores = prediction.of(grid, rows) + before[:, None]
        return in_order(places, words, scores[places, columns], -np.inf)

    def prune(
        self, beam: Beam, extensions: BestWords, rules: ContextRules
    ) -> tuple[Beam, list[int]] | None:
        """The k best allowed extensions and their rows; None if more must be looked at.

        An extension that ends before the k-th unfinished one is finished.
        """
        config = self._config
        live: list[Hypothesis] = []
        rows: list[int] = []
        finished = list(beam.finished)
        shortest = len(beam.live[0].words) < config.min_words
        for row, word, score in _allowed(beam, extensions, rules, config.beam):
            words = beam.live[row].words
            if word == END_OF_QUERY:
                text = rules.text(words)
                if not shortest and rules.takes(text):
                    finished.append(FinishedQuery(text, score, len(words) + 1))
                continue
            live.append(Hypothesis((*words, word), score))
            rows.append(row)
            if len(live) == config.beam:
                break
        if extensions.rest > (live[-1].log_likelihood if len(live) == config.beam else -np.inf):
            return None
        return self._without_hopeless(live, rows, finished)

    def _without_hopeless(
        self, live: list[Hypothesis], rows: list[int], finished: list[FinishedQuery]
    ) -> tuple[Beam, list[int]]:
        """The new beam; prefixes that cannot become one of the best are dropped."""
        best = self._distinct(finished) if len(finished) >= self._wanted else []
        if len(best) >= self._wanted:
            bound = np.inf if self._config.length_normalised else best[self._wanted - 1]
            live = [hypothesis for hypothesis in live if hypothesis.log_likelihood > bound]
        return Beam(tuple(live), tuple(finished)), rows[: len(live)]

    def _distinct(self, finished: Sequence[FinishedQuery]) -> list[float]:
        """The likelihoods of the finished queries, best first; near-copies to be folded once."""
        best: dict[object, float] = {}
        for found in finished:
            key = (
                folding_key(found.text, self._config.language) if self._config.fold else found.text
            )
            best[key] = max(found.log_likelihood, best.get(key, -np.inf))
        return sorted(best.values(), reverse=True)

    def finish(self, beam: Beam) -> list[FinishedQuery]:
        """The finished queries, best first, ties by text."""
        normalised = self._config.length_normalised
        return sorted(beam.finished, key=lambda found: (-found.value(normalised), found.text))


def _allowed(
    beam: Beam, extensions: BestWords, rules: ContextRules, count: int
) -> Iterator[tuple[int, int, float]]:
    """The extensions that the rules do not refuse, looked up some at a time as they are wanted."""
    prefixes = [hypothesis.words for hypothesis in beam.live]
    start, size = 0, 4 * count
    while start < len(extensions.words):
        part = slice(start, start + size)
        start, size = start + size, 4 * size  # where many are refused, many more will be
        rows, words = extensions.rows[part], extensions.words[part]
        free = ~rules.refused(prefixes, rows, words)
        yield from zip(
            rows[free].tolist(),
            words[free].tolist(),
            extensions.totals[part][free].tolist(),
            strict=True,
        )
