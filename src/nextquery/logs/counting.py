"""Count tables of the background, and which queries were useful by their clicks.

Every search counts: a session of one query adds to queries, words, pairs of words and clicks. Only
followers need a session of two or more queries.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import narwhals as nw
import polars as pl

from nextquery.errors import InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.engines import base
from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.sessions import SPLIT_CODES, SessionRows


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
"""The columns that identify a row of a count table."""


@dataclass(frozen=True)
class Words:
    """The positions of words in queries (query_id, word_id, next_id), and their texts."""

    engine: Engine
    positions: Frame
    texts: Frame

    def of(self, rows: Frame, name: str) -> Frame:
        """The words of the queries of `rows` (query_id, ...): word_id, next_id, ..."""
        joined = rows.join(self.positions, on="query_id").drop("query_id")
        return self.engine.materialise(joined, name)

    def spell(self, rows: Frame, **names: str) -> Frame:
        """Add the text of each word id, under a new name."""
        return _with_text(self.engine, rows, self.texts, "word", **names)


def count_background(
    engine: Engine, sessions: SessionRows, queries: Frame, urls: Frame, min_users: int
) -> CountTables:
    """Count the background; `queries` and `urls` give the texts of ids."""
    background = nw.col("split") == SPLIT_CODES["background"]
    rows = sessions.queries.filter(background)
    rows = engine.materialise(rows.select("user_id", "query_id", "next_id", "single"), "background")
    counts = engine.materialise(engine.count_with_users(rows, ["query_id"]), "query_counts")
    known = counts.filter(nw.col("users") >= min_users)
    known = engine.materialise(_with_sessions(engine, known, rows, "query_id"), "known_queries")
    counted = queries.join(counts.select("query_id"), on="query_id", how="semi")
    words = find_words(engine, counted, "background")
    typed = words.of(rows.select("user_id", "query_id", "single"), "typed_words")
    word_counts = engine.count_with_users(typed, ["word_id"]).filter(nw.col("users") >= min_users)
    word_counts = _with_sessions(engine, word_counts, typed, "word_id")
    ids = known.select("query_id")
    clicked = sessions.clicks.filter(background).join(ids, on="query_id", how="semi")
    clicks = engine.count_with_users(clicked, ["query_id", "url_id"])
    clicks = _with_text(engine, clicks, queries, "query", query_id="query")
    pairs = rows.filter(~nw.col("next_id").is_null()).join(ids, on="query_id", how="semi")
    pairs = pairs.join(ids.rename({"query_id": "next_id"}), on="next_id", how="semi")
    followers = engine.count_with_users(pairs, ["query_id", "next_id"])
    return CountTables(
        queries=_with_text(engine, known, queries, "query", query_id="query"),
        words=words.spell(word_counts, word_id="word"),
        # All pairs: the guard tells a pair that few users typed from one that nobody typed.
        word_pairs=count_word_pairs(words, typed, 1),
        followers=_with_text(
            engine, followers, queries, "query", query_id="anchor", next_id="next"
        ),
        clicks=_with_text(engine, clicks, urls, "click", url_id="url"),
    )


def _with_sessions(engine: Engine, counts: Frame, rows: Frame, key: str) -> Frame:
    """Counts with `session_count` and `session_users`: those of rows that are not `single`."""
    inside = engine.count_with_users(rows.filter(~nw.col("single")), [key])
    inside = inside.rename({"count": "session_count", "users": "session_users"})
    zeros = [nw.col(name).fill_null(0) for name in ("session_count", "session_users")]
    return counts.join(inside, on=key, how="left").with_columns(*zeros)


def find_words(engine: Engine, queries: Frame, name: str) -> Words:
    """The words of `queries` (query_id, query), as ids."""
    split = engine.apply(queries, split_words, base.WORDS, f"{name}-words")
    coded, (texts,) = engine.encode(split, {"word": f"{name}_word_id"})
    texts = texts.rename({f"{name}_word_id": "word_id"})
    coded = coded.rename({f"{name}_word_id": "word_id"})
    after = texts.rename({"word_id": "next_id", "word": "next_word"})
    positions = coded.join(after, on="next_word", how="left").drop("next_word")
    return Words(engine, engine.materialise(positions, f"{name}-positions"), texts)


def split_words(batch: pl.DataFrame) -> pl.DataFrame:
    """A row for every word of every query, with the word after it (null for the last)."""
    words = batch.select("query_id", word=pl.col("query").str.split(" ")).explode("word")
    follows = pl.col("query_id") == pl.col("query_id").shift(-1)
    return words.with_columns(next_word=pl.when(follows).then(pl.col("word").shift(-1)))


def count_word_pairs(words: Words, typed: Frame, min_users: int) -> Frame:
    """The pairs of adjacent words of `typed` (see `Words.of`) that enough users typed."""
    pairs = typed.filter(~nw.col("next_id").is_null())
    counts = words.engine.count_with_users(pairs, ["word_id", "next_id"])
    counts = counts.filter(nw.col("users") >= min_users)
    return words.spell(counts, word_id="first", next_id="second")


def _with_text(engine: Engine, rows: Frame, texts: Frame, text: str, **names: str) -> Frame:
    """Add the text of each id of `rows`; `names` says under which name."""
    (key,) = (column for column in texts.collect_schema().names() if column != text)
    for column, name in names.items():
        rows = engine.lookup(rows, texts.rename({key: column, text: name}), column)
    return rows


AT_ONCE = 60
"""Seconds: a next query within them means that this one was of no use."""
USEFUL, UNDECIDED = "useful", "undecided"


def with_usefulness(rows: Frame) -> Frame:
    """Session rows (session, position, time, clicks, ...) with two marks: useful and undecided."""
    following = nw.col("time").shift(-1).over("session", order_by="position")
    timed = rows.with_columns(next_time=following)
    pause = (nw.col("next_time") - nw.col("time")).dt.total_seconds()
    clicked, last = nw.col("clicks") > 0, nw.col("next_time").is_null()
    stayed = ~last & (pause > AT_ONCE)
    marks = ((clicked & stayed).alias(USEFUL), (clicked & last).alias(UNDECIDED))
    return timed.with_columns(*marks).drop("next_time")


def undecided_share(useful: int, clicked_and_followed: int) -> float:
    """How useful an undecided query is: the share of useful ones among those like it.

    Two imaginary ones, one of them useful, keep it off the ends where there are few.

    >>> undecided_share(useful=5, clicked_and_followed=8)
    0.6
    """
    return (useful + 1) / (clicked_and_followed + 2)


def usefulness(data: PreparedData, split: str) -> Iterator[float]:
    """How useful each query of a split was, from 0 to 1, in the order of `data.sessions`."""
    background = with_usefulness(nw.from_native(data.session_rows("background")))
    rows: pl.LazyFrame = background.to_native()
    clicked = (pl.col("clicks") > 0).sum()
    sums = rows.select(pl.col(USEFUL).sum(), pl.col(UNDECIDED).sum(), clicked).collect()
    useful, undecided, clicks = sums.row(0)
    if not clicks:
        raise InputError(f"{data.path}: {NO_CLICKS}; leave out what learns from clicks")
    share = undecided_share(useful, clicks - undecided)
    marked = with_usefulness(nw.from_native(data.session_rows(split)))
    rows = marked.to_native()
    value = pl.col(USEFUL).cast(pl.Float64) + pl.col(UNDECIDED).cast(pl.Float64) * share
    yield from rows.sort("session", "position").select(value).collect().to_series()


NO_CLICKS = "no query was clicked, so that none can be said to have been useful"
