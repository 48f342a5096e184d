"""What counts as failed, and as the query that came next."""

from typing import Any

from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.rescue import Rescue


def followers(model: Rescue, query: str) -> dict[str, int]:
    row = model.background.queries[query]
    found = model.followers.most_frequent(row, 100)
    return {model.background.text(int(q)): int(n) for q, n in zip(*found, strict=True)}


def test_the_next_query_that_did_not_fail_counts_once_a_session(
    prepared: Any, tiny_log: Any
) -> None:
    sessions = [
        ("u1", ["bad", "bad", "good"]),  # typed twice in one session
        ("u2", ["good", "bad", "worse", "fine", "good"]),  # "worse" failed, too
        ("u3", ["fine", "bad"]),  # nothing came after it
        ("u4", ["worse", "bad"]),  # nothing that found something
    ]
    model = fit_model(
        Rescue, prepared(tiny_log(sessions)), hits=lambda query: query in ("good", "fine")
    )
    assert followers(model, "bad") == {"good": 1, "fine": 1}
    assert followers(model, "worse") == {"fine": 1}
    assert followers(model, "good") == followers(model, "fine") == {}


def test_what_few_users_typed_is_neither_stored_nor_suggested(prepared: Any, tiny_log: Any) -> None:
    sessions = [(user, ["oops", "secret", "good"]) for user in ("u1", "u2")]
    sessions += [("u1", ["my own typo", "good"])]
    data = prepared(tiny_log(sessions, min_users=2))
    model = fit_model(Rescue, data, hits=lambda query: query == "good")
    assert followers(model, "oops") == {"good": 2}
    assert model.background.id("my own typo") is None
    assert not any(gram in model.names for gram in ("typ", "ypo"))
