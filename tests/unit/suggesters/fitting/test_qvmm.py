"""Sequences of queries counted into a tree, as deep as the settings say."""

from typing import Any

import pytest

from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.qvmm import QVMM, QVMMSettings

SESSIONS = [("u1", ["a", "b", "c"]), ("u2", ["a", "b", "c"]), ("u3", ["x", "b", "d"])]


def after(model: QVMM, *newest_first: str) -> dict[str, float]:
    """The counts at the deepest node that the queries lead to."""
    path = model.tree.match([model.background.queries[query] for query in newest_first])
    if len(path) < len(newest_first):
        return {}
    found = model.tree.followers.most_frequent(path[-1], 9)
    return {model.background.text(int(q)): float(n) for q, n in zip(*found, strict=True)}


def test_sequences_of_every_length_are_counted(prepared: Any, tiny_log: Any) -> None:
    model = fit_model(QVMM, prepared(tiny_log(SESSIONS)), QVMMSettings(depth=2, pruning=0))
    assert after(model, "b") == {"c": 2, "d": 1}
    assert after(model, "b", "a") == {"c": 2}
    assert after(model, "b", "x") == {"d": 1}


def test_nothing_deeper_than_the_depth_is_counted(prepared: Any, tiny_log: Any) -> None:
    model = fit_model(QVMM, prepared(tiny_log(SESSIONS)), QVMMSettings(depth=1, pruning=0))
    assert after(model, "b") == {"c": 2, "d": 1}
    assert after(model, "b", "a") == {}


def test_old_sequences_weigh_less(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS, days=[0, 3, 3]))
    model = fit_model(QVMM, data, QVMMSettings(depth=1, pruning=0, half_life_days=3))
    assert after(model, "b") == pytest.approx({"c": 1.5, "d": 1.0})
