import math
from collections.abc import Sequence

import pytest

from nextquery.records import ScoredQuery
from nextquery.suggesters.base import BatchScorer, Scorer
from nextquery.suggesters.neural import Ensemble


class Member:
    """Gives each text a probability of its own."""

    def __init__(self, **probabilities: float) -> None:
        self._probabilities = probabilities

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        return [self._scored(text) for text in candidates]

    def _scored(self, text: str) -> ScoredQuery:
        probability = self._probabilities.get(text, 0.0)
        log = math.log(probability) if probability else -math.inf
        return ScoredQuery(text, log, 2, () if probability else (text,))


class Together(Member):
    """The same for many contexts at once, and for nothing else."""

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        raise AssertionError("asked one by one")

    def score_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        return [[self._scored(text) for text in texts] for texts in candidates]


def test_probabilities_are_averaged_not_their_logarithms() -> None:
    members: list[Scorer] = [Member(rome=0.4, oslo=0.01), Member(rome=0.02, oslo=0.01)]
    rome, oslo = Ensemble(members).score(["italy"], ["rome", "oslo"])

    assert math.exp(rome.log_likelihood) == pytest.approx(0.21)
    assert math.exp(oslo.log_likelihood) == pytest.approx(0.01)
    assert (rome.text, rome.words, rome.unknown) == ("rome", 2, ())


def test_what_one_member_does_not_know_the_others_still_score() -> None:
    (rome,) = Ensemble([Member(rome=0.4), Member()]).score([], ["rome"])

    assert math.exp(rome.log_likelihood) == pytest.approx(0.2)
    assert rome.unknown == ("rome",)


def test_members_that_score_together_are_asked_together() -> None:
    ensemble = Ensemble([Together(rome=0.4), Member(rome=0.2, oslo=0.2)])
    found = ensemble.score_many([["a"], ["b"]], [["rome"], ["oslo", "rome"]])

    assert isinstance(ensemble, BatchScorer)
    assert [[each.text for each in scores] for scores in found] == [["rome"], ["oslo", "rome"]]
    assert math.exp(found[1][1].log_likelihood) == pytest.approx(0.3)
