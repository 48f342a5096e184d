from dataclasses import replace

import numpy as np
import pytest

from nextquery.evaluation.scenarios import (
    Noise,
    Rules,
    every_context_cases,
    long_tail_cases,
    next_query_cases,
    robust_cases,
)
from nextquery.ranking.cases import BackgroundCounts, Backgrounds
from nextquery.records import Session

WORDS = [f"w{number}" for number in range(30)]
FREQUENCIES = {"cars": 50, "google": 90, **{f"cars {word}": 5 for word in WORDS}}
COUNTS = BackgroundCounts(
    FREQUENCIES, {"cars": {f"cars {word}": 30 - number for number, word in enumerate(WORDS)}}
)


BACKGROUND = Backgrounds(COUNTS)


def session(number: int, *queries: str) -> Session:
    return Session(number, "user", queries)


def test_a_session_counts_if_its_target_is_among_the_twenty_best_followers() -> None:
    sessions = [
        session(1, "cars", "cars w3"),
        session(2, "cars", "cars w25"),  # a follower, but not among the first 20
        session(3, "cars w3", "cars"),  # the anchor has no followers
        session(4, "boats", "cars"),  # the anchor is unknown
        session(5, "google", "cars", "cars w19"),
    ]
    cases = next_query_cases(sessions, BACKGROUND, Rules(min_followers=20)).cases

    assert [case.session for case in cases] == [1, 5]
    assert [case.next_query for case in cases] == ["cars w3", "cars w19"]
    assert {len(case.candidates) for case in cases} == {20}
    assert cases[1].context == ("google", "cars")
    assert cases[1].length == 3


def test_the_anchor_needs_enough_followers() -> None:
    few = Backgrounds(BackgroundCounts(FREQUENCIES, {"cars": {"cars w1": 2, "cars w2": 1}}))
    sessions = [session(1, "cars", "cars w1")]

    assert len(next_query_cases(sessions, few, Rules(min_followers=3))) == 0
    assert len(next_query_cases(sessions, few, Rules(min_followers=2))) == 1


def test_noise_is_inserted_somewhere_and_the_rest_stays() -> None:
    sessions = [session(number, "google", "cars", "cars w1") for number in range(60)]
    clean = next_query_cases(sessions, BACKGROUND, Rules())
    noisy = robust_cases(sessions, BACKGROUND, Rules())

    places = set()
    for before, after in zip(clean.cases, noisy.cases, strict=True):
        place = Noise(COUNTS, 0).insert(before.context, before.session).position
        places.add(place)
        assert len(after.context) == len(before.context) + 1
        assert after.context[place] in FREQUENCIES
        assert after.context[:place] + after.context[place + 1 :] == before.context
        assert (after.candidates, after.target) == (before.candidates, before.target)
        assert after.length == before.length
        assert after.anchor == after.context[-1]
    assert {1, 2} <= places <= {0, 1, 2}
    assert robust_cases(sessions, BACKGROUND, Rules()) == noisy
    assert robust_cases(sessions, BACKGROUND, Rules(seed=1)) != noisy


def test_frequent_queries_are_inserted_more_often() -> None:
    sessions = [session(number, "cars", "cars w1") for number in range(400)]
    noisy = robust_cases(sessions, BACKGROUND, Rules())

    share = np.mean(["google" in case.context for case in noisy.cases])
    assert share == pytest.approx(90 / (90 + 50 + 30 * 5), abs=0.07)


def test_in_the_long_tail_words_are_dropped_from_the_anchor() -> None:
    sessions = [
        session(1, "cars zzz yyy", "cars w1"),
        session(2, "cars", "cars w1"),  # the anchor is known
        session(3, "zzz cars", "cars w1"),  # nothing known remains
    ]
    cases = long_tail_cases(sessions, BACKGROUND, Rules()).cases

    assert [case.session for case in cases] == [1]
    assert cases[0].anchor == "cars"
    assert cases[0].context == ("cars zzz yyy",)


def test_every_session_counts_with_distractors_of_other_sessions() -> None:
    sessions = [session(n, f"first {n}", f"word{n % 7} next{n}") for n in range(200)]
    sessions.append(session(999, "word3", "the target"))
    cases = every_context_cases(sessions, BACKGROUND, Rules()).cases

    assert [case.session for case in cases] == [item.id for item in sessions]
    for case in cases:
        assert len(set(case.candidates)) == 20
    last = cases[-1]
    assert last.next_query == "the target"
    sharing = [text for text in last.candidates if "word3" in text.split()]
    assert 11 <= len(sharing) < 19


def test_the_draw_of_distractors_does_not_depend_on_other_cases() -> None:
    sessions = [session(n, f"first {n}", f"next {n}") for n in range(100)]
    cases = every_context_cases(sessions, BACKGROUND, Rules())
    again = every_context_cases(sessions, BACKGROUND, Rules())
    other = every_context_cases(sessions, BACKGROUND, replace(Rules(), seed=4))

    assert cases == again
    assert cases != other


def test_a_new_visitors_own_past_makes_no_candidates() -> None:
    sessions = [session(1, "cars", "cars w19"), session(2, "cars", "cars w0")]
    followers = {f"cars {word}": 30 - number for number, word in enumerate(WORDS) if number}
    others = BackgroundCounts(FREQUENCIES, {"cars": followers})  # nobody else typed w0 after cars
    new = next_query_cases(sessions, Backgrounds(COUNTS, [others]), Rules()).cases
    known = next_query_cases(sessions, BACKGROUND, Rules()).cases

    assert [case.session for case in known] == [1, 2]
    assert [case.session for case in new] == [1]
    assert new[0].user == "user"
    assert set(known[0].candidates) - set(new[0].candidates) == {"cars w0"}
