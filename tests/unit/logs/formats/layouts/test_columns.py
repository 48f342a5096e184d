from pathlib import Path

import pytest

from nextquery.errors import LogError
from nextquery.logs.formats.base import check_columns, find_columns

COLUMNS = {"user": "who", "time": "when", "query": "what"}


def test_columns_called_by_their_meaning_need_no_choice() -> None:
    plain = {"user": "user", "time": "time", "query": "query"}
    assert find_columns(Path("log"), None, ["query", "time", "user"]) == plain
    with_click = find_columns(Path("log"), None, ["query", "time", "user", "click"])
    assert with_click == plain | {"click": "click"}


def test_chosen_columns_are_looked_for() -> None:
    assert find_columns(Path("log"), COLUMNS, ["what", "when", "who"]) == COLUMNS
    with pytest.raises(LogError, match="log: has no column 'what'; it has who, when: say which"):
        find_columns(Path("log"), COLUMNS, ["who", "when"])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "lacks user, time, query"),
        (COLUMNS | {"query": ""}, "lacks query"),
        (COLUMNS | {"page": "p", "rank": "r"}, "knows no page, rank"),
    ],
)
def test_incomplete_or_unknown_fields_are_refused(columns: dict[str, str], message: str) -> None:
    with pytest.raises(LogError, match=f"`columns` {message}; write user="):
        check_columns(columns)
    check_columns(COLUMNS)
    check_columns(COLUMNS | {"click": "url"})
