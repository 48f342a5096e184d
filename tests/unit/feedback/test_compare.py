from dataclasses import replace

import pytest
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


def test_the_made_up_models_differ_by_a_fifth() -> None:
    assert acceptance(GOOD) / acceptance(BAD) - 1 == pytest.approx(0.206, abs=0.001)


@pytest.mark.parametrize("kind", ["interleave", "split"])
def test_the_better_model_wins_whichever_side_it_is_on(kind: str) -> None:
    for models, winner in (({"A": BAD, "B": GOOD}, "B"), ({"A": GOOD, "B": BAD}, "A")):
        [found] = compare(run(models, kind, 1500, 1), EFFECT, LATER).trials
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
    feedback = run({"A": BAD, "B": GOOD}, "interleave", 1100, 1)
    first, _, third = days(feedback)
    [found] = compare(feedback, EFFECT, third).trials
    assert found.impressions == 2000
    with pytest.raises(InputError, match=f"before {first}"):
        compare(feedback, EFFECT, first)


def test_a_visitor_counts_once() -> None:
    """One who comes back every day and always prefers B is one vote."""
    feedback = run({"A": BAD, "B": GOOD}, "interleave", 1500, 1)
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["interleave", "split"])
def test_right_in_95_of_100_trials(kind: str) -> None:
    """Models that differ by 20.6%, a stated effect of 20%, alpha .05, power .95."""
    winners = [
        compare(run({"A": BAD, "B": GOOD}, kind, ENOUGH[kind], seed), EFFECT, LATER)
        .trials[0]
        .winner
        for seed in range(100)
    ]
    assert winners.count("B") >= 95
    assert winners.count("A") == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["interleave", "split"])
def test_no_winner_in_95_of_100_trials_of_equals(kind: str) -> None:
    winners = [
        compare(run({"A": GOOD, "B": GOOD}, kind, ENOUGH[kind], seed), EFFECT, LATER)
        .trials[0]
        .winner
        for seed in range(100)
    ]
    assert winners.count(None) >= 95
