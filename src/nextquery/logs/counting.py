"""The count tables of the background: queries, words, word pairs, followers, clicks.

`users` counts distinct users, so a user who repeats a text ten thousand times counts once; what
fewer than `min_users` users typed enters no table. Knows nothing of where tables are written.
"""

from dataclasses import dataclass

import narwhals as nw
import polars as pl
import pyarrow as pa

from nextquery.logs.engine import Engine, Frame

_POSITIONS = pa.schema({"query_id": pa.int64(), "word": pa.string(), "next_word": pa.string()})


@dataclass(frozen=True)
class CountTables:
    """The tables, with texts, not yet sorted."""

    queries: Frame
    words: Frame
    word_pairs: Frame
    followers: Frame
    clicks: Frame


def count_background(
    engine: Engine, rows: Frame, clicked: Frame, queries: Frame, min_users: int
) -> CountTables:
    """Count the background's queries (`rows`) and its clicks (`clicked`).

    `rows` has user, query_id, next_id; `clicked` has user, query_id, click; `queries` gives the
    text of a query_id.
    """
    by_user = engine.keep(rows.group_by("user", "query_id").agg(count=nw.len()), "user_queries")
    counts = _over_users(by_user, ["query_id"])
    known = engine.keep(counts.filter(nw.col("users") >= min_users), "known_queries")
    ids = known.select("query_id")
    words = _words_by_user(engine, by_user, queries)
    pairs = words.filter(~nw.col("next_word").is_null())
    return CountTables(
        queries=_with_text(known, queries, query_id="query"),
        words=_at_least(min_users, words, ["word"]),
        word_pairs=_at_least(min_users, pairs, ["word", "next_word"]).rename(
            {"word": "first", "next_word": "second"}
        ),
        followers=_followers(rows, ids, queries),
        clicks=_clicks(clicked, ids, queries),
    )


def _over_users(rows: Frame, keys: list[str]) -> Frame:
    """Sum `count` over the users and count the users; a user has one row a key at most."""
    return rows.group_by(*keys).agg(count=nw.col("count").sum(), users=nw.len())


def _at_least(min_users: int, rows: Frame, keys: list[str]) -> Frame:
    by_user = rows.group_by("user", *keys).agg(count=nw.col("count").sum())
    return _over_users(by_user, keys).filter(nw.col("users") >= min_users)


def _words_by_user(engine: Engine, by_user: Frame, queries: Frame) -> Frame:
    asked = queries.join(by_user.select("query_id").unique(), on="query_id", how="semi")
    positions = engine.apply(asked, word_positions, _POSITIONS, "word_positions")
    joined = by_user.join(positions, on="query_id")
    return joined.select("user", "word", "next_word", "count")


def word_positions(batch: pl.DataFrame) -> pl.DataFrame:
    """A row for every word of every query, with the word after it (null for the last)."""
    words = batch.select("query_id", word=pl.col("query").str.split(" "))
    return words.with_columns(next_word=pl.col("word").list.shift(-1)).explode("word", "next_word")


def _followers(rows: Frame, ids: Frame, queries: Frame) -> Frame:
    pairs = rows.filter(~nw.col("next_id").is_null()).select("user", "query_id", "next_id")
    known = pairs.join(ids, on="query_id", how="semi").join(
        ids.rename({"query_id": "next_id"}), on="next_id", how="semi"
    )
    by_user = known.group_by("user", "query_id", "next_id").agg(count=nw.len())
    counts = _over_users(by_user, ["query_id", "next_id"])
    return _with_text(counts, queries, query_id="anchor", next_id="next")


def _clicks(clicked: Frame, ids: Frame, queries: Frame) -> Frame:
    known = clicked.join(ids, on="query_id", how="semi").rename({"click": "url"})
    by_user = known.group_by("user", "query_id", "url").agg(count=nw.len())
    return _with_text(_over_users(by_user, ["query_id", "url"]), queries, query_id="query")


def _with_text(rows: Frame, queries: Frame, **names: str) -> Frame:
    for key, name in names.items():
        texts = queries.rename({"query_id": key, "query": name})
        rows = rows.join(texts, on=key)
    return rows
