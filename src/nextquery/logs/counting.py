"""The count tables of the background: queries, words, word pairs, followers, clicks.

`users` counts distinct users, so a user who repeats a text ten thousand times counts once; what
fewer than `min_users` users typed enters no table. Knows nothing of where tables are written.
"""

from dataclasses import dataclass

import narwhals as nw
import polars as pl
import pyarrow as pa

from nextquery.logs.engine import Engine, Frame
from nextquery.logs.prepared import SPLITS
from nextquery.logs.sessions import SessionRows

POSITIONS = pa.schema({"query_id": pa.int64(), "word": pa.string(), "next_word": pa.string()})
"""The words of a query, each with the word after it."""


@dataclass(frozen=True)
class CountTables:
    """The tables, with texts, not yet sorted."""

    queries: Frame
    words: Frame
    word_pairs: Frame
    followers: Frame
    clicks: Frame


def count_background(
    engine: Engine, sessions: SessionRows, queries: Frame, min_users: int
) -> CountTables:
    """Count the background's queries, words and clicks; `queries` gives the text of an id."""
    background = nw.col("split") == SPLITS[0]
    rows = sessions.queries.filter(background & ~nw.col("single"))
    clicked = sessions.clicks.filter(background)
    by_user = engine.keep(rows.group_by("user", "query_id").agg(count=nw.len()), "user_queries")
    counts = _over_users(by_user, ["query_id"])
    known = engine.keep(counts.filter(nw.col("users") >= min_users), "known_queries")
    ids = known.select("query_id")
    asked = queries.join(by_user.select("query_id").unique(), on="query_id", how="semi")
    positions = engine.apply(asked, word_positions, POSITIONS, "word_positions")
    return CountTables(
        queries=_with_text(known, queries, query_id="query"),
        words=count_words(by_user, positions, min_users),
        word_pairs=count_word_pairs(by_user, positions, min_users),
        followers=_followers(rows, ids, queries),
        clicks=_clicks(clicked, ids, queries),
    )


def _over_users(rows: Frame, keys: list[str]) -> Frame:
    """Sum `count` over the users and count the users; a user has one row a key at most."""
    return rows.group_by(*keys).agg(count=nw.col("count").sum(), users=nw.len())


def count_words(by_user: Frame, positions: Frame, min_users: int) -> Frame:
    """The words of the queries of `by_user` (user, query_id, count) that enough users typed."""
    return _count_texts(by_user, positions, ["word"], min_users)


def count_word_pairs(by_user: Frame, positions: Frame, min_users: int) -> Frame:
    """The same for adjacent words: first, second."""
    pairs = positions.filter(~nw.col("next_word").is_null())
    named = pairs.rename({"word": "first", "next_word": "second"})
    return _count_texts(by_user, named, ["first", "second"], min_users)


def _count_texts(by_user: Frame, positions: Frame, keys: list[str], min_users: int) -> Frame:
    joined = by_user.join(positions, on="query_id")
    each = joined.group_by("user", *keys).agg(count=nw.col("count").sum())
    return _over_users(each, keys).filter(nw.col("users") >= min_users)


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
