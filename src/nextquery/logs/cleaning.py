"""Cleaning: rows become integer tables, texts are normalised, likely bots are dropped."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import narwhals as nw
import polars as pl

from nextquery.logs.counting import count_word_pairs, find_words
from nextquery.logs.engines import base
from nextquery.logs.engines.base import Engine, Frame, count_rows
from nextquery.logs.privacy import mark_personal, mark_personal_typed, pseudonym, pseudonyms
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.spelling import MIN_PAIR_USERS, Counted, Speller, WordCounts, learn_spelling
from nextquery.normalise import normalise_query


@dataclass(frozen=True)
class Texts:
    """The texts of ids: pseudonyms of users, normalised queries, clicked URLs."""

    users: Frame
    queries: Frame
    urls: Frame


@dataclass(frozen=True)
class Events:
    """The rows that are kept: user_id, held_out, time, row, query_id, url_id."""

    rows: Frame
    texts: Texts


@dataclass(frozen=True)
class RowCounts:
    """The users of the accepted rows, and the rows left out by reason."""

    users: int
    rows_dropped: Mapping[str, int]


EMPTY, PERSONAL, URL = "empty", "personal", "url"
DROP_REASONS = (EMPTY, PERSONAL, URL)

_URL_TYPED = r"https?:|www\.|[a-z0-9]\.(?:com|net|org|edu|gov|mil|info|biz|tv|us|co\.uk|ca|de|fr)\b"
_URL_NORMALISED = r"^(?:https? )?www\b| (?:com|net|org|edu|gov)$"


def clean_texts(batch: pl.DataFrame, settings: PrepareSettings) -> pl.DataFrame:
    """Normalise a batch of `query`; `drop` names why it is left out, and its text goes too."""
    raw, query = batch["query"], normalise_texts(batch["query"])
    reasons = {EMPTY: query == ""}
    if not settings.keep_personal_data:
        reasons[PERSONAL] = mark_personal_typed(raw, settings.recogniser) | mark_personal(query)
    if settings.drop_urls:
        typed = raw.str.to_lowercase().str.contains(_URL_TYPED)
        reasons[URL] = typed | query.str.contains(_URL_NORMALISED)
    drop = pl.coalesce(pl.when(holds).then(pl.lit(name)) for name, holds in reasons.items())
    texts = batch.select("raw_id", query, drop.alias("drop"))
    return texts.with_columns(query=pl.when(pl.col("drop").is_null()).then("query").otherwise(None))


def normalise_texts(texts: pl.Series) -> pl.Series:
    """`normalise_query` of every text, with vector operations where the text is plain ASCII."""
    plain = (
        texts.str.to_lowercase()
        .str.replace_all("['`]", "")
        .str.replace_all("[^a-z0-9]+", " ")
        .str.strip_chars(" ")
    )
    other = (texts.str.len_bytes() != texts.str.len_chars()) | texts.str.contains("[@$]")
    other = other.arg_true()
    if other.is_empty():
        return plain
    return plain.scatter(other, [normalise_query(text) for text in texts.gather(other).to_list()])


PSEUDONYM = "pseudonym:"
"""Before the pseudonym of a user, where users are otherwise named as in the log."""


@dataclass(frozen=True)
class ExcludedCounts:
    """How many users were left out, and how many rows with them."""

    users: int = 0
    rows: int = 0


def as_pseudonyms(users: Iterable[str]) -> list[str]:
    """The pseudonyms of users who are named as in the log or by pseudonym, in order.

    >>> as_pseudonyms(["pseudonym:7", "pseudonym:7"])
    ['7']
    """
    return sorted(
        {
            name.removeprefix(PSEUDONYM) if name.startswith(PSEUDONYM) else str(pseudonym(name))
            for name in users
        }
    )


def exclude_users(
    engine: Engine, events: Events, users: Sequence[str]
) -> tuple[Events, ExcludedCounts]:
    """The events without those of `users` (see `as_pseudonyms`)."""
    if not users:
        return events, ExcludedCounts()
    named = events.texts.users.filter(nw.col("user").is_in(as_pseudonyms(users)))
    ids = engine.materialise(named.select("user_id"), "excluded_users")
    excluded_rows = events.rows.join(ids, on="user_id", how="semi")
    left = engine.materialise(events.rows.join(ids, on="user_id", how="anti"), "included")
    users_excluded = count_rows(excluded_rows.select("user_id").unique())
    return replace(events, rows=left), ExcludedCounts(users_excluded, count_rows(excluded_rows))


@dataclass(frozen=True)
class RobotRule:
    """More different queries than this, and a visitor is likely a bot.

    The busiest hour of a person in our logs had 53 different queries; 5,000 in three months are 55
    every day.
    """

    queries_per_hour: int = 200
    """In one hour of the clock."""
    queries: int = 5_000
    """In the whole log."""

    def __str__(self) -> str:
        return (
            f"more than {self.queries_per_hour:,} different queries in one hour, or "
            f"{self.queries:,} in the whole log"
        )


ROBOTS = RobotRule()
"""The rule that `prepare` uses."""


def leave_out_robots(
    engine: Engine, events: Events, rule: RobotRule
) -> tuple[Events, ExcludedCounts]:
    """The events without those of likely bots."""
    rows = events.rows
    fewest = min(rule.queries_per_hour, rule.queries)
    sizes = rows.group_by("user_id").agg(rows=nw.len()).filter(nw.col("rows") > fewest)
    busy = engine.materialise(sizes, "busy_users")
    if not count_rows(busy):
        return events, ExcludedCounts()
    typed = rows.join(busy.select("user_id"), on="user_id", how="semi")
    typed = typed.select("user_id", "query_id", hour=nw.col("time").dt.truncate("1h")).unique()
    typed = engine.materialise(typed, "busy_hours")
    bots = _more_than(typed, ["user_id", "hour"], rule.queries_per_hour)
    bots = nw.concat([bots, _more_than(typed, ["user_id"], rule.queries)]).unique()
    bots = engine.materialise(bots.join(busy, on="user_id"), "robots")
    users = count_rows(bots)
    if not users:
        return events, ExcludedCounts()
    left = rows.join(bots.select("user_id"), on="user_id", how="anti")
    dropped = bots.select(nw.col("rows").sum()).collect("polars").item()
    people = replace(events, rows=engine.materialise(left, "people"))
    return people, ExcludedCounts(users, int(dropped))


def _more_than(typed: Frame, keys: list[str], most: int) -> Frame:
    """Users who have more than `most` different queries under one combination of keys."""
    different = typed.select(*keys, "query_id").unique()
    counts = different.group_by(*keys).agg(queries=nw.len())
    return counts.filter(nw.col("queries") > most).select("user_id").unique()


ROWS = "journal/rows.parquet"
REJECTED_OWNERS = "journal/rejected.parquet"


def write_journal(
    engine: Engine, rows: Frame, texts: Texts, file: Path, reasons: Frame | None = None
) -> None:
    """Write rows (user_id, time, row, place, query_id, url_id, drop), in the order of `row`.

    With `reasons` (raw_id, drop) rows have `raw_id` instead of `drop`.
    """
    # A query that was dropped has no id, and what was clicked for it is not kept either.
    kept = nw.when(~nw.col("query_id").is_null()).then(nw.col("url_id"))
    by_id = {"query_id": texts.queries, "user_id": texts.users, "url_id": texts.urls}
    if reasons is not None:
        by_id["raw_id"] = reasons
    engine.write(rows.with_columns(url_id=kept), file, base.JOURNAL, ["row"], by_id)
    file.chmod(0o600)


def read_journal(
    engine: Engine, folder: Path, held_out: nw.Expr, journal: Path
) -> tuple[Events, RowCounts]:
    """The rows of a folder of journal parts (with `row`), and the same written to `journal`."""
    ids = {"query": "query_id", "user": "user_id", "click": "url_id"}
    coded, (queries, users, urls) = engine.encode(engine.scan(folder), ids, ("user",))
    numbered = users.with_columns(user=nw.col("user").cast(nw.Int64)).with_columns(
        held_out=held_out
    )
    known = engine.materialise(numbered, "known_users")
    names = engine.materialise(users.select("user_id", "user"), "pseudonyms")
    texts = Texts(names, queries, urls)
    write_journal(engine, coded, texts, journal)
    counts = RowCounts(count_rows(users), _count_dropped(coded))
    return _events(engine, coded, known, texts), counts


def _events(engine: Engine, rows: Frame, users: Frame, texts: Texts) -> Events:
    """The rows whose query was not dropped, and whether their user is held out."""
    rows = rows.filter(~nw.col("query_id").is_null())
    rows = engine.lookup(rows, users.select("user_id", "held_out"), "user_id")
    rows = rows.select("user_id", "held_out", "time", "row", "query_id", "url_id")
    return Events(engine.materialise(rows, "events"), texts)


def _count_dropped(rows: Frame) -> dict[str, int]:
    """How many rows were dropped for each reason."""
    dropped = rows.filter(~nw.col("drop").is_null()).group_by("drop").agg(rows=nw.len())
    counts = dict(dropped.select("drop", "rows").collect("polars").rows())
    return {reason: int(counts.get(reason, 0)) for reason in DROP_REASONS}


@dataclass(frozen=True)
class Correction:
    """A changed word, what it became, and in how many rows."""

    word: str
    replacement: str
    rows: int


@dataclass(frozen=True)
class SpellingReport:
    """What the corrector changed; `corrections` only of words that enough users typed."""

    words_changed: int = 0
    corrections: tuple[Correction, ...] = ()


def read_events(
    engine: Engine, folder: Path, held_out: nw.Expr, settings: PrepareSettings, journal: Path | None
) -> tuple[Events, RowCounts]:
    """Put integers into the rows of a folder and clean the distinct queries.

    Where `journal` is given, the cleaned rows are written there.
    """
    ids = {"query": "raw_id", "user": "user_id", "click": "url_id"}
    scanned = engine.scan(folder)
    coded, (raw_queries, raw_users, urls) = engine.encode(scanned, ids, ("query", "user"))
    (texts, queries), users = engine.side_by_side(
        partial(_clean, engine, raw_queries, settings),
        partial(engine.apply, raw_users, pseudonyms, base.USERS, "users"),
    )
    users = engine.materialise(users.with_columns(held_out=held_out), "known_users")
    rows = engine.lookup(coded, texts.select("raw_id", "query_id"), "raw_id")
    # A dropped query has no id.
    without_id = rows.filter(nw.col("query_id").is_null()).select("raw_id")
    dropped = _count_dropped(engine.lookup(without_id, texts.select("raw_id", "drop"), "raw_id"))
    names = engine.materialise(
        users.select("user_id", nw.col("user").cast(nw.String)), "pseudonyms"
    )
    known = Texts(names, queries, urls)
    if journal:
        # The place of a row in the log is its number, unless a format has joined rows.
        joined = "place" in rows.collect_schema().names()
        placed = rows if joined else rows.with_columns(place=nw.col("row"))
        write_journal(engine, placed, known, journal, texts.select("raw_id", "drop"))
    return _events(engine, rows, users, known), RowCounts(count_rows(users), dropped)


def _clean(engine: Engine, raw_queries: Frame, settings: PrepareSettings) -> tuple[Frame, Frame]:
    """What raw queries become (raw_id, query_id, drop), and the texts of the query ids."""
    clean = partial(clean_texts, settings=settings)
    texts = engine.apply(raw_queries, clean, base.TEXTS, "texts")
    texts, (queries,) = engine.encode(texts, {"query": "query_id"})
    return texts, queries


def correct_spelling(
    engine: Engine, events: Events, background: nw.Expr, min_users: int
) -> tuple[Events, SpellingReport]:
    """Correct the distinct queries by the counts of the `background` rows."""
    words = find_words(engine, events.texts.queries, "spelling")
    seen = events.rows.filter(background).select("user_id", "query_id")
    typed = words.of(seen, "spelling_typed")
    by_word = words.spell(engine.count_with_users(typed, ["word_id"]), word_id="word")
    counts = {word: counted for (word,), counted in _counted(by_word, "word")}
    by_pair = _counted(count_word_pairs(words, typed, MIN_PAIR_USERS), "first", "second")
    pairs = {(first, second): counted for (first, second), counted in by_pair}
    typed_words = words.texts.select("word").collect("polars")["word"].to_list()
    speller = learn_spelling(sorted(typed_words), counts, pairs)
    correct = partial(correct_texts, speller=speller)
    corrected = engine.apply(events.texts.queries, correct, base.CORRECTED, "corrected")
    mapping, (queries,) = engine.encode(corrected, {"query": "corrected_id"})
    ids = mapping.select("query_id", "corrected_id")
    rows = engine.materialise(engine.lookup(events.rows, ids, "query_id"), "corrected_events")
    changed = mapping.filter(~nw.col("changes").is_null()).select("query_id", "changes")
    changed = rows.select("query_id").join(changed, on="query_id")
    coded = rows.drop("query_id").rename({"corrected_id": "query_id"})
    queries = queries.rename({"corrected_id": "query_id"})
    texts = replace(events.texts, queries=queries)
    return Events(coded, texts), _report(changed, counts, min_users)


def correct_texts(batch: pl.DataFrame, speller: Speller) -> pl.DataFrame:
    """Correct a batch of `query`; `changes` lists `old>new` of every word changed, by lines."""
    corrected, changes = [], []
    for query in batch["query"].to_list():
        words, changed = query.split(" "), []
        for position, replacement in speller.corrections(query):
            changed.append(f"{words[position]}>{replacement}")
            words[position] = replacement
        corrected.append(" ".join(words))
        changes.append("\n".join(changed) or None)
    return batch.select("query_id").with_columns(
        pl.Series("query", corrected, dtype=pl.String),
        pl.Series("changes", changes, dtype=pl.String),
    )


def _counted(table: Frame, *texts: str) -> list[tuple[tuple[str, ...], Counted]]:
    rows = table.select(*texts, "count", "users").collect("polars").rows()
    return [(tuple(texts), Counted(int(count), int(users))) for *texts, count, users in rows]


def _report(changed: Frame, counts: WordCounts, min_users: int) -> SpellingReport:
    """Names a correction only if enough users of the background typed its words."""
    changes = changed.group_by("changes").agg(rows=nw.len()).select("changes", "rows")
    tally: Counter[str] = Counter()
    for lines, count in changes.collect("polars").rows():
        tally.update(dict.fromkeys(lines.split("\n"), int(count)))
    common = {word for word, seen in counts.items() if seen.users >= min_users}
    public = []
    for change, count in tally.items():
        word, replacement = change.split(">")
        if common.issuperset((word, *replacement.split(" "))):
            public.append(Correction(word, replacement, count))
    public.sort(key=lambda item: (-item.rows, item.word, item.replacement))
    return SpellingReport(tally.total(), tuple(public[:10]))
