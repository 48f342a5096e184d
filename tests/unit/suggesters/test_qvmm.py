from itertools import product
from math import exp, log
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.qvmm import QVMM, QVMMSettings

SESSIONS = [
    ("ann", ["a", "b", "c"]),
    ("bob", ["a", "b", "c"]),
    ("cat", ["x", "b", "d"]),
    ("dan", ["x", "b", "d"]),
    ("eve", ["x", "b", "c"]),
]
EXACT = QVMMSettings(depth=5, pruning=0, escape=1)


@pytest.fixture
def model(prepared: Any, tiny_log: Any) -> QVMM:
    return fit_model(QVMM, prepared(tiny_log(SESSIONS)), EXACT)


def test_probabilities_by_hand(model: QVMM) -> None:
    # 15 queries: c 3, d 2. After b: c 3, d 2. After x b: d 2, c 1.
    after_b = {"c": (3 + 3 / 16) / 6, "d": (2 + 2 / 16) / 6}
    after_x_b = {"c": (1 + after_b["c"]) / 4, "d": (2 + after_b["d"]) / 4}
    scored = model.score(["x", "b"], ["c", "d"])
    assert [item.log_likelihood for item in scored] == pytest.approx(
        [log(after_x_b["c"]), log(after_x_b["d"])]
    )
    found = model.suggest(["x", "b"], 5)
    assert [item.text for item in found] == ["d", "c"]
    assert [item.score for item in found] == pytest.approx(
        [log(after_x_b["d"]), log(after_x_b["c"])]
    )


def test_the_queries_before_the_anchor_decide(model: QVMM) -> None:
    assert model.suggest(["a", "b"], 1)[0].text == "c"
    assert model.suggest(["x", "b"], 1)[0].text == "d"
    assert model.suggest(["x", "b"], 1)[0].source == (
        "seen in the log (2 times after the last 2 queries)"
    )


def test_an_unknown_text_escapes_through_every_length(model: QVMM) -> None:
    (scored,) = model.score(["x", "b"], ["zyzzyva"])
    # Twice one of (total + 1): 3 followers of x b, 5 of b; then the unknown query's prior:
    # 1 of 16 queries, spelt with an unknown word and an end among 15 words, 15 ends and 1.
    assert scored.log_likelihood == pytest.approx(log(1 / 4 * 1 / 6 * 1 / 16 * 1 / 31 * 15 / 31))


def test_followers_of_a_shorter_context_fill_the_list(model: QVMM) -> None:
    found = model.suggest(["a", "b"], 5)
    assert [item.text for item in found] == ["c", "d"]
    assert found[1].source == "seen in the log (2 times after the last query)"


@pytest.mark.parametrize("length", [1, 2, 3])
def test_back_off_is_used_exactly_when_the_context_is_unseen(model: QVMM, length: int) -> None:
    sequences = [queries for _, queries in SESSIONS]
    for context in product("abcdx", repeat=length):
        followed = any(
            list(context) == queries[start : start + length]
            for queries in sequences
            for start in range(len(queries) - length)
        )
        assert (model.matched(context) == length) == followed


def test_depth_limits_how_far_back_it_looks(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS))
    shallow = fit_model(QVMM, data, QVMMSettings(depth=1, pruning=0, escape=1))
    adjacency = fit_model(Adjacency, data)
    assert shallow.matched(["x", "b"]) == 1
    for one, other in zip(shallow.suggest(["x", "b"]), adjacency.suggest(["x", "b"]), strict=True):
        assert one.text == other.text
        assert one.score == pytest.approx(other.score)


def test_pruning_leaves_out_what_says_nothing_new(prepared: Any, tiny_log: Any) -> None:
    # After y b the followers are spread exactly as after b alone; after a b they are not.
    sessions = [
        *[("u", [first, "b", last]) for first in "y" for last in "cd"],
        *[("u", ["a", "b", "c"]), ("u", ["z", "b", "d"])],
    ]
    data = prepared(tiny_log(sessions))
    pruned = fit_model(QVMM, data, QVMMSettings(pruning=0.1, escape=1))
    assert fit_model(QVMM, data, EXACT).matched(["y", "b"]) == 2
    assert pruned.matched(["y", "b"]) == 1
    assert pruned.matched(["a", "b"]) == 2  # KL of (1, 0) from (1/2, 1/2) is log 2 = 0.69
    assert fit_model(QVMM, data, QVMMSettings(pruning=0.7)).matched(["a", "b"]) == 1


def test_a_sequence_on_the_way_to_a_telling_one_stays(prepared: Any, tiny_log: Any) -> None:
    # y b says no more than b, but p y b does.
    sessions = [("u", ["p", "y", "b", "c"]), ("u", ["q", "y", "b", "d"])]
    model = fit_model(QVMM, prepared(tiny_log(sessions)), QVMMSettings(pruning=0.1))
    assert model.matched(["p", "y", "b"]) == 3


def test_an_empty_context_gives_the_most_frequent(model: QVMM) -> None:
    assert [item.text for item in model.suggest([], 2)] == ["b", "c"]


def test_a_last_query_never_seen_is_shortened_and_said_so(prepared: Any, tiny_log: Any) -> None:
    sessions = [("u", ["old", "new york", "boston"])]
    model = fit_model(QVMM, prepared(tiny_log(sessions)), EXACT)
    (found,) = model.suggest(["old", "new york pizza"])
    assert found.text == "boston"
    assert found.source.endswith("last 2 queries, read as 'new york': it was never seen)")
    strict = fit_model(QVMM, prepared(tiny_log(sessions)), QVMMSettings(shorten=False))
    assert strict.suggest(["old", "new york pizza"]) == []


def test_a_rare_query_breaks_the_sequence(prepared: Any, tiny_log: Any) -> None:
    sessions = [
        ("ann", ["a", "secret", "b"]),
        ("bob", ["a", "b"]),
        ("cat", ["b", "a", "b"]),
    ]
    model = fit_model(QVMM, prepared(tiny_log(sessions, min_users=2)), EXACT)
    assert [item.text for item in model.suggest(["a"])] == ["b"]
    assert model.suggest(["a"])[0].source.startswith("seen in the log (2 times")
    assert model.matched(["a", "secret"]) == 0


queries = st.sampled_from(["a", "b", "c", "a b", "b c", "c a b"])
logs = st.lists(st.lists(queries, min_size=2, max_size=5), min_size=1, max_size=12)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    logs,
    st.lists(queries, max_size=4),
    st.sampled_from([0.0, 0.2, 2.0]),
    st.sampled_from([0.5, 1.0, 10.0]),
)
def test_probabilities_sum_to_at_most_one(
    prepared: Any,
    tiny_log: Any,
    sessions: list[list[str]],
    context: list[str],
    pruning: float,
    escape: float,
) -> None:
    data = prepared(tiny_log([("u", session) for session in sessions]))
    model = fit_model(QVMM, data, QVMMSettings(pruning=pruning, escape=escape))
    known = sorted({query for session in sessions for query in session})
    unknown = ["zyzzyva", "a zyzzyva", "b a c b a"]
    probabilities = [exp(item.log_likelihood) for item in model.score(context, known + unknown)]
    assert 0 < sum(probabilities) <= 1
    # What the model suggests are the most probable of all that it could.
    suggested = model.suggest(context, 3)
    scored = {item.text: item.log_likelihood for item in model.score(context, known)}
    assert all(item.score == pytest.approx(scored[item.text]) for item in suggested)
