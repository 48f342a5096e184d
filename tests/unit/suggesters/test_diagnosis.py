"""Every reason that keeps a query from being suggested is named."""

from pathlib import Path
from typing import Any

import pytest

from nextquery import load
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.diagnosis import why
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.popularity import Popularity


@pytest.fixture(scope="module")
def model(prepared: Any, tiny_log: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    crowd = [(f"user{number}", ["red shoes", "red boots", "rude boots"]) for number in range(4)]
    diarist = ("diarist", ["red shoes", "boots shoes"])
    data: PreparedData = prepared(tiny_log([*crowd, diarist], [], min_users=3))
    folder: Path = tmp_path_factory.mktemp("model") / "popularity"
    fit_model(Popularity, data).save(folder)
    return folder


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("red shoes", None),
        ("Red, Boots!", None),
        ("...", "nothing of it is left when it is normalised"),
        ("shoes", "the model suggests only queries that at least 3 users typed"),
        ("boots shoes", "refused by the guard: a pair of words of fewer than K users"),
        ("red zebra", "refused by the guard: a word of fewer than K users"),
        ("rude boots", "refused by the guard: blocklist"),
        ("r-u-d-e boots", "refused by the guard: blocklist"),
        ("555 123 4567", "refused by the guard: personal data"),
    ],
)
def test_reasons(model: Path, tmp_path: Path, query: str, reason: str | None) -> None:
    (tmp_path / "blocked.txt").write_text("rude\n", encoding="utf-8")
    found = why(load(model, blocklist=tmp_path / "blocked.txt"), query)
    assert found.reason == reason
    assert found.can_be_suggested == (reason is None)


def test_a_query_of_the_session_is_not_suggested_again(model: Path) -> None:
    found = why(load(model), "red shoes", ["RED shoes"])
    assert found.reason == "it is a query of the session"
    assert found.count == 5


def test_asking_why_is_not_counted_as_a_refusal(model: Path) -> None:
    suggester = load(model)
    why(suggester, "boots shoes")
    assert suggester.guard.blocked() == {}  # type: ignore[attr-defined]


def test_where_every_user_counts_nobody_is_said_to_have_typed_it(
    prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    data: PreparedData = prepared(tiny_log([("one", ["red shoes", "red boots"])], [], min_users=1))
    fit_model(Popularity, data).save(tmp_path / "popularity")
    found = why(load(tmp_path / "popularity"), "shoes red")
    wanted = "the model suggests only queries that it has seen, and this is none of them"
    assert found.reason == wanted
    assert (found.count, found.min_users) == (None, 1)
