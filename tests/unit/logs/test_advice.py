import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nextquery.errors import LogError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.inspect import LogFacts, Repetition, advise, dominance, emptiness, has_clicks
from nextquery.logs.prepare import prepare
from nextquery.logs.privacy import pseudonym
from nextquery.logs.settings import PrepareSettings

SESSIONS = [(f"u{n}", ["red shoes", "red boots"]) for n in range(5)]


def facts(background: int, test: int, known: float) -> LogFacts:
    counts = {"sessions": {"background": background, "test": test}}
    return LogFacts(counts, {}, Repetition(0.5, {"test": known}, 0.1), {}, ())


@pytest.fixture
def data(prepared: Callable[[Any], PreparedData], tiny_log: Any) -> PreparedData:
    return prepared(tiny_log(SESSIONS, min_users=2))


def told(data: PreparedData, found: LogFacts) -> str:
    return " ".join(f"{item.text} {item.command}" for item in advise(data, found))


def test_a_large_log_is_advised_to_train(data: PreparedData) -> None:
    text = told(data, facts(100_000, 10_000, 0.6))
    assert "--config small" in text
    assert "too few" not in text


def test_a_small_log_is_told_what_it_lacks(data: PreparedData) -> None:
    text = told(data, facts(300, 20, 0.02))
    assert "20 test sessions are too few" in text
    assert "--config tiny" in text


def test_a_log_without_clicks_gets_shortcuts_that_need_none(
    data: PreparedData, prepared: Callable[[Any], PreparedData], tiny_log: Any
) -> None:
    assert not has_clicks(data)
    assert "The log has no clicks" in told(data, facts(300, 20, 0.5))
    clicked = prepared(tiny_log(SESSIONS, clicks=[("u1", "red boots", "http://a")]))
    assert has_clicks(clicked)
    assert "The log has no clicks" not in told(clicked, facts(300, 20, 0.5))


ALONE = [(f"v{n}", [f"query {n}", f"other {n}"]) for n in range(40)]
PAIRS = [(f"w{n}", ["blue hats", "blue caps"]) for n in range(2)]


@pytest.mark.parametrize(
    ("sessions", "min_users", "expected"),
    [
        ([("one", ["a", "b"])], 3, "No query was typed by 3 users: .* It would be 100.0% with "),
        ([*SESSIONS, *ALONE], 1, None),
        # 10 of 90 searches; with K = 2 the same, with K = 1 all.
        (
            [*SESSIONS, *ALONE],
            3,
            "Only 11.1% of the background's searches .* 3 users typed.* "
            "It would be 100.0% with `min_users=1`; ",
        ),
        # 10 of 94, 14 of 94, all
        ([*SESSIONS, *ALONE, *PAIRS], 3, "It would be 14.9% with `min_users=2`, 100.0% with"),
    ],
)
def test_a_lower_k_is_advised_only_with_what_it_would_change(
    prepared: Any, tiny_log: Any, sessions: Any, min_users: int, expected: str | None
) -> None:
    found = list(emptiness(prepared(tiny_log(sessions, min_users=min_users))))
    if expected is None:
        assert not found
    else:
        assert re.search(expected, found[0].text)


HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"


def dominated(folder: Path, **settings: Any) -> PreparedData:
    """60 visitors with three searches each, and a shared address with more than all of them."""
    rows = [
        f"u{n}\t{query}\t2024-01-{1 + n % 28:02} 10:{minute}:00\t\t\n"
        for n in range(60)
        for minute, query in enumerate(["shoes", "boots", "search" if n < 5 else "hats"], 10)
    ]
    rows += [
        f"10.0.0.1\t{'search' if n % 2 else f'shoes {n}'}\t2024-01-{1 + n % 28:02} 12:00:00\t\t\n"
        for n in range(200)
    ]
    (folder / "log.tsv").write_text(HEADER + "".join(rows))
    chosen = PrepareSettings(**{"spelling": False, **settings})
    prepare([folder / "log.tsv"], folder / "data", chosen)
    return PreparedData(folder / "data")


def test_a_visitor_who_would_decide_the_lists_is_named_with_what_to_do(tmp_path: Path) -> None:
    shared = f"pseudonym:{pseudonym('10.0.0.1')}"
    visitor, query = (item.text for item in dominance(dominated(tmp_path)))
    assert visitor.startswith("One visitor has 52.6% of the rows (200; the mean is 6.2)")
    assert shared in visitor
    assert "`exclude_users`" in visitor
    assert query.startswith(
        "The query 'search' looks like the label of a search box: 105 rows of 6 users, "
        "100 of them by one visitor"
    )
    assert "`where=Query!=search`" in query


@pytest.mark.parametrize("name", ["10.0.0.1", f"pseudonym:{pseudonym('10.0.0.1')}"])
def test_an_excluded_visitor_does_not_count(tmp_path: Path, name: str) -> None:
    data = dominated(tmp_path, exclude_users=(name,))
    counts = data.artifact.entry("counts")
    assert counts["excluded"] == {"users": 1, "rows": 200}
    assert data.artifact.entry("settings")["exclude_users"] == [
        f"pseudonym:{pseudonym('10.0.0.1')}"
    ]
    assert not data.search_rows("background").filter(pl.col("query") == "shoes 0").collect().height
    assert "One visitor has" not in "".join(item.text for item in dominance(data))


def test_a_user_column_that_is_unique_per_row_is_named(tmp_path: Path) -> None:
    rows = [f"u{n}\tshoes\t2024-01-{1 + n % 28:02} 10:00:00\t\t\n" for n in range(150)]
    (tmp_path / "log.tsv").write_text(HEADER + "".join(rows))
    with pytest.raises(LogError, match="nearly every row has a user of its own; choose the column"):
        prepare([tmp_path / "log.tsv"], tmp_path / "data", PrepareSettings())
    few = [f"w{n % 2}\tshoes {n}\t2024-01-01 10:1{n}:00\t\t\n" for n in range(4)]
    (tmp_path / "log.tsv").write_text(HEADER + "".join([*rows, *few]))
    prepare([tmp_path / "log.tsv"], tmp_path / "data", PrepareSettings(spelling=False))
    (advice,) = dominance(PreparedData(tmp_path / "data"))
    assert advice.text.startswith("152 users in 154 rows: nearly every row has a user of its own")
