"""The count tables of the background: queries, words, word pairs, followers, clicks.

`users` counts distinct users, so a user who repeats a text ten thousand times counts once; what
fewer than `min_users` users typed enters no table but that of word pairs. Knows nothing of where
tables are written.
"""

from dataclasses import dataclass

import narwhals as nw
import polars as pl

from nextquery.logs import tables
from nextquery.logs.engine import Engine, Frame
from nextquery.logs.sessions import SessionRows
from nextquery.logs.splits import SPLIT_CODES


@dataclass(frozen=True)
class CountTables:
    """The tables with ids and texts, not yet sorted; ids sort as their texts do."""

    queries: Frame
    words: Frame
    word_pairs: Frame
    followers: Frame
    clicks: Frame


COUNT_KEYS = {
    "queries": ["query_id"],
    "words": ["word_id"],
    "word_pairs": ["word_id", "next_id"],
    "followers": ["query_id", "next_id"],
    "clicks": ["query_id", "url_id"],
}
"""What tells the rows of a count table apart."""


@dataclass(frozen=True)
class Words:
    """Where words stand in queries (query_id, word_id, next_id), and their texts."""

    engine: Engine
    positions: Frame
    texts: Frame

    def spell(self, rows: Frame, **names: str) -> Frame:
        """Add the text of each word id, under a new name."""
        return _with_text(self.engine, rows, self.texts, "word", **names)


def count_background(
    engine: Engine, sessions: SessionRows, queries: Frame, urls: Frame, min_users: int
) -> CountTables:
    """Count the background; `queries` and `urls` give the texts of ids."""
    background = nw.col("split") == SPLIT_CODES["background"]
    rows = sessions.queries.filter(background & ~nw.col("single"))
    by_user = engine.keep(rows.group_by("user", "query_id").agg(count=nw.len()), "user_queries")
    counts = _over_users(by_user, ["query_id"])
    known = engine.keep(counts.filter(nw.col("users") >= min_users), "known_queries")
    asked = queries.join(counts.select("query_id"), on="query_id", how="semi")
    words = find_words(engine, asked, "background")
    ids = known.select("query_id")
    clicks = _count_clicks(sessions.clicks.filter(background), ids)
    return CountTables(
        queries=_with_text(engine, known, queries, "query", query_id="query"),
        words=count_words(by_user, words, min_users),
        # All pairs: the guard tells a pair that few users typed from one that nobody typed.
        word_pairs=count_word_pairs(by_user, words, 1),
        followers=_with_text(
            engine, _count_followers(rows, ids), queries, "query", query_id="anchor", next_id="next"
        ),
        clicks=_with_text(
            engine,
            _with_text(engine, clicks, queries, "query", query_id="query"),
            *(urls, "click"),
            url_id="url",
        ),
    )


def find_words(engine: Engine, queries: Frame, name: str) -> Words:
    """The words of `queries` (query_id, query), as ids."""
    split = engine.apply(queries, split_words, tables.WORDS, f"{name}-words")
    coded, (texts,) = engine.encode(split, {"word": f"{name}_word_id"})
    texts = texts.rename({f"{name}_word_id": "word_id"})
    coded = coded.rename({f"{name}_word_id": "word_id"})
    after = texts.rename({"word_id": "next_id", "word": "next_word"})
    positions = coded.join(after, on="next_word", how="left").drop("next_word")
    return Words(engine, engine.keep(positions, f"{name}-positions"), texts)


def split_words(batch: pl.DataFrame) -> pl.DataFrame:
    """A row for every word of every query, with the word after it (null for the last)."""
    words = batch.select("query_id", word=pl.col("query").str.split(" "))
    return words.with_columns(next_word=pl.col("word").list.shift(-1)).explode("word", "next_word")


def count_words(by_user: Frame, words: Words, min_users: int) -> Frame:
    """The words of the queries of `by_user` (user, query_id, count) that enough users typed."""
    counts = _count_parts(by_user, words.positions, ["word_id"], min_users)
    return words.spell(counts, word_id="word")


def count_word_pairs(by_user: Frame, words: Words, min_users: int) -> Frame:
    """The same for adjacent words: first, second."""
    pairs = words.positions.filter(~nw.col("next_id").is_null())
    counts = _count_parts(by_user, pairs, ["word_id", "next_id"], min_users)
    return words.spell(counts, word_id="first", next_id="second")


def _count_parts(by_user: Frame, parts: Frame, keys: list[str], min_users: int) -> Frame:
    joined = by_user.join(parts, on="query_id")
    each = joined.group_by("user", *keys).agg(count=nw.col("count").sum())
    return _over_users(each, keys).filter(nw.col("users") >= min_users)


def _over_users(rows: Frame, keys: list[str]) -> Frame:
    """Sum `count` over the users and count the users; a user has one row a key at most."""
    return rows.group_by(*keys).agg(count=nw.col("count").sum(), users=nw.len())


def _count_followers(rows: Frame, ids: Frame) -> Frame:
    pairs = rows.filter(~nw.col("next_id").is_null()).select("user", "query_id", "next_id")
    known = pairs.join(ids, on="query_id", how="semi").join(
        ids.rename({"query_id": "next_id"}), on="next_id", how="semi"
    )
    by_user = known.group_by("user", "query_id", "next_id").agg(count=nw.len())
    return _over_users(by_user, ["query_id", "next_id"])


def _count_clicks(clicked: Frame, ids: Frame) -> Frame:
    known = clicked.join(ids, on="query_id", how="semi")
    by_user = known.group_by("user", "query_id", "url_id").agg(count=nw.len())
    return _over_users(by_user, ["query_id", "url_id"])


def _with_text(engine: Engine, rows: Frame, texts: Frame, text: str, **names: str) -> Frame:
    """Add the text of each id of `rows`; `names` says under which name."""
    (key,) = (column for column in texts.collect_schema().names() if column != text)
    for column, name in names.items():
        rows = engine.lookup(rows, texts.rename({key: column, text: name}), column)
    return rows
