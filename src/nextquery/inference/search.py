"""Generation: beam search (section 3.4 of the paper) and sampling."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.inference.decoder import (
    BestWords,
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
    Ids,
    KnownQueries,
    LivePrefixes,
    Totals,
    rows_by_context,
)
from nextquery.inference.settings import DecodeConfig
from nextquery.text.vocabulary import END_OF_QUERY


@dataclass(frozen=True, eq=False)
class Extensions:
    """Allowed extensions, those of one context together, best first, ties by row and word.

    Of each context those that continue it and are certain, and those that end above the last.
    """

    first: Ids
    """(contexts + 1,): where those of each context begin."""
    rows: Ids
    """(extensions,): which prefix."""
    words: Ids
    """(extensions,): which word."""
    totals: Totals
    """(extensions,): the prefix's log-likelihood and the word's."""

    @classmethod
    def joined(cls, contexts: int, parts: Sequence[tuple[int, slice, BestWords]]) -> "Extensions":
        """Those of some contexts, ascending, whose prefixes are in the rows of each slice."""
        counts = np.zeros(contexts + 1, dtype=np.int64)
        for context, _, best in parts:
            counts[context + 1] = len(best.rows)
        return cls(
            np.cumsum(counts),
            np.concatenate([best.rows + rows.start for _, rows, best in parts]),
            np.concatenate([best.words for _, _, best in parts]),
            np.concatenate([best.totals for _, _, best in parts]),
        )


def allowed_extensions(
    prediction: Prediction,
    live: LivePrefixes,
    config: DecodeConfig,
    rules: Sequence[ContextRules],
    known: KnownQueries | None = None,
) -> Extensions:
    """The best allowed extensions of every context: as many that continue as the beam is wide.

    With `known`, only those that bring a prefix nearer to one of these queries.
    """
    parts = []
    for context, rows in rows_by_context(live.contexts):
        prefixes = [tuple(words) for words in live.words[rows].tolist()]
        before, allowed = live.totals[rows], rules[context]
        best = None
        if known is not None:
            following = [known.next_words(prefix) for prefix in prefixes]
            if live.length >= config.max_words:
                following = [words[words == END_OF_QUERY] for words in following]
            candidates = prediction.among(rows, before, following)
            refused = allowed.refused(prefixes, candidates.rows, candidates.words)
            best = _cut(candidates[~refused], config.beam)
        elif allowed.seen_only and live.length:
            following = [allowed.words_after(prefix[-1]) for prefix in prefixes]
            candidates = prediction.among(rows, before, following)
            refused = allowed.refused_seen(prefixes, candidates.rows, candidates.words)
            best = _cut(candidates[~refused], config.beam)
        count = 2 * config.beam
        while best is None:  # where many are refused, many more are looked at
            candidates = prediction.best(rows, before, count)
            refused = allowed.refused(prefixes, candidates.rows, candidates.words)
            best = _cut(candidates[~refused], config.beam)
            count *= 4
        parts.append((context, rows, best))
    return Extensions.joined(len(rules), parts)


def _cut(extensions: BestWords, beam: int) -> BestWords | None:
    """All up to the last of `beam` that continue; None if one that is not listed may be better."""
    going = np.flatnonzero(extensions.words != END_OF_QUERY)
    full = len(going) >= beam
    stop = int(going[beam - 1]) + 1 if full else len(extensions.words)
    if extensions.rest > (float(extensions.totals[stop - 1]) if full else -np.inf):
        return None
    return extensions[:stop]


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
        live, config = self._live, self._config
        if self._known is not None or live.length < config.max_words:
            return allowed_extensions(prediction, live, config, self._rules, self._known)
        ends = np.full(len(live), END_OF_QUERY)
        totals = prediction.end + live.totals
        order = np.lexsort((-totals, live.contexts))
        first = np.searchsorted(live.contexts, np.arange(len(self._rules) + 1))
        return Extensions(first, order, ends, totals[order])

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

    _over = False

    @cached_property
    def _finished(self) -> list[list[Ended]]:
        """The finished queries in the beam of each context."""
        return [[] for _ in self._rules]

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
        counts: Ids = np.concatenate([[0], np.cumsum(in_beam)])
        return Extensions(
            counts[extensions.first],
            extensions.rows[in_beam],
            extensions.words[in_beam],
            extensions.totals[in_beam],
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


def beam_search(
    decoder: Decoder[Any],
    config: DecodeConfig,
    start: SearchStart,
    known: KnownQueries | None = None,
    pool_size: int | None = None,
) -> list[list[FinishedQuery]]:
    """The finished queries of every context, best first.

    With `known`, only these queries are looked for. `pool_size` is the beam's width unless fewer
    are enough, since nothing re-orders them.
    """
    rules = start.rules
    results = [Results(config, config.beam if pool_size is None else pool_size) for _ in rules]
    steps: SearchSteps | None = None
    if config.finished_in_beam:
        steps = FinishedInBeamSteps(decoder, start, config, known)
    elif known is None:
        steps = decoder.steps(start, config)
    steps = steps or ArraySteps(decoder, start, config, known)
    raise_if_cancelled()
    while (ended := steps.next([result.bound for result in results])) is not None:
        for context, words, log_likelihood in ended:
            text = rules[context].session_words.text(words)
            if rules[context].allows_text(text):
                results[context].add(FinishedQuery(text, log_likelihood, len(words) + 1))
        raise_if_cancelled()
    return [result.ranked() for result in results]


Floats = NDArray[np.float64]


def sample(
    decoder: Decoder[Any], config: DecodeConfig, start: SearchStart, known: KnownQueries | None
) -> list[FinishedQuery]:
    """`beam` queries drawn from prefixes of one context, most likely first, equal ones once.

    With `known`, only these queries are drawn.
    """
    [rules], state, live = start
    if not len(live):
        return []
    rng = np.random.default_rng(config.seed)
    first = np.zeros(config.beam, dtype=np.int64)
    if len(live) > 1:
        first = rng.choice(len(live), size=config.beam, p=shape(live.totals, config))
    state = decoder.select(state, first)
    drawn = [(tuple(live.words[row].tolist()), live.totals[row]) for row in first]
    finished: dict[str, FinishedQuery] = {}
    while drawn:
        raise_if_cancelled()
        prediction = decoder.predict(state)
        longer, parents = [], []
        for row, (words, total) in enumerate(drawn):
            next_word = _draw(words, row, prediction, rules, config, known, rng)
            if next_word is None:  # no word may follow
                continue
            word, score = next_word
            if word != END_OF_QUERY:
                longer.append(((*words, word), total + score))
                parents.append(row)
            elif rules.allows_text(text := rules.session_words.text(words)):
                finished[text] = FinishedQuery(text, total + score, len(words) + 1)
        del prediction  # before the next one is made: each may be tens of megabytes
        drawn = longer
        if drawn:
            last = np.array([words[-1] for words, _ in drawn])
            state = decoder.advance(state, np.array(parents), last)
    normalised = config.length_normalised
    return sorted(finished.values(), key=lambda query: (-query.value(normalised), query.text))


def _draw(
    words: tuple[int, ...],
    row: int,
    prediction: Prediction,
    rules: ContextRules,
    config: DecodeConfig,
    known: KnownQueries | None,
    rng: np.random.Generator,
) -> tuple[int, float] | None:
    """The word after `words` and its log-probability; None if all likely words are refused."""
    following = None if known is None else known.next_words(words)
    if len(words) >= config.max_words:
        may_end = following is None or END_OF_QUERY in following
        return (END_OF_QUERY, float(prediction.end[row])) if may_end else None
    best = prediction.best(slice(row, row + 1), np.zeros(1), config.top_k)
    refused = rules.refused([words], np.zeros(len(best.words), dtype=np.int64), best.words)
    if following is not None:
        refused |= ~np.isin(best.words, following)
    if len(words) < config.min_words:
        refused |= best.words == END_OF_QUERY
    allowed = np.where(refused, -np.inf, best.totals)
    if not np.isfinite(allowed).any():
        return None
    drawn = int(rng.choice(len(allowed), p=shape(allowed, config)))
    return int(best.words[drawn]), float(best.totals[drawn])


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
