from collections.abc import Sequence

import numpy as np
import pytest

from nextquery.evaluation.rankers import RankerGroup
from nextquery.evaluation.scenario_run import (
    by_context_length,
    noisy_contexts,
    session_lengths,
    single_features,
)
from nextquery.ranking.cases import BackgroundCounts, CaseSet, Floats, RankingCase
from nextquery.ranking.features import BASELINE_FEATURES, FeatureTable
from nextquery.ranking.lambdamart import RankedPart
from nextquery.ranking.scoring import FORMS, CaseScorer
from nextquery.records import ScoredQuery


class Remembers:
    """Likes the candidate that the first query of the context names."""

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        wanted = context[0].removeprefix("about ") if context else ""
        return [ScoredQuery(text, 0.0 if text == wanted else -9.0, 2) for text in candidates]


class FirstForm(RankerGroup):
    """A ranker that follows the model's sum."""

    def scores(self, features: FeatureTable) -> Floats:
        return features.column("hred:sum")[None, :]


def part(cases: int) -> RankedPart:
    made = CaseSet(
        tuple(
            RankingCase(n, ("about right", "b", "c", "d"), "d", ("wrong", "right"), 1, 5)
            for n in range(cases)
        )
    )
    scores = CaseScorer(Remembers()).score(made)
    names = (*BASELINE_FEATURES, *(f"hred:{form}" for form in FORMS))
    columns = {f"hred:{form}": scores.form(form) for form in FORMS}
    zeros = FeatureTable(names, np.zeros((made.rows, len(names))))
    frequency = np.tile([2.0, 1.0], cases)
    return RankedPart(made, zeros.with_columns({**columns, "frequency": frequency}))


def test_a_model_that_needs_the_first_query_rises_with_the_context() -> None:
    group = FirstForm(("sum",), ())
    found = by_context_length(part(40), "hred", CaseScorer(Remembers()), group, iter)

    assert found.cases == 40
    assert list(found.queries) == ["1", "2", "3", "all"]
    assert found.queries["all"]["baseline+hred"].mrr == 1.0
    assert found.queries["3"]["hred"].mrr == 0.5
    assert [(each.a, each.b) for each in found.comparisons] == [
        ("all", "1"),
        ("all", "2"),
        ("all", "3"),
    ]
    assert all(each.difference == 0.5 for each in found.comparisons)
    assert all(each.p == 0.0 for each in found.comparisons)


def test_few_long_sessions_give_a_reason() -> None:
    group = FirstForm(("sum",), ())
    found = by_context_length(part(29), "hred", CaseScorer(Remembers()), group, iter)

    assert found.too_few == "at least 30 are needed"
    assert not found.queries


def test_a_single_feature_is_taken_in_its_better_direction() -> None:
    found = single_features(part(3))

    assert list(found) == list(BASELINE_FEATURES)
    assert found["frequency"] == 1.0  # the rarer candidate is the right one
    assert found["words"] == 0.5


def test_shares_of_noise_and_lengths() -> None:
    frequencies = {"google": 200, **{f"q{number}": 100 for number in range(99)}, "rare": 1}
    background = BackgroundCounts(frequencies, {})
    cases = CaseSet(
        tuple(
            RankingCase(0, context, "", ("a",), 0, 2)
            for context in (("google", "x"), ("rare",), ("q98",), ("x",))
        )
    )

    assert noisy_contexts(cases, background) == 0.5
    assert noisy_contexts(CaseSet(()), background) is None
    assert session_lengths(CaseSet(())) == {"short": None, "medium": None, "long": None}
    assert session_lengths(cases) == pytest.approx({"short": 1.0, "medium": 0.0, "long": 0.0})
