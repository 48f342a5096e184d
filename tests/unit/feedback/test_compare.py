from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from tests.unit.feedback.drawn_trials import DrawnTrials
from tests.unit.feedback.made_up import acceptance, days, ranked, run

from nextquery.errors import InputError
from nextquery.feedback.compare import compare
from nextquery.feedback.events import Trial
from nextquery.feedback.impressions import Feedback
from nextquery.feedback.settings import CompareSettings

LATER = "2027-01-01"
GOOD, BAD = ranked(0.0), ranked(0.25, seed=3)
EFFECT = CompareSettings(smallest_effect=0.2)
ENOUGH = {"interleave": 600, "split": 1600}
"""Visitors of a trial."""


@cache
def served_trial(kind: str, better: str = "B") -> Feedback:
    """A trial of 1,500 visitors that several tests look at."""
    models = {"A": BAD, "B": GOOD} if better == "B" else {"A": GOOD, "B": BAD}
    return run(models, kind, 1500, 1)


def test_the_made_up_models_differ_by_a_fifth() -> None:
    assert acceptance(GOOD) / acceptance(BAD) - 1 == pytest.approx(0.206, abs=0.001)


@pytest.mark.parametrize("kind", ["interleave", "split"])
def test_the_better_model_wins_whichever_side_it_is_on(kind: str) -> None:
    for winner in ("A", "B"):
        [found] = compare(served_trial(kind, winner), EFFECT, LATER).trials
        assert (found.winner, found.kind, found.needed) == (winner, kind, 0)
        assert found.p < 0.05


@pytest.mark.parametrize("kind", ["interleave", "split"])
def test_equals_have_no_winner_and_the_rest_is_told(kind: str) -> None:
    [found] = compare(run({"A": GOOD, "B": GOOD}, kind, 300, 2), EFFECT, LATER).trials
    assert found.winner is None
    assert found.decision.startswith("go on")
    assert found.needed > 0
    assert found.low < (0.5 if kind == "interleave" else 0.0) < found.high


def test_the_trial_ends_at_its_horizon() -> None:
    """What is needed is what ends it: after that many more there is no winner, and no 'go on'."""
    settings = CompareSettings(smallest_effect=0.8)
    [early] = compare(run({"A": GOOD, "B": GOOD}, "interleave", 100, 2), settings, LATER).trials
    visitors = 100 + early.needed // 2 + 60
    [late] = compare(run({"A": GOOD, "B": GOOD}, "interleave", visitors, 2), settings, LATER).trials
    assert early.decision.startswith("go on")
    assert late.decision.startswith("no winner")
    assert (late.needed, late.winner) == (0, None)


def test_a_day_counts_when_it_is_over() -> None:
    feedback = served_trial("interleave")
    first, _, third = days(feedback)
    [found] = compare(feedback, EFFECT, third).trials
    assert found.impressions == 2000
    with pytest.raises(InputError, match=f"before {first}"):
        compare(feedback, EFFECT, first)


def test_a_visitor_counts_once() -> None:
    """One who comes back every day and always prefers B is one vote."""
    feedback = served_trial("interleave")
    same = [replace(each, visitor="the same") for each in feedback.impressions]
    [found] = compare(Feedback(tuple(same)), EFFECT, LATER).trials
    assert found.first.visitors + found.second.visitors == 1
    assert found.winner is None


def _before(trial: Trial) -> Trial:
    first, second = trial.arms
    return replace(trial, arms=(first, replace(second, version="0")))


def test_lists_of_an_earlier_version_do_not_count() -> None:
    feedback = run({"A": BAD, "B": GOOD}, "split", 600, 1)
    old = [
        replace(each, trial=_before(each.trial)) if number < 500 and each.trial else each
        for number, each in enumerate(feedback.impressions)
    ]
    [found] = compare(Feedback(tuple(old)), EFFECT, LATER).trials
    assert (found.earlier_versions, found.impressions) == (500, 700)


def test_three_arms_are_compared_with_the_first_more_strictly() -> None:
    models = {"A": BAD, "B": GOOD, "C": BAD}
    b, c = compare(run(models, "split", 3000, 1), EFFECT, LATER).trials
    assert (b.second.name, b.winner) == ("B", "B")
    assert (c.second.name, c.winner) == ("C", None)


def test_lists_outside_a_trial_say_nothing() -> None:
    with pytest.raises(InputError, match="no trial"):
        compare(run({"A": GOOD}, "", 50, 1), EFFECT, LATER)


@pytest.mark.parametrize("kind", ["interleave", "split"])
def test_drawn_trials_are_like_those_of_the_service(kind: str) -> None:
    """The share of each model's places that was taken, by place: within four standard errors."""
    served = _taken_by_place(served_trial(kind))
    drawn = _taken_by_place(DrawnTrials({"A": BAD, "B": GOOD}, kind).run(6000, 1))
    assert served.keys() == drawn.keys()
    for place, (shown, taken) in served.items():
        many, expected = drawn[place][0], drawn[place][1] / drawn[place][0]
        error = (expected * (1 - expected) * (1 / shown + 1 / many)) ** 0.5
        assert taken / shown == pytest.approx(expected, abs=4 * error), place


def _taken_by_place(feedback: Feedback) -> dict[tuple[str, int], tuple[int, int]]:
    shown: Counter[tuple[str, int]] = Counter()
    taken: Counter[tuple[str, int]] = Counter()
    for each in feedback.impressions:
        places = [(listed.model, place) for place, listed in enumerate(each.suggestions)]
        shown.update(places)
        taken.update(places[place] for place in each.taken)
    return {place: (shown[place], taken[place]) for place in shown}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["interleave", "split"])
def test_right_in_95_of_100_trials(kind: str) -> None:
    """Models that differ by 20.6%, a stated effect of 20%, alpha .05, power .95."""
    winners = _winners(DrawnTrials({"A": BAD, "B": GOOD}, kind), ENOUGH[kind])
    assert winners["B"] >= 95
    assert winners["A"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["interleave", "split"])
def test_no_winner_in_95_of_100_trials_of_equals(kind: str) -> None:
    winners = _winners(DrawnTrials({"A": GOOD, "B": GOOD}, kind), ENOUGH[kind])
    assert winners[None] >= 95


def _winners(trials: DrawnTrials, visitors: int) -> Counter[str | None]:
    """How often each model won 100 trials."""
    found = (compare(trials.run(visitors, seed), EFFECT, LATER) for seed in range(100))
    return Counter(each.trials[0].winner for each in found)
