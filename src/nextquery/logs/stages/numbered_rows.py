"""The log's rows with integers instead of texts: who (pseudonym), when, which query (id).

Texts are cleaned and corrected once for every distinct query and joined back. Knows nothing of
sessions.
"""

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import narwhals as nw

from nextquery.logs.engines import table_schemas
from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.stages.cleaning import DROP_REASONS, CleaningRules, clean_texts
from nextquery.logs.stages.counting import count_word_pairs, count_words, find_words
from nextquery.logs.stages.event_rows import Events, RowCounts, Texts
from nextquery.logs.stages.journal import write_journal
from nextquery.logs.stages.privacy import pseudonyms
from nextquery.logs.stages.spelling import (
    MIN_PAIR_USERS,
    Counted,
    Speller,
    WordCounts,
    correct_texts,
    learn_spelling,
)


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
    engine: Engine, folder: Path, held_out: nw.Expr, rules: CleaningRules, journal: Path | None
) -> tuple[Events, RowCounts]:
    """Put integers into the rows of a folder and clean the distinct queries.

    Where `journal` is given, the cleaned rows are written there.
    """
    ids = {"query": "raw_id", "user": "user_id", "click": "url_id"}
    coded, (raw_queries, raw_users, urls) = engine.scan_encoded(folder, ids, ("query", "user"))
    (texts, queries), users = engine.side_by_side(
        partial(_clean, engine, raw_queries, rules),
        partial(engine.apply, raw_users, pseudonyms, table_schemas.USERS, "users"),
    )
    users = engine.materialise(users.with_columns(held_out=held_out), "known_users")
    rows = engine.lookup(coded, texts.select("raw_id", "query_id"), "raw_id")
    dropped = _count_dropped(engine, rows, texts)
    names = engine.materialise(
        users.select("user_id", nw.col("user").cast(nw.String)), "pseudonyms"
    )
    known = Texts(names, queries, urls)
    if journal:
        write_journal(engine, _placed(rows), known, journal, texts.select("raw_id", "drop"))
    kept = rows.filter(~nw.col("query_id").is_null())
    kept = engine.lookup(kept, users.select("user_id", "held_out"), "user_id")
    kept = kept.select("user_id", "held_out", "time", "row", "query_id", "url_id")
    events = Events(engine.materialise(kept, "events"), known)
    return events, RowCounts(_count_users(users), dropped)


def _placed(rows: Frame) -> Frame:
    """Rows with their place in the log: it is their number, unless a format has joined rows."""
    joined = "place" in rows.collect_schema().names()
    return rows if joined else rows.with_columns(place=nw.col("row"))


def _clean(engine: Engine, raw_queries: Frame, rules: CleaningRules) -> tuple[Frame, Frame]:
    """What raw queries become (raw_id, query_id, drop), and the texts of the query ids."""
    clean = partial(clean_texts, rules=rules)
    texts = engine.apply(raw_queries, clean, table_schemas.TEXTS, "texts")
    texts, (queries,) = engine.encode(texts, {"query": "query_id"})
    return texts, queries


def _count_users(users: Frame) -> int:
    return int(users.select(nw.len()).collect("pyarrow").item())


def _count_dropped(engine: Engine, rows: Frame, texts: Frame) -> dict[str, int]:
    """How many rows were dropped for each reason: a dropped query has no id."""
    dropped = rows.filter(nw.col("query_id").is_null()).select("raw_id")
    reasons = engine.lookup(dropped, texts.select("raw_id", "drop"), "raw_id")
    found = reasons.group_by("drop").agg(rows=nw.len()).select("drop", "rows").collect("pyarrow")
    counts = dict(found.rows())
    return {reason: int(counts.get(reason, 0)) for reason in DROP_REASONS}


def correct_spelling(
    engine: Engine, events: Events, background: nw.Expr, min_users: int
) -> tuple[Events, SpellingReport]:
    """Correct the distinct queries by the counts of the `background` rows."""
    speller, counts = _learn(engine, events, background)
    correct = partial(correct_texts, speller=speller)
    corrected = engine.apply(events.texts.queries, correct, table_schemas.CORRECTED, "corrected")
    mapping, (queries,) = engine.encode(corrected, {"query": "corrected_id"})
    ids = mapping.select("query_id", "corrected_id")
    rows = engine.materialise(engine.lookup(events.rows, ids, "query_id"), "corrected_events")
    changed = mapping.filter(~nw.col("changes").is_null()).select("query_id", "changes")
    changed = rows.select("query_id").join(changed, on="query_id")
    coded = rows.drop("query_id").rename({"corrected_id": "query_id"})
    queries = queries.rename({"corrected_id": "query_id"})
    texts = replace(events.texts, queries=queries)
    return Events(coded, texts), _report(changed, counts, min_users)


def _learn(engine: Engine, events: Events, background: nw.Expr) -> tuple[Speller, WordCounts]:
    seen = events.rows.filter(background)
    words = find_words(engine, events.texts.queries, "spelling")
    typed = words.of(seen, "spelling_typed")
    counts = {word: counted for (word,), counted in _counted(count_words(words, typed, 1), "word")}
    pairs = _counted(count_word_pairs(words, typed, MIN_PAIR_USERS), "first", "second")
    by_pair = {(first, second): counted for (first, second), counted in pairs}
    every = words.texts.select("word").collect("pyarrow")["word"].to_list()
    return learn_spelling(sorted(every), counts, by_pair), counts


def _counted(table: Frame, *texts: str) -> list[tuple[tuple[str, ...], Counted]]:
    found = table.select(*texts, "count", "users").collect("pyarrow").rows()
    return [(tuple(texts), Counted(int(count), int(users))) for *texts, count, users in found]


def _report(changed: Frame, counts: WordCounts, min_users: int) -> SpellingReport:
    """Names a correction only if enough users of the background typed its words."""
    found = changed.group_by("changes").agg(rows=nw.len()).select("changes", "rows")
    tally: Counter[str] = Counter()
    for changes, count in found.collect("pyarrow").rows():
        tally.update(dict.fromkeys(changes.split("\n"), int(count)))
    common = {word for word, seen in counts.items() if seen.users >= min_users}
    public = []
    for change, count in tally.items():
        word, replacement = change.split(">")
        if common.issuperset((word, *replacement.split(" "))):
            public.append(Correction(word, replacement, count))
    public.sort(key=lambda item: (-item.rows, item.word, item.replacement))
    return SpellingReport(tally.total(), tuple(public[:10]))
