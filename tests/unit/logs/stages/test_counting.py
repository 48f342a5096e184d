"""The count tables by hand, on every engine that starts quickly."""

from pathlib import Path

import polars as pl
import pytest

from nextquery.logs.counting import CountTables, count_background, split_words
from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.sessions import SessionRows

QUERIES = {1: "red shoes", 2: "red", 3: "secret plan"}
TYPED = ("count", "users")
URLS = {1: "a.example", 2: "b.example"}


def _frame(engine: Engine, folder: Path, rows: pl.DataFrame) -> Frame:
    folder.mkdir(parents=True)
    rows.write_parquet(folder / "part-00000.parquet")
    return engine.scan(folder)


def _dictionary(engine: Engine, folder: Path, name: str, key: str, texts: dict[int, str]) -> Frame:
    # Ids from 0 without gaps, as the engines number texts.
    numbered = {0: "-", **texts}
    rows = pl.DataFrame({key: list(numbered), name: list(numbered.values())})
    return _frame(engine, folder, rows.cast({key: pl.Int64}))


@pytest.fixture
def counts(engine: Engine, tmp_path: Path) -> CountTables:
    queries = [
        # user, query, next, split, single
        (1, 1, 2, 0, False),
        (1, 2, None, 0, False),
        (2, 1, 2, 0, False),
        (2, 2, None, 0, False),
        (1, 3, 1, 0, False),  # one user only
        (1, 1, None, 0, False),
        (3, 1, None, 0, True),  # a session of one query
        (3, 1, 2, 1, False),  # training
    ]
    clicks = [(1, 1, 1, 0), (2, 1, 1, 0), (3, 1, 2, 0), (1, 3, 1, 0), (3, 1, 1, 1)]
    ids = {"user_id": pl.Int64, "query_id": pl.Int64}
    rows = pl.DataFrame(
        queries, {**ids, "next_id": pl.Int64, "split": pl.Int8, "single": pl.Boolean}, orient="row"
    )
    clicked = pl.DataFrame(clicks, {**ids, "url_id": pl.Int64, "split": pl.Int8}, orient="row")
    sessions = SessionRows(
        _frame(engine, tmp_path / "queries", rows), _frame(engine, tmp_path / "clicks", clicked)
    )
    return count_background(
        engine,
        sessions,
        _dictionary(engine, tmp_path / "texts", "query", "query_id", QUERIES),
        _dictionary(engine, tmp_path / "urls", "click", "url_id", URLS),
        min_users=2,
    )


def _rows(table: Frame, *columns: str) -> list[tuple[object, ...]]:
    return sorted(table.select(*columns).collect("polars").rows())


def test_every_search_counts_and_followers_need_a_session(counts: CountTables) -> None:
    in_sessions = ("count", "users", "session_count", "session_users")
    assert _rows(counts.queries, "query", *in_sessions) == [
        ("red", 2, 2, 2, 2),
        ("red shoes", 4, 3, 3, 2),
    ]
    assert _rows(counts.words, "word", *in_sessions) == [("red", 6, 3, 5, 2), ("shoes", 4, 3, 3, 2)]
    assert _rows(counts.followers, "anchor", "next", *TYPED) == [("red shoes", "red", 2, 2)]


def test_word_pairs_are_all_there(counts: CountTables) -> None:
    assert _rows(counts.word_pairs, "first", "second", *TYPED) == [
        ("red", "shoes", 4, 3),
        ("secret", "plan", 1, 1),
    ]


def test_clicks_count_sessions_of_one_query_too(counts: CountTables) -> None:
    assert _rows(counts.clicks, "query", "url", *TYPED) == [
        ("red shoes", "a.example", 2, 2),
        ("red shoes", "b.example", 1, 1),
    ]


def test_words_are_split_with_the_word_after_each() -> None:
    batch = pl.DataFrame({"query_id": [1, 2], "query": ["a b a", "c"]})
    assert split_words(batch).rows() == [
        *((1, "a", "b"), (1, "b", "a"), (1, "a", None), (2, "c", None))
    ]
