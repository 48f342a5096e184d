from typing import Any

from nextquery.ranking.cases import CaseSet, RankingCase
from nextquery.ranking.features import suffix_counts
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.qvmm import QVMM, QVMMSettings


def test_counts_at_the_longest_known_suffix_by_hand(prepared: Any, tiny_log: Any) -> None:
    sessions = [("u", ("a", "b", "c"))] * 3 + [("v", ("x", "b", "d"))] * 2
    qvmm = fit_model(QVMM, prepared(tiny_log(sessions)), QVMMSettings(pruning=0))
    contexts = [("a", "b"), ("y", "b"), ("y",), ("a", "b now")]
    cases = CaseSet(
        tuple(RankingCase(n, context, "", ("c", "d"), 0, 2) for n, context in enumerate(contexts))
    )

    assert suffix_counts(qvmm, cases).reshape(4, 2).tolist() == [[3, 0], [3, 2], [0, 0], [3, 0]]
    assert suffix_counts(qvmm, CaseSet(())).tolist() == []


def test_a_candidate_never_typed_counts_nothing(prepared: Any, tiny_log: Any) -> None:
    qvmm = fit_model(QVMM, prepared(tiny_log([("u", ("a", "b"))])))
    cases = CaseSet((RankingCase(0, ("a",), "a", ("never", "b"), 1, 2),))

    assert suffix_counts(qvmm, cases).tolist() == [0, 1]
