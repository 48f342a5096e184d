"""A prepared folder is read back session by session, however its files are cut."""

from typing import Any

import pytest

from nextquery.logs import data_folder
from nextquery.records import Session

SESSIONS = [("a", ("one", "two", "three")), ("b", ("four", "five")), ("c", ("six",) * 4)]


@pytest.mark.parametrize("rows", [1, 2, 4, 1000])
def test_sessions_do_not_depend_on_how_many_rows_are_read(
    prepared: Any, tiny_log: Any, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(data_folder, "_ROWS_AT_A_TIME", rows)
    data = prepared(tiny_log(SESSIONS))
    expected = [Session(n, user, queries) for n, (user, queries) in enumerate(SESSIONS)]
    assert list(data.sessions("background")) == expected
