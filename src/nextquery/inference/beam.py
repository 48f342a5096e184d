"""Beam search (section 3.4 of the paper): extend, finish and prune, all contexts at once.

At every step each of the k best prefixes is extended by its best words and the k best unfinished
results are kept; a result that ends before the k-th of them is a suggestion. A context is done
when it has k suggestions that no prefix can still beat. What the rules refuse takes no place: the
next best gets it. Knows decoder, rules and scores; knows nothing of text beyond the rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nextquery.inference.extensions import LivePrefixes
from nextquery.inference.giving_up import go_on
from nextquery.inference.lists.folding import folding_key
from nextquery.inference.lists.known_queries import KnownQueries
from nextquery.inference.network.batch import ContextBatch
from nextquery.inference.network.prediction import Decoder, Prefixes, SearchStart, SearchSteps
from nextquery.inference.rules import ContextRules
from nextquery.inference.search_steps import ArraySteps
from nextquery.inference.settings import DecodeConfig


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
        steps = self._steps(SearchStart(batch, rules, prefixes, live))
        go_on()
        while (ended := steps.next([each.bound for each in results])) is not None:
            for context, words, log_likelihood in ended:
                text = rules[context].text(words)
                if rules[context].takes(text):
                    found = FinishedQuery(text, log_likelihood, len(words) + 1)
                    results[context].add(found)
            go_on()
        return [each.ranked() for each in results]

    def _steps(self, start: SearchStart) -> SearchSteps:
        """As the decoder has them, unless only known queries are looked for."""
        steps = None if self._known is not None else self._decoder.steps(start, self._config)
        return steps or ArraySteps(self._decoder, start, self._config, self._known)
