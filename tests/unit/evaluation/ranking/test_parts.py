import numpy as np

from nextquery.evaluation.progress import show_steps
from nextquery.evaluation.ranking.parts import (
    add_features,
    build_cases,
    is_test,
    read_evaluation_data,
)
from nextquery.evaluation.ranking.scenarios import Rules
from nextquery.evaluation.systems import Systems
from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.features import BASELINE_FEATURES
from nextquery.ranking.scoring import FORMS
from nextquery.suggesters.base import Scorer, Suggester
from nextquery.suggesters.fitting.fit import fit_model
from nextquery.suggesters.popularity import Popularity
from nextquery.suggesters.qvmm import QVMM


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

    assert len(cases["training"]) == len(cases["validation"]) == 20
    assert len(cases["test"]) == len(evaluation.sessions["test"]) > 20
    assert [split for split in cases if is_test(split)] == ["test", "unseen_users"]


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
            split: add_features(split, cases[split], evaluation.background, systems, steps)
            for split in ("training", "test")
        }

    expected = {*BASELINE_FEATURES, *(f"mine:{form}" for form in FORMS), "other:sum"}
    assert set(parts["training"].features.names) == expected
    assert set(parts["test"].features.names) == expected | {"popularity:alone"}
    table = parts["test"].features
    assert np.array_equal(table.column("mine:sum"), table.column("other:sum"))
    assert np.isfinite(table.values).all()
