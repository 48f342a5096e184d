"""The bagged rankers of `python -m research aol-bagged`, on made-up cases."""

import numpy as np
import pytest

from nextquery.ranking.cases import CaseSet, RankingCase, reciprocal_ranks
from nextquery.ranking.features import BASELINE_FEATURES, FeatureTable
from nextquery.ranking.lambdamart import RankedPart
from nextquery.ranking.scoring import FORMS
from research import few_users
from research.bagged_rankers import (
    SHAPES,
    TREE_COUNTS,
    draw_users,
    joined,
    train_bag,
    train_bags,
)

NAMES = (*BASELINE_FEATURES, *(f"hred:{form}" for form in FORMS))


def part(users: list[str], seed: int, signal: float, telling: str = "frequency") -> RankedPart:
    """A case for each user named; one feature tells which of ten texts is right."""
    generator = np.random.default_rng(seed)
    texts = tuple(f"q{number}" for number in range(10))
    cases = CaseSet(
        tuple(
            RankingCase(number, ("a",), "a", texts, int(generator.integers(10)), 2, user)
            for number, user in enumerate(users)
        )
    )
    values = generator.normal(size=(cases.rows, len(NAMES)))
    values[cases.targets, NAMES.index(telling)] += signal
    return RankedPart(cases, FeatureTable(NAMES, values))


def people(name: str, number: int) -> list[str]:
    return [f"{name}{place}" for place in range(number)]


def test_as_many_users_are_drawn_as_there_are_and_a_third_is_left_out() -> None:
    drawn = draw_users(10_000, seed=3)

    assert drawn.sum() == len(drawn) == 10_000
    assert (drawn == 0).mean() == pytest.approx(np.exp(-1), abs=0.02)
    assert (drawn != draw_users(10_000, seed=4)).any()


def test_a_bag_learns_and_is_chosen_by_users_that_were_not_drawn() -> None:
    bag = train_bag(part(people("u", 120), 1, signal=2.0), SHAPES[0], range(1, 6))
    of_noise = train_bag(part(people("u", 120), 1, signal=0.0), SHAPES[0], range(1, 6))

    test = part(people("t", 200), 2, signal=2.0)
    reached = reciprocal_ranks(test.cases, bag.scores(test)).mean()
    assert reached > 0.55
    assert bag.undrawn_mrr == pytest.approx(reached, abs=0.1)
    assert bag.trees in TREE_COUNTS
    # Chance is .29: a choice by cases that a ranker has learnt by heart would be far above it.
    assert of_noise.undrawn_mrr < 0.4


def test_one_person_s_many_cases_count_as_one_person() -> None:
    """Thirty people go by a feature, one with ten times their cases against it."""
    crowd = part(people("u", 30) * 4, 1, signal=3.0)
    loud = part(["loud"] * 1_200, 2, signal=-3.0)
    bag = train_bag(joined(crowd, loud), SHAPES[0], range(1, 6))

    test = part(people("t", 200), 3, signal=3.0)
    assert reciprocal_ranks(test.cases, bag.scores(test)).mean() > 0.7


def test_the_forms_that_help_undrawn_users_are_chosen() -> None:
    bags = train_bags(part(people("u", 80), 1, 3.0, "hred:lift"), "hred", range(1, 4))

    assert "hred:lift" in bags["baseline+hred"].names
    assert bags["baseline+hred"].undrawn_mrr > bags["baseline+hred:sum"].undrawn_mrr + 0.2
    assert len({bag.shape for bag in bags.values()}) == 1


def test_each_half_of_the_users_is_ranked_by_what_the_other_taught() -> None:
    users = people("u", 40)
    parts = {split: part(users, 1, 3.0) for split in ("training", "validation", "test")}
    seen: list[tuple[set[str], set[str]]] = []

    def ranked(learning: list[RankedPart], test: RankedPart) -> dict[str, np.ndarray]:
        taught = {case.user for each in learning for case in each.cases.cases}
        seen.append((taught, {case.user for case in test.cases.cases}))
        return {"baseline": test.features.column("frequency")[None]}

    found = few_users._by_halves(parts, ranked)  # type: ignore[arg-type]

    assert all(not taught & tested for taught, tested in seen)
    assert set.union(*(tested for _, tested in seen)) == set(users)
    assert (found["baseline"][0] == parts["test"].features.column("frequency")).all()


def test_cases_people_and_habits_are_counted() -> None:
    facts = few_users.facts(part(["ann"] * 3 + ["bob"], 1, signal=0.0).cases)

    assert (facts["cases"], facts["users"], facts["most_cases_of_a_user"]) == (4, 2, 3)
    assert facts["effective_users"] == 1.6  # 16 / (9 + 1)
    assert 1 < facts["habits"] <= 4


def test_a_gain_is_told_over_cases_and_over_users() -> None:
    """Bob gains in his one case what Ann does not in her four."""
    users = ["ann"] * 4 + ["bob", "cy"]
    mine, other = np.array([0.5] * 4 + [1.0, 0.5]), np.array([0.5] * 4 + [0.5, 0.25])
    found = few_users._gain(users, mine, other)

    assert found["over_cases"]["relative"] == pytest.approx(0.75 / 2.75, abs=1e-4)
    assert found["over_users"]["relative"] == pytest.approx(2.0 / 1.25 - 1, abs=1e-4)
    # differences 0, .5, .25: t = .25 / (.25 / sqrt(3)) = 1.732 with 2 degrees of freedom
    assert found["over_users"]["p"] == pytest.approx(0.225, abs=0.01)
