from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nextquery.evaluation.experiment import ExperimentRun
from nextquery.evaluation.rankers import Train, train_here
from nextquery.evaluation.scenario_features import (
    EarlierQueries,
    EvaluationData,
    _earlier_of_user,
    earlier_similarities,
    lengthened,
    read_earlier_queries,
)
from nextquery.evaluation.scenario_run import ScenarioResult
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.evaluation.steps import Finish, StepStore, show_steps
from nextquery.evaluation.systems import Systems
from nextquery.logs.data_folder import UNSEEN_USERS, PreparedData
from nextquery.ranking.cases import CaseSet, RankingCase
from nextquery.suggesters.base import Scorer
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.qvmm import QVMM


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

    found = _earlier_of_user(sessions, 3)

    assert found == {4: ("a", "b", "at the moment"), 5: ("at the moment", "c", "long")}


def test_nothing_of_later_sessions_or_other_users_is_seen(small_data: PreparedData) -> None:
    """Against a search through all rows, for some sessions of every split."""
    splits = [split for split in small_data.splits if split != UNSEEN_USERS]
    rows = pl.concat([small_data.session_rows(split) for split in splits]).collect()
    ends = rows.group_by("session").agg(end=pl.max("time"))
    rows = rows.join(ends, "session").sort("end", "session", "position")
    found = read_earlier_queries(small_data, 4).by_session

    seen = 0
    for split in splits:
        for session in list(small_data.sessions(split))[::40]:
            own = rows.filter(pl.col("user") == session.user)
            start = own.filter(pl.col("session") == session.id)["time"].min()
            before = own.filter(pl.col("end") < start)["query"].to_list()
            assert found.get(session.id, ()) == tuple(before[-4:])
            seen += bool(before)
    assert seen > 20
    assert not found.keys() & {each.id for each in small_data.sessions(UNSEEN_USERS)}


def case(session: int, *context: str) -> RankingCase:
    return RankingCase(session, context, context[-1], ("red shoes", "tea"), 0, len(context) + 1)


def test_earlier_queries_stand_before_the_context_and_are_compared_letter_by_letter() -> None:
    earlier = EarlierQueries(2, {7: ("tea", "red shoes")})
    cases = earlier.added_to(CaseSet((case(7, "boots"), case(8, "boots"))))

    assert [each.context for each in cases.cases] == [("boots",), ("boots",)]
    assert [each.context for each in lengthened(cases).cases] == [
        ("tea", "red shoes", "boots"),
        ("boots",),
    ]
    columns = earlier_similarities(cases, 2)
    assert columns["earlier_similarity_1"].tolist() == pytest.approx([1, 0, 0, 0])
    assert columns["earlier_similarity_2"].tolist() == pytest.approx([0, 1, 0, 0])


def test_only_known_visitors_have_earlier_queries(
    small_data: PreparedData, shared_words: Scorer, tmp_path: Path, monkeypatch: Any
) -> None:
    settings = ExperimentSettings(("every_context",), earlier_queries=2)
    given: dict[str, EvaluationData] = {}

    def keep(
        self: ExperimentRun, prefix: str, evaluation: EvaluationData, systems: Systems, train: Train
    ) -> dict[str, Finish[ScenarioResult]]:
        given[prefix] = evaluation
        return {}

    monkeypatch.setattr(ExperimentRun, "_scenarios", keep)
    systems = Systems({"qvmm": fit_model(QVMM, small_data)}, {"mine": shared_words})
    with show_steps() as steps:
        run = ExperimentRun(small_data, systems, settings, tmp_path, StepStore(tmp_path, 1), steps)
        run._known_visitors(train_here)
        run._new_visitors(train_here)

    known = given[""].earlier
    assert known is not None
    assert known.limit == 2
    assert given["new_"].earlier is None
