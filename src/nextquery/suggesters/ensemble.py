"""Several models as one: the mean of their probabilities. Knows whatever scores."""

import math
from collections.abc import Sequence

import numpy as np

from nextquery.records import ScoredQuery
from nextquery.suggesters.base import BatchScorer, Scorer


class Ensemble:
    """Scores with the mean of its members' probabilities of a query.

    >>> class Sure:
    ...     def __init__(self, probability):
    ...         self.probability = probability
    ...     def score(self, context, candidates):
    ...         return [ScoredQuery(text, math.log(self.probability), 2) for text in candidates]
    >>> found = Ensemble([Sure(0.1), Sure(0.3)]).score(["paris"], ["paris hotels"])
    >>> round(math.exp(found[0].log_likelihood), 3)
    0.2
    """

    def __init__(self, members: Sequence[Scorer]) -> None:
        self._members = tuple(members)

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        """The log of the mean likelihood of each candidate, in the given order."""
        return self.score_many([context], [candidates])[0]

    def score_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """What `score` gives for each context and its candidates."""
        by_member = [_scores(member, contexts, candidates) for member in self._members]
        return [
            [_mean(scored) for scored in zip(*lists, strict=True)]
            for lists in zip(*by_member, strict=True)
        ]


def _scores(
    member: Scorer, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
) -> list[list[ScoredQuery]]:
    if isinstance(member, BatchScorer):
        return member.score_many(contexts, candidates)
    pairs = zip(contexts, candidates, strict=True)
    return [member.score(context, texts) for context, texts in pairs]


def _mean(scored: Sequence[ScoredQuery]) -> ScoredQuery:
    """One query as all members see it; unknown is what any of them does not know."""
    total = float(np.logaddexp.reduce([each.log_likelihood for each in scored]))
    unknown = dict.fromkeys(word for each in scored for word in each.unknown)
    mean = total - math.log(len(scored))
    return ScoredQuery(scored[0].text, mean, scored[0].words, tuple(unknown))
