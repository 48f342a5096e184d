"""Ranking cases of every scenario: candidates, noise, distractors, new visitors."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from nextquery.evaluation.experiment import ExperimentRun
from nextquery.evaluation.scenario_features import (
    EarlierQueries,
    _earlier_of_user,
    add_features,
    as_new_visitors,
    build_cases,
    earlier_similarities,
    lengthened,
    read_earlier_queries,
    read_evaluation_data,
    with_all_sessions,
    with_every_position,
)
from nextquery.evaluation.scenarios import (
    NOISY_QUERIES,
    SHARING,
    DistractorPool,
    Noise,
    Rules,
    every_context_cases,
    long_tail_cases,
    next_query_cases,
    robust_cases,
)
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.evaluation.steps import Steps, StepStore
from nextquery.evaluation.systems import Systems, write_user_subset
from nextquery.logs.data_folder import UNSEEN_USERS, PreparedData
from nextquery.ranking.cases import BackgroundCounts, Backgrounds, CaseSet, RankingCase, user_fold
from nextquery.ranking.features import BASELINE_FEATURES
from nextquery.ranking.scoring import FORMS
from nextquery.records import Session
from nextquery.suggesters.base import Scorer, Suggester
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.popularity import Popularity
from nextquery.suggesters.qvmm import QVMM, QVMMSettings

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
    cases = list(next_query_cases(sessions, BACKGROUND, Rules(min_followers=20)))

    assert [case.session for case in cases] == [1, 5]
    assert [case.next_query for case in cases] == ["cars w3", "cars w19"]
    assert {len(case.candidates) for case in cases} == {20}
    assert cases[1].context == ("google", "cars")
    assert cases[1].length == 3
    few = Backgrounds(BackgroundCounts(FREQUENCIES, {"cars": {"cars w1": 2, "cars w2": 1}}))
    typed = [session(1, "cars", "cars w1")]
    numbers = [len(next_query_cases(typed, few, Rules(min_followers=least))) for least in (2, 3)]
    assert numbers == [1, 0], "an anchor needs enough followers"


def test_noise_is_inserted_somewhere_and_the_rest_stays() -> None:
    sessions = [session(number, "google", "cars", "cars w1") for number in range(60)]
    clean = next_query_cases(sessions, BACKGROUND, Rules())
    noisy = robust_cases(sessions, BACKGROUND, Rules())

    positions = set()
    for before, after in zip(clean.cases, noisy.cases, strict=True):
        position = Noise(COUNTS, 0).insert(before.context, before.session).position
        positions.add(position)
        assert len(after.context) == len(before.context) + 1
        assert after.context[position] in FREQUENCIES
        assert after.context[:position] + after.context[position + 1 :] == before.context
        assert (after.candidates, after.target) == (before.candidates, before.target)
        assert after.length == before.length
        assert after.anchor == after.context[-1]
    assert {1, 2} <= positions <= {0, 1, 2}
    assert robust_cases(sessions, BACKGROUND, Rules()) == noisy
    assert robust_cases(sessions, BACKGROUND, Rules(seed=1)) != noisy


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


def test_a_new_visitors_own_past_makes_no_candidates() -> None:
    sessions = [session(1, "cars", "cars w19"), session(2, "cars", "cars w0")]
    followers = {f"cars {word}": 30 - number for number, word in enumerate(WORDS) if number}
    rest = BackgroundCounts(FREQUENCIES, {"cars": followers})  # nobody else typed w0 after cars
    new = next_query_cases(sessions, Backgrounds(COUNTS, [rest]), Rules()).cases
    known = next_query_cases(sessions, BACKGROUND, Rules()).cases

    assert [case.session for case in known] == [1, 2]
    assert [case.session for case in new] == [1]
    assert new[0].user == "user"
    assert set(known[0].candidates) - set(new[0].candidates) == {"cars w0"}


def test_distractors_share_words_are_of_other_sessions_and_depend_on_session_and_seed() -> None:
    sessions = [session(n, f"first {n}", f"car {n}", f"boat {n}") for n in range(100)]
    pool = DistractorPool(sessions)
    drawn = pool.draw(sessions[7], 19, seed=0)

    assert len(set(drawn)) == 19
    assert not {"car 7", "boat 7"} & set(drawn)
    assert sum("car" in text for text in drawn) >= SHARING
    assert drawn == pool.draw(sessions[7], 19, seed=0)
    assert drawn != pool.draw(sessions[7], 19, seed=1)
    assert drawn != pool.draw(sessions[8], 19, seed=0)
    few = DistractorPool(sessions[:3])
    assert sorted(few.draw(sessions[0], 19, seed=0)) == ["boat 1", "boat 2", "car 1", "car 2"]


NOISY = {"google": 300, "ebay": 100, **{f"q{number:03}": 2 for number in range(200)}}


def test_noise_is_one_of_the_most_frequent_queries() -> None:
    noise = Noise(BackgroundCounts(NOISY, {}), seed=0)

    assert noise.queries[:2] == ["google", "ebay"]
    assert len(noise.queries) == NOISY_QUERIES
    assert noise.within(("a", "q097"))
    assert not noise.within(("a", "q098"))


def test_it_is_drawn_by_frequency_and_put_anywhere() -> None:
    noise = Noise(BackgroundCounts(NOISY, {}), seed=0)
    drawn = [noise.insert(("a", "b"), session) for session in range(600)]

    assert {context.position for context in drawn} == {0, 1, 2}
    assert all(context.queries[context.position] in noise.queries for context in drawn)
    share = np.mean([context.queries[context.position] == "google" for context in drawn])
    assert share == pytest.approx(300 / (400 + 98 * 2), abs=0.06)


def test_only_cases_to_learn_from_are_limited(small_data: PreparedData) -> None:
    evaluation = read_evaluation_data(small_data)
    cases = build_cases("every_context", evaluation, Rules(), 20)
    unlimited = build_cases("every_context", evaluation, Rules(), None)

    assert len(unlimited["training"]) == len(evaluation.sessions["training"])
    assert len(cases["training"]) == len(cases["validation"]) == 20
    assert len(cases["test"]) == len(evaluation.sessions["test"]) > 20
    assert list(cases) == ["training", "validation", "test", "unseen_users"]


def test_the_test_cases_of_some_users_are_those_of_the_whole(small_data: PreparedData) -> None:
    evaluation = read_evaluation_data(small_data)
    whole, some, other = (
        build_cases("every_context", evaluation, Rules(seed=seed), 20, users)
        for seed, users in ((0, None), (0, 15), (1, 15))
    )

    users = {case.user for case in some["test"].cases}
    assert len(users) == 15
    # Distractors are drawn from everybody's sessions, as in the whole.
    assert some["test"].cases == tuple(c for c in whole["test"].cases if c.user in users)
    assert some["training"] == whole["training"]
    assert len({case.user for case in some["unseen_users"].cases}) == 15
    assert {case.user for case in other["test"].cases} != users


def test_count_models_alone_are_scored_on_test_parts_only(
    small_data: PreparedData, shared_words: Scorer, steps: Steps
) -> None:
    evaluation = read_evaluation_data(small_data)
    cases = build_cases("every_context", evaluation, Rules(), 20)
    counted: dict[str, Suggester] = {
        "qvmm": fit_model(QVMM, small_data),
        "popularity": fit_model(Popularity, small_data),
    }
    systems = Systems(counted, {"mine": shared_words}, {"other": shared_words})
    parts = {
        split: add_features(split, cases[split], evaluation, systems, steps)
        for split in ("training", "test")
    }

    expected = {*BASELINE_FEATURES, *(f"mine:{form}" for form in FORMS), "other:sum"}
    assert set(parts["training"].features.names) == expected
    assert set(parts["test"].features.names) == expected | {"popularity:alone"}
    table = parts["test"].features
    assert np.array_equal(table.column("mine:sum"), table.column("other:sum"))
    assert np.isfinite(table.values).all()


@pytest.mark.slow
def test_for_new_visitors_no_feature_holds_the_users_own_sessions(
    small_data: PreparedData, tmp_path: Path, steps: Steps
) -> None:
    """Against the features on a log that the users of the fold were never in."""
    evaluation = as_new_visitors(read_evaluation_data(small_data), small_data, tmp_path / "w", 2)
    without = write_user_subset(
        small_data, tmp_path / "d", lambda user: user_fold(user, 2) != 1, ["background"]
    )
    never = read_evaluation_data(without)
    tables = []
    for data, log in ((evaluation, small_data), (never, without)):
        qvmm = fit_model(QVMM, log)
        unpruned = fit_model(QVMM, log, QVMMSettings(pruning=0))
        cases = build_cases("every_context", data, Rules(), None)["training"]
        fold_cases = cases.select([user_fold(case.user, 2) == 1 for case in cases.cases])
        systems = Systems({"qvmm": qvmm, "adj": qvmm}, {}, unpruned=unpruned)
        tables.append(add_features("training", fold_cases, data, systems, steps).features)

    assert len(tables[0].values) >= 1000
    assert tables[0].names == tables[1].names
    assert np.allclose(tables[0].values, tables[1].values)
    assert not list((tmp_path / "w").iterdir())


def test_every_position_teaches_and_only_the_last_is_tested(small_data: PreparedData) -> None:
    whole = read_evaluation_data(small_data)
    taught = with_every_position(whole, small_data)
    for split in ("training", "validation"):
        sessions = whole.sessions[split]
        expected = [
            (item.id, item.queries[:end])
            for item in sessions
            for end in range(2, len(item.queries) + 1)
        ]
        assert [(item.id, item.queries) for item in taught.sessions[split]] == expected
        assert len(expected) > len(sessions)
    assert taught.sessions["test"] == whole.sessions["test"]
    cases = {
        name: build_cases("next_query", item, Rules(5), None)
        for name, item in (("last", whole), ("every", taught))
    }
    assert cases["every"]["test"] == cases["last"]["test"]
    # Anchors that are nobody's last but one query have their followers, too.
    assert len(cases["every"]["training"]) > 1.5 * len(cases["last"]["training"])


def test_all_sessions_are_test_sessions_and_no_user_teaches_and_validates(
    small_data: PreparedData,
) -> None:
    evaluation = read_evaluation_data(small_data)
    result = with_all_sessions(evaluation, small_data).sessions

    background = [item for item in small_data.sessions("background") if len(item.queries) > 1]
    of_splits = [evaluation.sessions[split] for split in ("training", "validation", "test")]
    assert len(result["test"]) == len(background) + sum(len(split) for split in of_splits)
    assert len({item.id for item in result["test"]}) == len(result["test"])
    users = {split: {item.user for item in result[split]} for split in ("training", "validation")}
    assert not users["training"] & users["validation"]
    assert users["training"] | users["validation"] == {item.user for item in result["test"]}
    assert result["unseen_users"] == evaluation.sessions["unseen_users"]


def test_the_last_queries_of_the_same_user_before_the_session(prepared: Any, tiny_log: Any) -> None:
    log = tiny_log(
        [("ann", "c d"), ("ann", "a b"), ("bob", "x y"), ("ann", "e f")], days=[1, 0, 2, 3]
    )
    log.sessions[:] = [(user, queries.split()) for user, queries in log.sessions]

    assert read_earlier_queries(prepared(log), 3).by_session == {0: ("a", "b"), 3: ("b", "c", "d")}


def test_what_was_not_over_when_a_session_began_does_not_count() -> None:
    sessions = [
        (1, 0, 50, ["long"]),
        (2, 10, 20, ["a", "b"]),
        (3, 20, 25, ["at the moment"]),
        (4, 30, 40, ["c"]),
        (5, 60, 70, ["d"]),
    ]

    result = _earlier_of_user(sessions, 3)

    assert result == {4: ("a", "b", "at the moment"), 5: ("at the moment", "c", "long")}


def test_nothing_of_later_sessions_or_other_users_is_seen(small_data: PreparedData) -> None:
    """Against a search through all rows, for some sessions of every split."""
    splits = [split for split in small_data.splits if split != UNSEEN_USERS]
    rows = pl.concat([small_data.session_rows(split) for split in splits]).collect()
    ends = rows.group_by("session").agg(end=pl.max("time"))
    rows = rows.join(ends, "session").sort("end", "session", "position")
    result = read_earlier_queries(small_data, 4).by_session

    seen = 0
    for split in splits:
        for session in list(small_data.sessions(split))[::40]:
            user_rows = rows.filter(pl.col("user") == session.user)
            start = user_rows.filter(pl.col("session") == session.id)["time"].min()
            before = user_rows.filter(pl.col("end") < start)["query"].to_list()
            assert result.get(session.id, ()) == tuple(before[-4:])
            seen += bool(before)
    assert seen > 20
    assert not result.keys() & {item.id for item in small_data.sessions(UNSEEN_USERS)}


def case(session: int, *context: str) -> RankingCase:
    return RankingCase(session, context, context[-1], ("red shoes", "tea"), 0, len(context) + 1)


def test_earlier_queries_come_before_the_context_and_are_compared_by_letters() -> None:
    earlier = EarlierQueries(2, {7: ("tea", "red shoes")})
    cases = earlier.added_to(CaseSet((case(7, "boots"), case(8, "boots"))))

    assert [item.context for item in cases.cases] == [("boots",), ("boots",)]
    assert [item.context for item in lengthened(cases).cases] == [
        ("tea", "red shoes", "boots"),
        ("boots",),
    ]
    columns = earlier_similarities(cases, 2)
    assert columns["earlier_similarity_1"].tolist() == pytest.approx([1, 0, 0, 0])
    assert columns["earlier_similarity_2"].tolist() == pytest.approx([0, 1, 0, 0])


@pytest.mark.slow
def test_only_known_visitors_have_earlier_queries(
    small_data: PreparedData, shared_words: Scorer, tmp_path: Path, steps: Steps
) -> None:
    settings = ExperimentSettings(("every_context",), earlier_queries=2)
    systems = Systems({"qvmm": fit_model(QVMM, small_data)}, {"mine": shared_words})
    run = ExperimentRun(small_data, systems, settings, tmp_path, StepStore(tmp_path, 1), steps)
    known, new = run._known_visitors().earlier, run._new_visitors().earlier

    assert known is not None
    assert known.limit == 2
    assert new is None
