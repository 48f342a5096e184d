"""The count tables of the background: queries, words, word pairs, followers, clicks.

`users` counts distinct users, so a user who repeats a text ten thousand times counts once; what
fewer than `min_users` users typed enters no table but that of word pairs. Knows nothing of where
tables are written.
"""

from dataclasses import dataclass

import narwhals as nw
import polars as pl

from nextquery.logs.engines import table_schemas
from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.stages.sessions import SessionRows
from nextquery.logs.stages.splits import SPLIT_CODES


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

    def of(self, rows: Frame, name: str) -> Frame:
        """The words of the queries of `rows` (user_id, query_id): user_id, word_id, next_id."""
        joined = rows.select("user_id", "query_id").join(self.positions, on="query_id")
        return self.engine.materialise(joined.drop("query_id"), name)

    def spell(self, rows: Frame, **names: str) -> Frame:
        """Add the text of each word id, under a new name."""
        return _with_text(self.engine, rows, self.texts, "word", **names)


def count_background(
    engine: Engine, sessions: SessionRows, queries: Frame, urls: Frame, min_users: int
) -> CountTables:
    """Count the background; `queries` and `urls` give the texts of ids."""
    background = nw.col("split") == SPLIT_CODES["background"]
    rows = sessions.queries.filter(background & ~nw.col("single"))
    rows = engine.materialise(rows.select("user_id", "query_id", "next_id"), "background")
    counts = engine.materialise(engine.count_with_users(rows, ["query_id"]), "query_counts")
    known = engine.materialise(counts.filter(nw.col("users") >= min_users), "known_queries")
    asked = queries.join(counts.select("query_id"), on="query_id", how="semi")
    words = find_words(engine, asked, "background")
    typed = words.of(rows, "typed_words")
    ids = known.select("query_id")
    clicks = _count_clicks(engine, sessions.clicks.filter(background), ids)
    return CountTables(
        queries=_with_text(engine, known, queries, "query", query_id="query"),
        words=count_words(words, typed, min_users),
        # All pairs: the guard tells a pair that few users typed from one that nobody typed.
        word_pairs=count_word_pairs(words, typed, 1),
        followers=_with_text(
            engine,
            _count_followers(engine, rows, ids),
            *(queries, "query"),
            query_id="anchor",
            next_id="next",
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
    split = engine.apply(queries, split_words, table_schemas.WORDS, f"{name}-words")
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


def count_words(words: Words, typed: Frame, min_users: int) -> Frame:
    """The words of `typed` (see `Words.of`) that enough users typed."""
    counts = words.engine.count_with_users(typed, ["word_id"]).filter(nw.col("users") >= min_users)
    return words.spell(counts, word_id="word")


def count_word_pairs(words: Words, typed: Frame, min_users: int) -> Frame:
    """The same for adjacent words: first, second."""
    pairs = typed.filter(~nw.col("next_id").is_null())
    counts = words.engine.count_with_users(pairs, ["word_id", "next_id"])
    counts = counts.filter(nw.col("users") >= min_users)
    return words.spell(counts, word_id="first", next_id="second")


def _count_followers(engine: Engine, rows: Frame, ids: Frame) -> Frame:
    pairs = rows.filter(~nw.col("next_id").is_null())
    known = pairs.join(ids, on="query_id", how="semi").join(
        ids.rename({"query_id": "next_id"}), on="next_id", how="semi"
    )
    return engine.count_with_users(known, ["query_id", "next_id"])


def _count_clicks(engine: Engine, clicked: Frame, ids: Frame) -> Frame:
    known = clicked.join(ids, on="query_id", how="semi")
    return engine.count_with_users(known, ["query_id", "url_id"])


def _with_text(engine: Engine, rows: Frame, texts: Frame, text: str, **names: str) -> Frame:
    """Add the text of each id of `rows`; `names` says under which name."""
    (key,) = (column for column in texts.collect_schema().names() if column != text)
    for column, name in names.items():
        rows = engine.lookup(rows, texts.rename({key: column, text: name}), column)
    return rows
