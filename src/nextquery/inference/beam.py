"""Beam search (section 3.4 of the paper): extend, finish and prune, all contexts at once.

At every step each of the k best prefixes is extended by its best words and the k best unfinished
results are kept; a result that ends before the k-th of them is a suggestion. A context is done
when it has k suggestions that no prefix can still beat. What the rules refuse takes no place: the
next best gets it. Knows decoder, rules and scores; knows nothing of text beyond the rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nextquery.inference.extensions import Extensions, LivePrefixes, among
from nextquery.inference.giving_up import go_on
from nextquery.inference.lists.folding import folding_key
from nextquery.inference.lists.known_queries import KnownQueries
from nextquery.inference.network.batch import ContextBatch
from nextquery.inference.network.prediction import Decoder, Prediction, Prefixes
from nextquery.inference.rules import ContextRules, Flags, Ids
from nextquery.inference.settings import DecodeConfig
from nextquery.text.vocabulary import END_OF_QUERY


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

    A search is over when no prefix can become one of the best `wanted`.
    """

    def __init__(self, config: DecodeConfig, wanted: int) -> None:
        self._config, self._wanted = config, wanted
        self._found: list[FinishedQuery] = []
        self._best: dict[object, float] = {}
        self._bound: float | None = -np.inf  # None: to be found anew

    def add(self, found: FinishedQuery) -> None:
        """One more; near-copies that will be folded count once."""
        self._found.append(found)
        config = self._config
        key = folding_key(found.text, config.language) if config.fold else found.text
        self._best[key] = max(found.log_likelihood, self._best.get(key, -np.inf))
        self._bound = None

    @property
    def bound(self) -> float:
        """Prefixes that are no likelier than this are given up."""
        if self._bound is None:
            self._bound = -np.inf
            if len(self._best) >= self._wanted:
                best = sorted(self._best.values(), reverse=True)
                normalised = self._config.length_normalised
                self._bound = np.inf if normalised else best[self._wanted - 1]
        return self._bound

    def ranked(self) -> list[FinishedQuery]:
        """All of them, best first, ties by text."""
        normalised = self._config.length_normalised
        return sorted(self._found, key=lambda found: (-found.value(normalised), found.text))


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

        `wanted` is the beam's width unless fewer are enough, since nothing will order them anew.
        """
        self._decoder = decoder
        self._config = config
        self._known = known
        self._wanted = config.beam if wanted is None else wanted

    def search(
        self, batch: ContextBatch, rules: Sequence[ContextRules]
    ) -> list[list[FinishedQuery]]:
        """The finished queries of every context, best first."""
        start = self._decoder.start(batch)
        return self.resume(batch, rules, start, LivePrefixes.start(len(rules)))

    def resume(
        self,
        batch: ContextBatch,
        rules: Sequence[ContextRules],
        prefixes: Prefixes,
        live: LivePrefixes,
    ) -> list[list[FinishedQuery]]:
        """The same from prefixes that already stand; `prefixes` has a row for each of `live`."""
        results = [Results(self._config, self._wanted) for _ in rules]
        while len(live):
            go_on()
            prediction = self._decoder.predict(batch, prefixes)
            extensions = self._extensions(prediction, live, rules)
            del prediction  # before the next one is made: its memory is used again
            extensions = self._unblocked(extensions, live, rules)
            self._finish(extensions, live, rules, results)
            live, parents = self._pruned(extensions, live, results)
            if (last := live.last) is not None and len(live):
                prefixes = self._decoder.advance(batch, prefixes, parents, last)
        return [each.ranked() for each in results]

    def _extensions(
        self, prediction: Prediction, live: LivePrefixes, rules: Sequence[ContextRules]
    ) -> Extensions:
        """The best allowed extensions of every context."""
        if self._known is not None:
            return self._known_extensions(self._known, prediction, live, rules)
        if live.length < self._config.max_words:
            return prediction.extend(live, self._config.beam, rules)
        ends = np.full(len(live), END_OF_QUERY)
        totals = prediction.end + live.totals
        order = np.lexsort((-totals, live.contexts))
        first = np.searchsorted(live.contexts, np.arange(len(rules) + 1))
        return Extensions(first, order, ends, totals[order])

    def _known_extensions(
        self,
        known: KnownQueries,
        prediction: Prediction,
        live: LivePrefixes,
        rules: Sequence[ContextRules],
    ) -> Extensions:
        """All words that bring a live prefix nearer to a known query."""
        parts = []
        for context, rows in live.parts():
            prefixes = [tuple(words) for words in live.words[rows].tolist()]
            following = [known.next_words(prefix) for prefix in prefixes]
            if live.length >= self._config.max_words:
                following = [words[words == END_OF_QUERY] for words in following]
            found = among(prediction, rows, live.totals[rows], following)
            free = ~rules[context].refused(prefixes, found[0], found[1])
            parts.append((context, (found[0][free] + rows.start, found[1][free], found[2][free])))
        return self._cut(Extensions.joined(len(rules), parts))

    def _unblocked(
        self, extensions: Extensions, live: LivePrefixes, rules: Sequence[ContextRules]
    ) -> Extensions:
        """Without those that the blocklist refuses together with what stands before them."""
        if extensions.doubtful is None or not extensions.doubtful.any():
            return extensions
        free = np.ones(len(extensions.rows), dtype=np.bool_)
        for place in np.flatnonzero(extensions.doubtful).tolist():
            row = int(extensions.rows[place])
            words = (*live.words[row].tolist(), int(extensions.words[place]))
            free[place] = not rules[live.contexts[row]].is_blocked(words)
        return self._cut(_only(extensions, free))

    def _cut(self, extensions: Extensions) -> Extensions:
        """Of each context no more than the beam holds, and what ends above the last of them."""
        going = np.cumsum(extensions.words != END_OF_QUERY)
        counts = np.diff(extensions.first)
        before = np.repeat(np.concatenate([[0], going])[extensions.first[:-1]], counts)
        ends = extensions.words == END_OF_QUERY
        return _only(extensions, going - before + ends <= self._config.beam)

    def _finish(
        self,
        extensions: Extensions,
        live: LivePrefixes,
        rules: Sequence[ContextRules],
        results: Sequence[Results],
    ) -> None:
        """Take what ends and may be shown."""
        if live.length < self._config.min_words:
            return
        ends = np.flatnonzero(extensions.words == END_OF_QUERY)
        rows = extensions.rows[ends]
        for context, words, total in zip(
            live.contexts[rows].tolist(),
            live.words[rows].tolist(),
            extensions.totals[ends].tolist(),
            strict=True,
        ):
            text = rules[context].text(words)
            if rules[context].takes(text):
                results[context].add(FinishedQuery(text, total, len(words) + 1))

    def _pruned(
        self, extensions: Extensions, live: LivePrefixes, results: Sequence[Results]
    ) -> tuple[LivePrefixes, Ids]:
        """What goes on and is not hopeless, and the row of each one's parent."""
        bounds = np.array([each.bound for each in results])
        contexts = live.contexts[extensions.rows]
        going = (extensions.words != END_OF_QUERY) & (extensions.totals > bounds[contexts])
        parents, words = extensions.rows[going], extensions.words[going]
        longer = np.concatenate([live.words[parents], words[:, None]], axis=1)
        return LivePrefixes(longer, extensions.totals[going], contexts[going]), parents


def _only(extensions: Extensions, kept: Flags) -> Extensions:
    """Some of them."""
    counts = np.concatenate([[0], np.cumsum(kept)])
    return Extensions(
        counts[extensions.first],
        extensions.rows[kept],
        extensions.words[kept],
        extensions.totals[kept],
    )
