import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from nextquery.errors import InputError
from nextquery.ranking.cases import CaseSet, RankingCase, user_fold
from nextquery.ranking.scoring import LOWEST, CaseScorer, FoldScorer, log_likelihoods
from nextquery.records import ScoredQuery


class Lengths:
    """Scores by the length of context and candidate, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[str, ...], tuple[str, ...]]] = []

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        self.asked.append((tuple(context), tuple(candidates)))
        return [
            ScoredQuery(text, float(-len(text) + 10 * len(context)), len(text.split()) + 1)
            for text in candidates
        ]


class Batched(Lengths):
    def score_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        return [
            self.score(context, texts) for context, texts in zip(contexts, candidates, strict=True)
        ]


def cases() -> CaseSet:
    return CaseSet(
        (
            RankingCase(1, ("a", "b"), "b", ("one two", "three"), 0, 3),
            RankingCase(2, ("c",), "c", ("three",), 0, 2),
            RankingCase(3, ("a", "b"), "b", ("three", "four"), 0, 3),
        )
    )


def test_scores_come_in_the_order_of_the_candidates() -> None:
    scores = CaseScorer(Lengths()).score(cases())

    assert scores.log_likelihood.tolist() == [13, 15, 5, 15, 16]
    assert scores.words.tolist() == [3, 2, 2, 2, 2]
    assert scores.form("sum").tolist() == [13, 15, 5, 15, 16]
    assert scores.form("per_word").tolist() == [13 / 3, 7.5, 2.5, 7.5, 8]
    assert scores.form("lift").tolist() == [20, 20, 10, 20, 20]
    # the first case's two likelihoods are e^13 and e^15, the second case has one candidate
    shares = np.exp(scores.form("share"))
    assert shares[:3].tolist() == pytest.approx([1 / (1 + np.e**2), 1 / (1 + np.e**-2), 1])


def test_batched_scoring_gives_the_same() -> None:
    alone, together = CaseScorer(Lengths()).score(cases()), CaseScorer(Batched()).score(cases())

    assert np.array_equal(alone.log_likelihood, together.log_likelihood)


def test_the_log_of_zero_becomes_finite() -> None:
    class Never(Lengths):
        def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
            return [ScoredQuery(text, -math.inf, 1) for text in candidates]

    scores = CaseScorer(Never()).score(cases())

    assert set(scores.form("sum")) == {LOWEST}
    assert set(scores.form("lift")) == {0.0}


def test_likelihoods_alone_need_no_blank_context() -> None:
    scorer = Lengths()

    assert log_likelihoods(scorer, cases()).tolist() == [13, 15, 5, 15, 16]
    assert () not in {context for context, _ in scorer.asked}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda texts: [0.5 for _ in texts], "gives a float for 'one two'"),
        (lambda texts: [ScoredQuery(texts[0], -1.0, 1)], "gives 1 scores for 2 candidates"),
        (lambda texts: [ScoredQuery(t, math.nan, 1) for t in texts], "of 'one two' is nan"),
        (lambda texts: [ScoredQuery(t, math.inf, 1) for t in texts], "of 'one two' is inf"),
        (lambda texts: [ScoredQuery(t.upper(), 0.0, 1) for t in texts], "'ONE TWO' in the place"),
        (lambda texts: None, "gives a NoneType, not a list"),
    ],
)
def test_a_wrong_answer_of_a_scorer_is_named(
    answer: Callable[[Sequence[str]], Any], message: str
) -> None:
    class Wrong:
        def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
            result: list[ScoredQuery] = answer(candidates)
            return result

    case = RankingCase(1, ("a",), "a", ("one two", "three"), 0, 2)
    with pytest.raises(InputError, match=f"^Wrong.score: .*{message}"):
        CaseScorer(Wrong()).score(CaseSet((case,)))


def test_no_score_is_asked_for_twice() -> None:
    """Neither that of a context which cases share nor that of a text without a context."""
    model = Lengths()
    scorer = CaseScorer(model)
    first = scorer.score(cases())
    assert model.asked == [
        (("c",), ("three",)),
        (("a", "b"), ("one two", "three", "four")),
        ((), ("one two", "three", "four")),
    ]
    again, shorter = scorer.score(cases()), scorer.score(cases(), last=1)
    one_more = RankingCase(4, ("a", "b"), "b", ("three", "five"), 0, 3)
    scorer.score(CaseSet((*cases().cases, one_more)))

    assert first.log_likelihood.tolist() == again.log_likelihood.tolist()
    assert first.without_context.tolist() == shorter.without_context.tolist()
    assert model.asked[3:] == [
        (("b",), ("one two", "three", "four")),
        (("a", "b"), ("five",)),
        ((), ("five",)),
    ]


def test_each_user_is_scored_by_the_model_of_the_own_fold() -> None:
    class Constant(Lengths):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.value = value

        def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
            super().score(context, candidates)
            return [ScoredQuery(text, self.value, 2) for text in candidates]

    models = [Constant(-1.0), Constant(-2.0)]
    made = CaseSet(
        RankingCase(n, ("a",), "a", ("one", "two"), 0, 2, user=user)
        for n, user in enumerate(["user 1", "user 2", "user 1"])
    )
    assert [user_fold(case.user, 2) for case in made.cases] == [0, 1, 0]
    scorer = FoldScorer([CaseScorer(model) for model in models])

    assert scorer.score(made).log_likelihood.tolist() == [-1, -1, -2, -2, -1, -1]
    assert scorer.score(made).form("lift").tolist() == [0] * 6
