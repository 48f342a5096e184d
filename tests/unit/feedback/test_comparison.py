"""Trials: assignment, sequential tests, winners and shadows, on simulated visitors."""

import math
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.simulated_visitors import (
    EXAMINATION,
    SimulatedService,
    SimulatedVisitors,
    simulate,
)
from tests.unit.feedback.drawn_trials import DrawnTrials
from tests.unit.feedback.made_up import VISITORS, acceptance, days, ranked, run

from nextquery.errors import InputError
from nextquery.feedback.acceptance import estimate_position_bias
from nextquery.feedback.assignment import Share, parse_split, split_arm, team_draft
from nextquery.feedback.compare import MOST, DifferenceTest, VoteTest, compare
from nextquery.feedback.events import ListedSuggestion, ShadowList, Trial
from nextquery.feedback.impressions import Feedback, Impression, join_events
from nextquery.feedback.report import compare_shadows
from nextquery.feedback.settings import Bounds, CompareSettings
from nextquery.records import Suggestion


def made(*texts: str) -> list[Suggestion]:
    return [Suggestion(text, 0.0, "seen in the log (1 time)") for text in texts]


TEXTS = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)


@given(TEXTS, TEXTS, st.integers(0, 10), st.text())
def test_a_draft_is_a_fair_list_of_both(
    first: list[str], second: list[str], n: int, key: str
) -> None:
    drafted = team_draft(made(*first), made(*second), n, key)
    texts = [item.suggestion.text for item in drafted]
    assert len(set(texts)) == len(texts) == min(n, len({*first, *second}))
    for team, team_list in enumerate((first, second)):
        texts = [item.suggestion.text for item in drafted if item.team == team]
        assert texts == [text for text in team_list if text in texts], "a team keeps its own order"
    assert drafted == team_draft(made(*first), made(*second), n, key)


def test_equal_lists_give_every_position_to_both_teams_equally_often() -> None:
    """What makes a click favour nobody where there is nothing to choose."""
    same = made("a", "b", "c", "d", "e")
    drafts = [team_draft(same, same, 5, f"visitor {number}") for number in range(2000)]
    for position in range(5):
        first = sum(draft[position].team == 0 for draft in drafts)
        assert abs(first - 1000) < 3 * (2000 * 0.25) ** 0.5


def test_a_split_follows_its_weights_and_is_sticky() -> None:
    shares = parse_split("A:90,B:10")
    arms = {f"visitor {n}": split_arm(shares, f"visitor {n}") for n in range(5000)}
    assert abs(Counter(arms.values())["B"] - 500) < 3 * (5000 * 0.09) ** 0.5
    assert all(split_arm(shares, key) == arm for key, arm in arms.items())


def test_names_may_have_colons() -> None:
    assert parse_split("a:b:1, c:2") == (Share("a:b", 1), Share("c", 2))


@pytest.mark.parametrize("text", ["A", "A:0,B:1", "A:x,B:1", "A:-1,B:1", ":1", "A:1,,B:2"])
def test_an_invalid_split_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="`split`"):
        parse_split(text)


def test_the_evidence_of_votes_by_hand() -> None:
    """A Beta(1/2, 1/2) mixture after one win: B(1.5, .5) / B(.5, .5) * 2 = 1."""
    result = VoteTest(effect=0.5, alpha=0.05).evidence(np.ones(1))
    assert result.p == pytest.approx(1.0)
    after_two = VoteTest(effect=0.5, alpha=0.05).evidence(np.ones(2))
    assert after_two.p == pytest.approx(2 / 3)  # 4 * 3/8 = 3/2


def test_peeking_after_every_vote_finds_no_winner_among_equals() -> None:
    """1,000 trials of equals, looked at 3,000 times each: at most 5% may end with a winner.

    The control is the ordinary test at the same looks, which errs in most of them.
    """
    draw = np.random.default_rng(3)
    test = VoteTest(effect=0.045, alpha=0.05)
    false, naive = 0, 0
    for _ in range(1000):
        votes = (draw.random(3000) < 0.5).astype(float)
        false += not math.isnan(test.evidence(votes).crossed)
        counts = np.arange(1, 3001)
        z = np.abs(np.cumsum(votes) - counts / 2) / np.sqrt(counts / 4)
        naive += bool((z[20:] > 1.96).any())
    assert false <= 50
    assert naive > 400


def test_a_preference_is_found_by_the_horizon_as_often_as_planned() -> None:
    test = VoteTest(effect=0.045, alpha=0.05)
    horizon = test.votes_needed(0.545, 0.95)
    assert 2000 < horizon < 4000
    draw = np.random.default_rng(4)
    result = [test.evidence((draw.random(horizon) < 0.545).astype(float)) for _ in range(400)]
    assert sum(item.crossed > 0.5 for item in result) >= 0.95 * 400
    assert not any(item.crossed < 0.5 for item in result)


def test_the_interval_of_votes_holds_at_all_times() -> None:
    test = VoteTest(effect=0.05, alpha=0.05)
    draw = np.random.default_rng(5)
    missed = 0
    for _ in range(200):
        votes = (draw.random(500) < 0.6).astype(float)
        looks = [test.evidence(votes[:end]) for end in range(25, 501, 25)]
        missed += any(not item.low <= 0.6 <= item.high for item in looks)
    assert missed <= 10 + 3 * 3


def test_peeking_at_a_difference_finds_no_winner_among_equals() -> None:
    draw = np.random.default_rng(6)
    test = DifferenceTest(effect=0.06, alpha=0.05)
    sizes = np.arange(100, 4001, 50)
    variances = 2 * 0.3 * 0.7 / sizes
    false = 0
    for _ in range(1000):
        steps = draw.normal(0, math.sqrt(2 * 0.3 * 0.7), 4000)
        means = np.cumsum(steps)[sizes - 1] / sizes
        false += not math.isnan(test.evidence(means, variances).crossed)
    assert false <= 50


def test_a_difference_is_found_after_the_growth_that_was_planned() -> None:
    test = DifferenceTest(effect=0.06, alpha=0.05)
    growth = test.growth_needed(0.06, 0.001, 0.95)
    draw = np.random.default_rng(7)
    variance = 0.001 / growth
    result = [
        test.evidence(draw.normal(0.06, math.sqrt(variance), 1), np.array([variance])).crossed > 0
        for _ in range(2000)
    ]
    assert np.mean(result) == pytest.approx(0.95, abs=0.02)


def test_no_difference_is_never_found() -> None:
    assert VoteTest(0.05, 0.05).votes_needed(0.5, 0.95) == MOST
    assert DifferenceTest(0.05, 0.05).growth_needed(0.0, 0.001, 0.95) == MOST


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


def test_the_simulated_models_differ_by_a_fifth() -> None:
    assert acceptance(GOOD) / acceptance(BAD) - 1 == pytest.approx(0.206, abs=0.001)


@pytest.mark.parametrize("kind", ["interleave", "split"])
def test_the_better_model_wins_whichever_side_it_is_on(kind: str) -> None:
    for winner in ("A", "B"):
        [result] = compare(served_trial(kind, winner), EFFECT, LATER).trials
        assert (result.winner, result.kind, result.needed) == (winner, kind, 0)
        assert result.p < 0.05


@pytest.mark.parametrize("kind", ["interleave", "split"])
def test_equal_arms_have_no_winner_and_the_rest_is_reported(kind: str) -> None:
    [result] = compare(run({"A": GOOD, "B": GOOD}, kind, 300, 2), EFFECT, LATER).trials
    assert result.winner is None
    assert result.decision.startswith("continue")
    assert result.needed > 0
    assert result.low < (0.5 if kind == "interleave" else 0.0) < result.high


def test_the_trial_ends_at_its_horizon() -> None:
    """After the votes that are needed at most there is no winner, and no advice to continue."""
    settings = CompareSettings(smallest_effect=0.8)
    [early] = compare(run({"A": GOOD, "B": GOOD}, "interleave", 100, 2), settings, LATER).trials
    visitors = 100 + early.needed // 2 + 60
    [late] = compare(run({"A": GOOD, "B": GOOD}, "interleave", visitors, 2), settings, LATER).trials
    assert early.decision.startswith("continue")
    assert late.decision.startswith("no winner")
    assert (late.needed, late.winner) == (0, None)


def test_a_day_counts_when_it_is_over() -> None:
    feedback = served_trial("interleave")
    first, _, third = days(feedback)
    [result] = compare(feedback, EFFECT, third).trials
    assert result.impressions == 2000
    with pytest.raises(InputError, match=f"before {first}"):
        compare(feedback, EFFECT, first)


def test_a_visitor_counts_once() -> None:
    """One who comes back every day and always prefers B is one vote."""
    feedback = served_trial("interleave")
    same = [replace(item, visitor="the same") for item in feedback.impressions]
    [result] = compare(Feedback(tuple(same)), EFFECT, LATER).trials
    assert result.first.visitors + result.second.visitors == 1
    assert result.winner is None


def _before(trial: Trial) -> Trial:
    first, second = trial.arms
    return replace(trial, arms=(first, replace(second, version="0")))


def test_lists_of_an_earlier_version_do_not_count() -> None:
    feedback = run({"A": BAD, "B": GOOD}, "split", 600, 1)
    old = [
        replace(item, trial=_before(item.trial)) if number < 500 and item.trial else item
        for number, item in enumerate(feedback.impressions)
    ]
    [result] = compare(Feedback(tuple(old)), EFFECT, LATER).trials
    assert (result.earlier_versions, result.impressions) == (500, 700)


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
    for position, (shown, taken) in served.items():
        many, expected = drawn[position][0], drawn[position][1] / drawn[position][0]
        error = (expected * (1 - expected) * (1 / shown + 1 / many)) ** 0.5
        assert taken / shown == pytest.approx(expected, abs=4 * error), position


def _taken_by_place(feedback: Feedback) -> dict[tuple[str, int], tuple[int, int]]:
    shown: Counter[tuple[str, int]] = Counter()
    taken: Counter[tuple[str, int]] = Counter()
    for item in feedback.impressions:
        positions = [(listed.model, position) for position, listed in enumerate(item.suggestions)]
        shown.update(positions)
        taken.update(positions[position] for position in item.taken)
    return {position: (shown[position], taken[position]) for position in shown}


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
    result = (compare(trials.run(visitors, seed), EFFECT, LATER) for seed in range(100))
    return Counter(item.trials[0].winner for item in result)


NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def places(*texts: str) -> tuple[ListedSuggestion, ...]:
    return tuple(ListedSuggestion(text, "seen", "A") for text in texts)


def shadowed(*texts: str) -> ShadowList:
    return ShadowList("1", "v", NOON, "q", model="B", version="2", suggestions=places(*texts))


SHOWN = Impression("1", "v", NOON, (), "q", places("a", "b", "c", "d"), frozenset({2}), False, "A")


def test_lists_are_compared_by_hand() -> None:
    lists = [
        replace(SHOWN, shadows=(shadowed("c", "a", "x", "y"),)),
        replace(SHOWN, shadows=(shadowed("a", "b", "x", "c"),)),
        replace(SHOWN, shadows=(shadowed("x"),), taken=frozenset({0})),
        SHOWN,
    ]
    [result] = compare_shadows(lists)
    assert (result.model, result.version, result.lists, result.taken) == ("B", "2", 3, 3)
    assert result.overlap == (2 / 4 + 3 / 4 + 0) / 3
    assert result.same_first == 1 / 3
    assert result.taken_known == 2 / 3
    assert result.taken_higher == 0.0, "once higher, once lower"


def test_nothing_taken_is_not_a_share() -> None:
    [result] = compare_shadows([replace(SHOWN, shadows=(shadowed("x"),), taken=frozenset())])
    assert (result.taken_known, result.taken_higher) == (None, None)


def test_acceptance_is_what_arithmetic_says() -> None:
    model = ranked(0.25, seed=3)
    shown = run({"A": model}, "", 3000, 1).impressions
    taken = sum(bool(item.taken) for item in shown) / len(shown)
    assert taken == pytest.approx(acceptance(model), abs=3 * (0.25 / 6000) ** 0.5)


def test_suggestions_that_are_not_examined_are_not_clicked() -> None:
    blind = SimulatedVisitors([("q",)], lambda *_: 1.0, examination=(0.0, 1.0))
    positions = {
        blind.accepted_position(("q",), ["a", "b", "c"], np.random.default_rng(n)) for n in range(9)
    }
    assert positions == {1}


def test_what_is_looked_at_is_found_again() -> None:
    """Visitors of known habits; two models that order alike enough to vary the places."""
    result = estimate_position_bias(
        run({"A": ranked(0.05, 1), "B": ranked(0.1, 2)}, "interleave", 4000, 1).impressions
    )
    assert result.pairs > 50
    assert [position.position for position in result.positions] == [1, 2, 3, 4, 5]
    for position, true in zip(result.positions, EXAMINATION, strict=True):
        assert position.examined == pytest.approx(true, rel=0.15)
        assert position.low * 0.9 <= true <= position.high * 1.1
    values = [position.examined for position in result.positions]
    assert values == sorted(values, reverse=True)


def test_without_bias_none_is_found() -> None:
    careful = replace(VISITORS, examination=(1.0,) * 5)
    service = SimulatedService({"A": ranked(0.05, 1), "B": ranked(0.1, 2)}, "interleave")
    events = simulate(careful, service, 3000, np.random.default_rng(1))
    result = estimate_position_bias(join_events(events, Bounds(per_origin=0)).impressions)
    assert all(position.low < 1.05 and position.high > 0.95 for position in result.positions)


def test_one_order_tells_nothing() -> None:
    result = estimate_position_bias(run({"A": ranked(0.0)}, "", 500, 1).impressions)
    assert result.positions == ()
    assert "0 accepted suggestions were shown at several positions" in result.too_few
    assert result.examined(3) == 1.0


def test_positions_below_the_last_known_one_count_as_that_one() -> None:
    models = {"A": ranked(0.05, 1), "B": ranked(0.1, 2)}
    result = estimate_position_bias(run(models, "interleave", 500, 1).impressions)
    assert result.examined(99) == result.positions[-1].examined
