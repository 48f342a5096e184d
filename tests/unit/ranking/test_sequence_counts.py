"""Leaving a user out of the tree must give what a tree without the user gives."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nextquery.ranking.cases import CaseSet, RankingCase
from nextquery.ranking.sequence_counts import (
    NO_TEXTS,
    SequenceCounts,
    log_probabilities_without_own,
    suffix_counts,
)
from nextquery.ranking.user_history import UserHistory, read_histories, read_rarest
from nextquery.suggesters.fitting.fit import fit_model
from nextquery.suggesters.qvmm import QVMM, QVMMSettings

UNPRUNED = QVMMSettings(pruning=0, depth=3)
QUERIES = ["a", "b", "c a", "a b", "d"]

Log = Sequence[tuple[str, Sequence[str]]]
LOGS = st.lists(
    st.tuples(
        st.sampled_from(["anna", "bert", "carl"]),
        st.lists(st.sampled_from(QUERIES), min_size=2, max_size=5),
    ),
    min_size=1,
    max_size=12,
)


@given(LOGS, st.integers(1, 2), st.lists(st.sampled_from([*QUERIES, "c x"]), max_size=4))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_equals_a_model_fitted_without_the_user(
    prepared: Any, tiny_log: Any, log: Log, min_users: int, context: list[str]
) -> None:
    others = [*((user, session) for user, session in log if user != "anna")]
    common = [(user, ("a", "b", "a")) for user in ("dora", "emil")]
    whole = prepared(tiny_log([*log, *common], min_users=min_users))
    without = prepared(tiny_log([*others, *common], min_users=min_users))
    qvmm, wanted = fit_model(QVMM, whole, UNPRUNED), fit_model(QVMM, without, UNPRUNED)
    history = read_histories(whole, ["anna"]).get("anna", UserHistory(()))
    found = SequenceCounts(qvmm, history, read_rarest(whole))
    candidates = [*QUERIES, "never typed", "b never"]

    assert found.log_probabilities(context, candidates) == pytest.approx(
        wanted.log_probabilities(context, candidates)
    )
    alone = SequenceCounts(wanted)
    assert found.suffix_counts(context, candidates) == alone.suffix_counts(context, candidates)


def test_without_a_history_it_is_the_model_itself(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log([("u", ("a", "b", "c")), ("v", ("a", "b", "d"))]))
    qvmm = fit_model(QVMM, data)
    texts = ["b", "c", "d", "new"]

    assert SequenceCounts(qvmm).log_probabilities(("a", "b"), texts) == pytest.approx(
        qvmm.log_probabilities(("a", "b"), texts)
    )


def test_counts_at_the_longest_known_suffix_by_hand(prepared: Any, tiny_log: Any) -> None:
    sessions = [("u", ("a", "b", "c"))] * 3 + [("v", ("x", "b", "d"))] * 2
    qvmm = fit_model(QVMM, prepared(tiny_log(sessions)), QVMMSettings(pruning=0))
    counts = SequenceCounts(qvmm)

    assert counts.suffix_counts(("a", "b"), ["c", "d"]) == [3, 0]
    assert counts.suffix_counts(("y", "b"), ["c", "d"]) == [3, 2]
    assert counts.suffix_counts(("y",), ["c", "d"]) == [0, 0]
    assert counts.suffix_counts(("a", "b now"), ["c", "d"]) == [3, 0]
    own = SequenceCounts(qvmm, UserHistory((("a", "b", "c"),) * 3))
    assert own.suffix_counts(("a", "b"), ["c", "d"]) == [0, 2]


def test_each_case_leaves_its_own_user_out(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log([("u", ("a", "b"))] * 3 + [("v", ("a", "c"))]))
    qvmm = fit_model(QVMM, data)
    histories = read_histories(data, ["u", "v"])
    cases = CaseSet(
        tuple(
            RankingCase(n, ("a",), "a", ("b", "c"), 0, 2, user)
            for n, user in enumerate(["u", "v", "new"])
        )
    )

    raw = suffix_counts(qvmm, cases, histories, read_rarest(data))
    assert raw.tolist() == [0, 1, 3, 0, 3, 1]
    assert suffix_counts(qvmm, cases, {}, NO_TEXTS).tolist() == [3, 1, 3, 1, 3, 1]
    scores = log_probabilities_without_own(qvmm, cases, histories, read_rarest(data))
    by_case = scores.reshape(3, 2)
    assert np.argmax(by_case, axis=1).tolist() == [1, 0, 0]
