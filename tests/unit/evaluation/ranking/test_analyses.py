"""What a scenario measures on parts of its cases, and with fewer queries of context."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextquery.errors import InputError
from nextquery.evaluation.comparison import FEWEST_CASES, rank_systems
from nextquery.evaluation.ranked_system import ADJ, BASELINE, RankedSystem
from nextquery.evaluation.rankers import RankerGroup
from nextquery.evaluation.scenario_features import by_last_click, clicked_endings, useful_scores
from nextquery.evaluation.scenario_run import (
    by_context_length,
    by_session_length,
    by_user_group,
    noisy_contexts,
    read_user_groups,
    session_lengths,
    single_features,
)
from nextquery.logs.privacy import pseudonym
from nextquery.ranking.cases import BackgroundCounts, CaseSet, Floats, RankingCase
from nextquery.ranking.features import BASELINE_FEATURES, FeatureTable
from nextquery.ranking.lambdamart import RankedPart
from nextquery.ranking.scoring import FORMS, CaseScorer
from nextquery.records import ScoredQuery

TOP = RankedSystem("baseline", "m")


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


def test_sessions_are_short_medium_or_long() -> None:
    made = CaseSet(
        tuple(RankingCase(n, ("a",), "a", ("right", "wrong"), 0, 2 + n % 4) for n in range(200))
    )
    found = by_session_length(rank_systems(made, {ADJ: np.zeros(400)}), [])

    counts = {"short": 50, "medium": 100, "long": 50}
    assert {name: part.cases for name, part in found.items()} == counts


def test_users_of_a_group_are_read_as_the_log_writes_them(tmp_path: Path) -> None:
    file, empty = tmp_path / "staff.txt", tmp_path / "empty.txt"
    file.write_text("\ufeffann\r\n  bob\n\n", encoding="utf-8")
    empty.write_text("\n")
    ids = {str(pseudonym("ann")), str(pseudonym("bob"))}
    assert read_user_groups({"staff": file}) == {"staff": ids}
    with pytest.raises(InputError, match="no users in it"):
        read_user_groups({"staff": empty})
    with pytest.raises(InputError, match="cannot be read"):
        read_user_groups({"staff": tmp_path / "gone.txt"})


def cases_of(users: Sequence[str]) -> CaseSet:
    return CaseSet(
        tuple(
            RankingCase(n, ("a",), "a", ("right", "wrong"), 0, 2, user=user)
            for n, user in enumerate(users)
        )
    )


def test_systems_are_measured_on_the_cases_of_a_group_alone() -> None:
    users = ["s1", "s2"] * (FEWEST_CASES // 2) + ["other"] * FEWEST_CASES
    wrong = np.tile([0.0, 1.0], 2 * FEWEST_CASES)
    better = wrong.copy()
    better[: 2 * FEWEST_CASES] = np.tile([2.0, 1.0], FEWEST_CASES)  # right for the group only
    ranks = rank_systems(cases_of(users), {BASELINE: wrong, TOP: better})
    groups = {"staff": {"s1", "s2"}, "nobody": {"x"}}
    found = by_user_group(ranks, groups, [(TOP, BASELINE)])

    assert found["staff"].cases == FEWEST_CASES
    assert found["staff"].systems["baseline+m"].mrr == 1.0
    assert found["staff"].comparisons[0].difference == 0.5
    assert found["nobody"].too_few


class Judge:
    """Finds every second candidate useless."""

    judges_usefulness = True

    def usefulness_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        assert len(contexts) == len(candidates)
        return [[0.5 if index % 2 == 0 else 0.1 for index in range(len(c))] for c in candidates]


def test_the_last_query_decides_whether_a_session_was_clicked(prepared: Any, tiny_log: Any) -> None:
    sessions = [("a", ("shoes", "boots")), ("b", ("shoes", "boots")), ("c", ("hats", "socks"))]
    clicks = [("a", "boots", "https://example/1"), ("b", "shoes", "https://example/2")]
    data = prepared(tiny_log(sessions, clicks=clicks, reverse=True))
    assert clicked_endings(data, ["background"]) == {0}


def test_useful_candidates_rise() -> None:
    found = useful_scores(Judge(), cases_of(["u"] * 300), np.full(600, -1.0))
    assert found is not None
    assert found[:2] == pytest.approx([-1 + np.log(0.5), -1 + np.log(0.1)])
    assert useful_scores(object(), cases_of(["u"]), np.zeros(2)) is None


def test_systems_are_measured_where_clicked_and_where_not() -> None:
    number = 2 * FEWEST_CASES
    flat = np.tile([0.0, 1.0], number)
    lifted = flat.copy()
    lifted[:number] = np.tile([2.0, 1.0], FEWEST_CASES)  # the first half, which was clicked
    model = RankedSystem(model="m")
    ranks = rank_systems(cases_of(["u"] * number), {model: flat, model.with_form("useful"): lifted})
    found = by_last_click(ranks, frozenset(range(FEWEST_CASES)))
    assert found["clicked"].systems["m:useful"].mrr == 1.0
    assert found["not_clicked"].systems["m:useful"].mrr == 0.5
    gains = {name: each.comparisons[0].difference for name, each in found.items()}
    assert gains == {"clicked": 0.5, "not_clicked": 0.0}
    assert by_last_click(ranks, frozenset()) == {}
