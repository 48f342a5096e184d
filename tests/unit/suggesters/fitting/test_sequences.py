"""Counting sequences of symbols in sessions."""

from typing import Any

import polars as pl

from nextquery.suggesters.sequences import collected, earlier, following, open_log, without_repeats

SESSIONS = [
    ("ann", ["a", "b", "c"]),
    ("bob", ["a", "b", "x", "b", "c"]),  # x has no symbol: nothing is counted across it
    ("cat", ["a", "b"]),
]
SYMBOLS = pl.DataFrame({"query": ["a", "b", "c"], "symbol": [0, 1, 1]})


def counted(table: pl.DataFrame) -> dict[tuple[int, ...], int]:
    *symbols, count = table.columns
    assert (symbols[-1], count) == ("symbol", "count")
    return {tuple(row[:-1]): row[-1] for row in table.iter_rows()}


def test_what_followed_what(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS, min_users=1))
    numbers = SYMBOLS.with_columns(symbol=pl.Series([0, 1, 2]))
    with open_log(data, "polars", "local[1]") as log:
        one, two = following(log, log.symbols(numbers), 2)
    assert counted(one) == {(0, 1): 3, (1, 2): 2}
    assert counted(two) == {(1, 0, 2): 1}  # newest first: after b, before it a


def test_repeats_of_one_symbol_count_once(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS, min_users=1))
    with open_log(data, "polars", "local[1]") as log:
        rows = collected(without_repeats(log.symbols(SYMBOLS))).sort("session", "position")
    by_session = rows.group_by("session", maintain_order=True).agg("symbol")["symbol"].to_list()
    assert sorted(by_session, key=len) == [[0, 1], [0, 1], [0, 1, None, 1]]


def test_the_names_of_earlier_symbols() -> None:
    assert earlier(3) == ["back1", "back2", "back3"]
