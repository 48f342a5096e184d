from pathlib import Path

import numpy as np

from nextquery.evaluation.scenario_features import (
    add_features,
    as_new_visitors,
    build_cases,
    is_test,
    read_evaluation_data,
    with_all_sessions,
    with_every_position,
)
from nextquery.evaluation.scenarios import Rules
from nextquery.evaluation.steps import show_steps
from nextquery.evaluation.systems import Systems, write_user_subset
from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.cases import user_fold
from nextquery.ranking.features import BASELINE_FEATURES
from nextquery.ranking.scoring import FORMS
from nextquery.suggesters.base import Scorer, Suggester
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.popularity import Popularity
from nextquery.suggesters.qvmm import QVMM, QVMMSettings


def test_every_split_but_the_background_is_read(small_data: PreparedData) -> None:
    found = read_evaluation_data(small_data)

    assert list(found.sessions) == ["training", "validation", "test", "unseen_users"]
    assert all(len(s.queries) > 1 for split in found.sessions.values() for s in split)
    known = [s.queries[-2] for s in found.sessions["test"] if s.queries[-2] in found.background]
    followed = {row[0] for row in small_data.counts("followers").collect().iter_rows()}
    assert {anchor for anchor in known if found.background.followers(anchor)} == (
        set(known) & followed
    )


def test_only_cases_to_learn_from_are_limited(small_data: PreparedData) -> None:
    evaluation = read_evaluation_data(small_data)
    cases = build_cases("every_context", evaluation, Rules(), 20)
    unlimited = build_cases("every_context", evaluation, Rules(), None)

    assert len(unlimited["training"]) == len(evaluation.sessions["training"])
    assert len(cases["training"]) == len(cases["validation"]) == 20
    assert len(cases["test"]) == len(evaluation.sessions["test"]) > 20
    assert [split for split in cases if is_test(split)] == ["test", "unseen_users"]


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
    small_data: PreparedData, shared_words: Scorer
) -> None:
    evaluation = read_evaluation_data(small_data)
    cases = build_cases("every_context", evaluation, Rules(), 20)
    counted: dict[str, Suggester] = {
        "qvmm": fit_model(QVMM, small_data),
        "popularity": fit_model(Popularity, small_data),
    }
    systems = Systems(counted, {"mine": shared_words}, {"other": shared_words})
    with show_steps() as steps:
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


def test_for_new_visitors_no_feature_holds_the_users_own_sessions(
    small_data: PreparedData, tmp_path: Path
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
        mine = cases.select([user_fold(case.user, 2) == 1 for case in cases.cases])
        with show_steps() as steps:
            systems = Systems({"qvmm": qvmm, "adj": qvmm}, {}, unpruned=unpruned)
            tables.append(add_features("training", mine, data, systems, steps).features)

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
            (each.id, each.queries[:end])
            for each in sessions
            for end in range(2, len(each.queries) + 1)
        ]
        assert [(each.id, each.queries) for each in taught.sessions[split]] == expected
        assert len(expected) > len(sessions)
    assert taught.sessions["test"] == whole.sessions["test"]
    cases = {
        name: build_cases("next_query", each, Rules(5), None)
        for name, each in (("last", whole), ("every", taught))
    }
    assert cases["every"]["test"] == cases["last"]["test"]
    # Anchors that are nobody's last but one query have their followers, too.
    assert len(cases["every"]["training"]) > 1.5 * len(cases["last"]["training"])


def test_all_sessions_are_test_sessions_and_no_user_teaches_and_validates(
    small_data: PreparedData,
) -> None:
    evaluation = read_evaluation_data(small_data)
    found = with_all_sessions(evaluation, small_data).sessions

    background = [each for each in small_data.sessions("background") if len(each.queries) > 1]
    of_splits = [evaluation.sessions[split] for split in ("training", "validation", "test")]
    assert len(found["test"]) == len(background) + sum(len(split) for split in of_splits)
    assert len({each.id for each in found["test"]}) == len(found["test"])
    users = {split: {each.user for each in found[split]} for split in ("training", "validation")}
    assert not users["training"] & users["validation"]
    assert users["training"] | users["validation"] == {each.user for each in found["test"]}
    assert found["unseen_users"] == evaluation.sessions["unseen_users"]
