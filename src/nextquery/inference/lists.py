"""Ranking of lists: specificity, diversity, and the kind of each suggestion."""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nextquery.inference.acceptance import terms_of
from nextquery.inference.near_duplicates import fold
from nextquery.inference.search import FinishedQuery
from nextquery.inference.settings import KNOWN_BONUS, DecodeConfig
from nextquery.inference.weights import Floats
from nextquery.records import ScoredQuery, Suggestion

Group = Literal["refine", "related", "next step"]


class Relation(StrEnum):
    """What a suggestion does to the terms of the last query."""

    SAME = "same"
    ADDS = "adds"
    DROPS = "drops"
    REPLACES = "replaces"
    NEW = "new"


GROUPS: dict[Relation, Group] = {
    Relation.ADDS: "refine",
    Relation.SAME: "related",
    Relation.DROPS: "related",
    Relation.REPLACES: "related",
    Relation.NEW: "next step",
}
"""Under which heading a suggestion is shown."""


def relation(last_query: str, suggestion: str) -> Relation:
    """What a suggestion does to the terms of the last query.

    >>> [str(relation("paris hotels", text)) for text in ("cheap hotel in paris", "paris")]
    ['adds', 'drops']
    >>> [str(relation("paris hotels", text)) for text in ("rome hotels", "louvre", "hotel paris")]
    ['replaces', 'new', 'same']
    """
    before, after = terms_of(last_query), terms_of(suggestion)
    if not before & after:
        return Relation.NEW
    if before == after:
        return Relation.SAME
    if before < after:
        return Relation.ADDS
    return Relation.DROPS if after < before else Relation.REPLACES


def group(context: Sequence[str], suggestion: str) -> Group:
    """The heading of a suggestion in a session: `refine`, `related` or `next step`.

    >>> group(["louvre", "paris hotels"], "cheap paris hotels")
    'refine'
    >>> group([], "paris")
    'next step'
    """
    return GROUPS[relation(context[-1] if context else "", suggestion)]


_KEPT = 65_536

BELOW = 1e-6
"""What is appended to a list is valued this much below its last, so that no tie changes it."""


class Priors:
    """The log-likelihood of queries without a session, kept for known ones that were needed last.

    It does not depend on the session, so that much of a list is known from earlier ones. Only
    queries that K users typed are kept: a list of new ones that came sooner than others would tell
    that somebody has just had it. Several threads may ask at once: at worst a prior is computed
    twice.
    """

    def __init__(
        self,
        score: Callable[[Sequence[str]], Sequence[ScoredQuery]],
        words: int,
        known: Container[str],
    ) -> None:
        self._score = score
        self._known = known
        self._unknown = math.log(words)
        self._kept: OrderedDict[str, float] = OrderedDict()
        self._keeping = threading.Lock()

    def of(self, texts: Iterable[str]) -> dict[str, float]:
        """The prior of each text."""
        distinct = dict.fromkeys(texts)
        priors = {text: prior for text in distinct if (prior := self._kept.get(text)) is not None}
        missing = [text for text in distinct if text not in priors]
        if missing:
            new = {
                query.text: query.log_likelihood - self._unknown * len(query.unknown)
                for query in self._score(missing)
            }
            priors |= new
            with self._keeping:
                known = ((text, prior) for text, prior in new.items() if text in self._known)
                self._kept.update(known)
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        return priors


def rank(
    queries: Iterable[FinishedQuery],
    config: DecodeConfig,
    priors: Mapping[str, float],
    known: Container[str],
) -> list[FinishedQuery]:
    """The queries by their value, highest first, ties by text; priors may be left out at 0."""
    preferred = KNOWN_BONUS if config.known == "prefer" else 0.0
    adjusted = []
    for query in queries:
        prior = priors.get(query.text)
        bonus = preferred if preferred and query.text in known else 0.0
        bonus -= config.specificity * (prior or 0.0)
        adjusted.append(replace(query, log_prior=prior, bonus=bonus))
    normalised = config.length_normalised
    return sorted(adjusted, key=lambda query: (-query.value(normalised), query.text))


def descending(queries: Sequence[FinishedQuery], config: DecodeConfig) -> list[FinishedQuery]:
    """The queries in the given order; one that is valued above an earlier one is lowered."""
    normalised = config.length_normalised
    ordered: list[FinishedQuery] = []
    for query in queries:
        if ordered:
            gap = query.value(normalised) - ordered[-1].value(normalised)
            if gap > 0.0:
                lowered = query.bonus - (gap + BELOW) * (query.symbols if normalised else 1)
                query = replace(query, bonus=lowered)
        ordered.append(query)
    return ordered


def appended(
    first: Sequence[FinishedQuery], more: Sequence[FinishedQuery], config: DecodeConfig
) -> list[FinishedQuery]:
    """Both ranked lists one after the other, what is in both once; the second is valued below."""
    texts = {query.text for query in first}
    rest = [query for query in more if query.text not in texts]
    if not first or not rest:
        return [*first, *rest]
    normalised = config.length_normalised
    gap = rest[0].value(normalised) - first[-1].value(normalised)
    above = max(0.0, gap + BELOW)
    lowered = (
        replace(query, bonus=query.bonus - above * (query.symbols if normalised else 1))
        for query in rest
    )
    return [*first, *lowered]


Doubles = NDArray[np.float64]


def diversify(values: Doubles, vectors: Doubles, count: int, diversity: float) -> list[int]:
    """The indices of `count` entries in the order chosen; `values` best first, vectors (n, d)."""
    relevance = _scaled(values)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(lengths, 1e-12)
    likeness = unit @ unit.T
    chosen: list[int] = []
    nearest = np.zeros(len(values))
    while len(chosen) < min(count, len(values)):
        marginal = (1.0 - diversity) * relevance - diversity * nearest
        marginal[chosen] = -np.inf
        best = int(np.argmax(marginal))  # the first of equals: the more likely one
        nearest = likeness[best] if not chosen else np.maximum(nearest, likeness[best])
        chosen.append(best)
    return chosen


def _scaled(values: Doubles) -> Doubles:
    if len(values) == 0 or values.max() == values.min():
        return np.ones_like(values)
    return np.asarray((values - values.min()) / (values.max() - values.min()))


def choose(
    queries: Sequence[FinishedQuery],
    n: int,
    config: DecodeConfig,
    source: Callable[[str], str],
    vectors: Callable[[Sequence[str]], Floats],
) -> list[Suggestion]:
    """At most `n` of the ranked queries; `source` says where one comes from, `vectors` gives
    their vectors (n, d)."""
    if config.fold:
        queries = [
            queries[index] for index in fold((query.text for query in queries), config.language)
        ]
    if config.diversity == 0.0 or len(queries) < 2:
        return [_suggestion(query, config, source(query.text)) for query in queries[:n]]
    shown = [_suggestion(query, config, source(query.text)) for query in queries]
    values = np.array([suggestion.score for suggestion in shown])
    points = vectors([suggestion.text for suggestion in shown]).astype(np.float64)
    return [shown[index] for index in diversify(values, points, n, config.diversity)]


def _suggestion(query: FinishedQuery, config: DecodeConfig, source: str) -> Suggestion:
    """With its likelihoods where the list was made specific."""
    specific = query.log_prior is not None
    return Suggestion(
        query.text,
        query.value(config.length_normalised),
        source,
        query.log_likelihood if specific else None,
        query.log_prior,
        query.usefulness,
    )
