"""Generation: beam search (section 3.4 of the paper) and sampling."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.inference.context import ContextBatch
from nextquery.inference.decoder import (
    Decoder,
    Ended,
    Prediction,
    SearchStart,
    SearchSteps,
    raise_if_cancelled,
)
from nextquery.inference.near_duplicates import folding_key
from nextquery.inference.rules import (
    ContextRules,
    Extensions,
    Flags,
    Ids,
    KnownQueries,
    LivePrefixes,
    Totals,
    allowed_extensions,
    among,
)
from nextquery.inference.settings import DecodeConfig
from nextquery.text.vocabulary import END_OF_QUERY


class ArraySteps:
    """The steps of a search with a decoder that is asked for predictions."""

    def __init__(
        self,
        decoder: Decoder[Any],
        start: SearchStart,
        config: DecodeConfig,
        known: KnownQueries | None,
    ) -> None:
        self._decoder, self._config, self._known = decoder, config, known
        self._rules, self._state, self._live = start
        self._extensions: Extensions | None = None

    def next(self, bounds: Sequence[float]) -> Iterable[Ended] | None:
        """What ends in the next step, None if no prefix is left.

        Prefixes that are no more likely than the bound of their context are dropped before it.
        """
        if self._extensions is not None:
            self._advance(self._extensions, np.array(bounds))
        if not len(self._live):
            return None
        prediction = self._decoder.predict(self._state)
        self._extensions = self._extended(prediction)
        return self._ended(self._extensions)

    def _extended(self, prediction: Prediction) -> Extensions:
        """The best allowed extensions of every context."""
        live = self._live
        if self._known is not None:
            return self._known_extensions(self._known, prediction)
        if live.length < self._config.max_words:
            return allowed_extensions(prediction, live, self._config.beam, self._rules)
        ends = np.full(len(live), END_OF_QUERY)
        totals = prediction.end + live.totals
        order = np.lexsort((-totals, live.contexts))
        first = np.searchsorted(live.contexts, np.arange(len(self._rules) + 1))
        return Extensions(first, order, ends, totals[order])

    def _known_extensions(self, known: KnownQueries, prediction: Prediction) -> Extensions:
        """All words that bring a live prefix nearer to a known query."""
        parts, live = [], self._live
        for context, rows in live.parts():
            prefixes = [tuple(words) for words in live.words[rows].tolist()]
            following = [known.next_words(prefix) for prefix in prefixes]
            if live.length >= self._config.max_words:
                following = [words[words == END_OF_QUERY] for words in following]
            parents, words, totals = among(prediction, rows, live.totals[rows], following)
            allowed = ~self._rules[context].refused(prefixes, parents, words)
            columns = parents[allowed] + rows.start, words[allowed], totals[allowed]
            parts.append((context, columns))
        return self._cut(Extensions.joined(len(self._rules), parts))

    def _cut(self, extensions: Extensions) -> Extensions:
        """Of each context up to the beam's size, and the queries that end above the last."""
        unfinished = np.cumsum(extensions.words != END_OF_QUERY)
        counts = np.diff(extensions.first)
        before = np.repeat(np.concatenate([[0], unfinished])[extensions.first[:-1]], counts)
        ends = extensions.words == END_OF_QUERY
        return _only(extensions, unfinished - before + ends <= self._config.beam)

    def _ended(self, extensions: Extensions) -> Iterable[Ended]:
        live = self._live
        if live.length < self._config.min_words:
            return ()
        ends = np.flatnonzero(extensions.words == END_OF_QUERY)
        rows = extensions.rows[ends]
        columns = live.contexts[rows], live.words[rows], extensions.totals[ends]
        return map(Ended, *(column.tolist() for column in columns))

    def _advance(self, extensions: Extensions, bounds: Totals) -> None:
        """Append their words to the unfinished prefixes that are above the bound."""
        live = self._live
        contexts = live.contexts[extensions.rows]
        is_continued = (extensions.words != END_OF_QUERY) & (extensions.totals > bounds[contexts])
        parents, words = extensions.rows[is_continued], extensions.words[is_continued]
        longer = np.concatenate([live.words[parents], words[:, None]], axis=1)
        self._live = LivePrefixes(longer, extensions.totals[is_continued], contexts[is_continued])
        if len(words):
            self._state = self._decoder.advance(self._state, parents, words)


class FinishedInBeamSteps(ArraySteps):
    """The steps of a search in which finished queries keep their places in the beam.

    After each step a context keeps its best `beam` queries, finished or not, so that a finished one
    may also lose its place. All are given at the end, when no unfinished one is left.
    """

    def __init__(
        self,
        decoder: Decoder[Any],
        start: SearchStart,
        config: DecodeConfig,
        known: KnownQueries | None,
    ) -> None:
        super().__init__(decoder, start, config, known)
        self._finished: list[list[Ended]] = [[] for _ in start.rules]
        self._over = False

    def next(self, bounds: Sequence[float]) -> Iterable[Ended] | None:
        """All finished queries, then None."""
        while len(self._live):
            raise_if_cancelled()
            extensions = self._kept(self._extended(self._decoder.predict(self._state)))
            self._advance(extensions, np.full(len(self._rules), -np.inf))
        if self._over:
            return None
        self._over = True
        return [ended for finished in self._finished for ended in finished]

    def _kept(self, extensions: Extensions) -> Extensions:
        """The extensions among the best of each context; finished ones are noted."""
        live = self._live
        in_beam = np.zeros(len(extensions.words), dtype=np.bool_)
        for context, finished in enumerate(self._finished):
            pool: list[tuple[float, int, Ended | None]] = [
                (-ended.log_likelihood, -1, ended) for ended in finished
            ]
            for index in range(extensions.first[context], extensions.first[context + 1]):
                ends = extensions.words[index] == END_OF_QUERY
                if not ends or live.length >= self._config.min_words:
                    words = live.words[extensions.rows[index]].tolist()
                    total = float(extensions.totals[index])
                    pool.append((-total, index, Ended(context, words, total) if ends else None))
            best = sorted(pool, key=lambda entry: entry[:2])[: self._config.beam]
            self._finished[context] = [ended for _, _, ended in best if ended is not None]
            in_beam[[index for _, index, ended in best if ended is None]] = True
        return _only(extensions, in_beam)


def _only(extensions: Extensions, chosen: Flags) -> Extensions:
    """Some of them."""
    counts: Ids = np.concatenate([[0], np.cumsum(chosen)])
    return Extensions(
        counts[extensions.first],
        extensions.rows[chosen],
        extensions.words[chosen],
        extensions.totals[chosen],
    )


@dataclass(frozen=True, slots=True)
class FinishedQuery:
    """A finished query with its text."""

    text: str
    log_likelihood: float
    symbols: int
    """Predicted symbols: the words and the end of the query."""
    log_prior: float | None = None
    """The log-likelihood without a session, where it counts."""
    usefulness: float | None = None
    """P(useful | q, session), where it counts."""
    bonus: float = 0.0
    """What is added to the likelihood for ranking."""

    def value(self, length_normalised: bool) -> float:
        """What it is ranked by."""
        total = self.log_likelihood + self.bonus
        return total / self.symbols if length_normalised else total


class Results:
    """The finished queries of one context, and what a prefix must beat to become one of the best.

    A search is over when no prefix can become one of the best `pool_size`.
    """

    def __init__(self, config: DecodeConfig, pool_size: int) -> None:
        self._config, self._pool_size = config, pool_size
        self._queries: list[FinishedQuery] = []
        self._best: dict[object, float] = {}
        self._bound: float | None = -np.inf  # None: to be computed again

    def add(self, query: FinishedQuery) -> None:
        """One more; near-duplicates that will be folded count once."""
        self._queries.append(query)
        config = self._config
        key = folding_key(query.text, config.language) if config.fold else query.text
        self._best[key] = max(query.log_likelihood, self._best.get(key, -np.inf))
        self._bound = None

    @property
    def bound(self) -> float:
        """Prefixes that are no more likely than this are dropped."""
        if self._bound is None:
            self._bound = -np.inf
            if len(self._best) >= self._pool_size:
                best = sorted(self._best.values(), reverse=True)
                normalised = self._config.length_normalised
                self._bound = np.inf if normalised else best[self._pool_size - 1]
        return self._bound

    def ranked(self) -> list[FinishedQuery]:
        """All of them, best first, ties by text."""
        normalised = self._config.length_normalised
        return sorted(self._queries, key=lambda query: (-query.value(normalised), query.text))


class BeamSearch:
    """Searches many contexts together."""

    def __init__(
        self,
        decoder: Decoder[Any],
        config: DecodeConfig,
        known: KnownQueries | None = None,
        pool_size: int | None = None,
    ) -> None:
        """With `known`, only these queries are looked for.

        `pool_size` is the beam's width unless fewer are enough, since nothing re-orders them.
        """
        self._decoder = decoder
        self._config = config
        self._known = known
        self._pool_size = config.beam if pool_size is None else pool_size

    def search(
        self, batch: ContextBatch[Any], rules: Sequence[ContextRules]
    ) -> list[list[FinishedQuery]]:
        """The finished queries of every context, best first."""
        state = self._decoder.start(batch)
        return self.resume(SearchStart(rules, state, LivePrefixes.start(len(rules))))

    def resume(self, start: SearchStart) -> list[list[FinishedQuery]]:
        """The same from prefixes that have words already."""
        rules = start.rules
        results = [Results(self._config, self._pool_size) for _ in rules]
        steps = self._steps(start)
        raise_if_cancelled()
        while (ended := steps.next([result.bound for result in results])) is not None:
            for context, words, log_likelihood in ended:
                text = rules[context].text(words)
                if rules[context].allows_text(text):
                    results[context].add(FinishedQuery(text, log_likelihood, len(words) + 1))
            raise_if_cancelled()
        return [result.ranked() for result in results]

    def _steps(self, start: SearchStart) -> SearchSteps:
        """As the decoder has them, unless a rule needs all predictions."""
        if self._config.finished_in_beam:
            return FinishedInBeamSteps(self._decoder, start, self._config, self._known)
        steps = None if self._known is not None else self._decoder.steps(start, self._config)
        return steps or ArraySteps(self._decoder, start, self._config, self._known)


Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """An unfinished query."""

    words: tuple[int, ...]
    log_likelihood: float


@dataclass(frozen=True)
class SampleState:
    """Queries being drawn in one context, and those that are finished."""

    live: tuple[Hypothesis, ...]
    finished: tuple[FinishedQuery, ...] = ()


class Sampler:
    """Draws `beam` queries per context; equal ones count once."""

    def __init__(
        self, decoder: Decoder[Any], config: DecodeConfig, known: KnownQueries | None = None
    ) -> None:
        """With `known`, only these queries are drawn."""
        self._decoder = decoder
        self._config = config
        self._known = known

    def sample(self, batch: ContextBatch[Any], rules: ContextRules) -> list[FinishedQuery]:
        """The queries drawn for the one context of `batch`, most likely first."""
        start = SearchStart([rules], self._decoder.start(batch), LivePrefixes.start(1))
        return self.resume(start)

    def resume(self, start: SearchStart) -> list[FinishedQuery]:
        """Continue from prefixes of one context, drawn by their likelihood."""
        [rules], state, live = start
        if not len(live):
            return []
        rng = np.random.default_rng(self._config.seed)
        count = self._config.beam
        first = np.zeros(count, dtype=np.int64)
        if len(live) > 1:
            first = rng.choice(len(live), size=count, p=shape(live.totals, self._config))
        state = self._decoder.select(state, first)
        drawn = SampleState(
            tuple(Hypothesis(tuple(live.words[row].tolist()), live.totals[row]) for row in first)
        )
        while drawn.live:
            raise_if_cancelled()
            prediction = self._decoder.predict(state)
            drawn, parents = self._step(drawn, prediction, rules, rng)
            del prediction  # before the next one is made: each may be tens of megabytes
            if drawn.live:
                last = np.array([hypothesis.words[-1] for hypothesis in drawn.live])
                state = self._decoder.advance(state, np.array(parents), last)
        distinct = {query.text: query for query in drawn.finished}
        return sorted(
            distinct.values(),
            key=lambda query: (-query.value(self._config.length_normalised), query.text),
        )

    def _step(
        self,
        drawn: SampleState,
        prediction: Prediction,
        rules: ContextRules,
        rng: np.random.Generator,
    ) -> tuple[SampleState, list[int]]:
        """One more word for every query; one that no word may follow is dropped."""
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
            elif rules.allows_text(rules.text(hypothesis.words)):
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
        """The next word and its log-probability; None if all likely words are refused."""
        length = len(hypothesis.words)
        if length >= self._config.max_words:
            may_end = self._known is None or END_OF_QUERY in self._known.next_words(
                hypothesis.words
            )
            return (END_OF_QUERY, float(prediction.end[row])) if may_end else None
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
        drawn = int(rng.choice(len(words), p=shape(allowed, self._config)))
        return int(words[drawn]), float(scores[drawn])


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
