"""The log's rows with integers instead of texts: who (pseudonym), when, which query (id).

Texts are cleaned and corrected once for every distinct query and joined back. Knows nothing of
sessions.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import narwhals as nw

from nextquery.logs import tables
from nextquery.logs.cleaning import DROP_REASONS, CleaningRules, clean_texts
from nextquery.logs.counting import count_word_pairs, count_words, find_words
from nextquery.logs.engine import Engine, Frame
from nextquery.logs.privacy import pseudonyms
from nextquery.logs.spelling import (
    MIN_PAIR_USERS,
    Counted,
    Speller,
    WordCounts,
    correct_texts,
    learn_spelling,
)


@dataclass(frozen=True)
class Events:
    """The rows that are kept (user, time, row, query_id, url_id) and the texts of their ids."""

    rows: Frame
    queries: Frame
    urls: Frame


@dataclass(frozen=True)
class RowCounts:
    """The users of the accepted rows, and the rows left out by reason."""

    users: int
    rows_dropped: Mapping[str, int]


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


def read_events(engine: Engine, rows: Frame, rules: CleaningRules) -> tuple[Events, RowCounts]:
    """Put integers into the rows and clean the distinct queries."""
    ids = {"query": "raw_id", "user": "user_id", "click": "url_id"}
    coded, (raw_queries, raw_users, urls) = engine.encode(rows, ids, unordered=("query", "user"))
    clean = partial(clean_texts, rules=rules)
    texts = engine.apply(raw_queries, clean, tables.TEXTS, "texts")
    texts, (queries,) = engine.encode(texts, {"query": "query_id"})
    users = engine.apply(raw_users, pseudonyms, tables.USERS, "users")
    events = engine.lookup(engine.lookup(coded, texts, "raw_id"), users, "user_id")
    counts = RowCounts(_count_users(users), _count_dropped(events))
    kept = events.filter(nw.col("drop").is_null())
    kept = kept.select("user", "time", "row", "query_id", "url_id")
    return Events(engine.keep(kept, "events"), queries, urls), counts


def _count_users(users: Frame) -> int:
    return int(users.select(nw.len()).collect("pyarrow").item())


def _count_dropped(events: Frame) -> dict[str, int]:
    found = events.group_by("drop").agg(rows=nw.len()).select("drop", "rows").collect("pyarrow")
    rows = dict(found.rows())
    return {reason: int(rows.get(reason, 0)) for reason in DROP_REASONS}


def correct_spelling(
    engine: Engine, events: Events, background: nw.Expr, min_users: int
) -> tuple[Events, SpellingReport]:
    """Correct the distinct queries by the counts of the `background` rows."""
    speller, counts = _learn(engine, events, background)
    correct = partial(correct_texts, speller=speller)
    corrected = engine.apply(events.queries, correct, tables.CORRECTED, "corrected")
    mapping, (queries,) = engine.encode(corrected, {"query": "corrected_id"})
    rows = engine.keep(engine.lookup(events.rows, mapping, "query_id"), "corrected_events")
    coded = rows.drop("query_id", "changes").rename({"corrected_id": "query_id"})
    queries = queries.rename({"corrected_id": "query_id"})
    return Events(coded, queries, events.urls), _report(rows, counts, min_users)


def _learn(engine: Engine, events: Events, background: nw.Expr) -> tuple[Speller, WordCounts]:
    seen = events.rows.filter(background)
    by_user = engine.keep(seen.group_by("user", "query_id").agg(count=nw.len()), "spelling_queries")
    words = find_words(engine, events.queries, "spelling")
    counts = {
        word: counted for (word,), counted in _counted(count_words(by_user, words, 1), "word")
    }
    pairs = _counted(count_word_pairs(by_user, words, MIN_PAIR_USERS), "first", "second")
    by_pair = {(first, second): counted for (first, second), counted in pairs}
    every = words.texts.select("word").collect("pyarrow")["word"].to_list()
    return learn_spelling(sorted(every), counts, by_pair), counts


def _counted(table: Frame, *texts: str) -> list[tuple[tuple[str, ...], Counted]]:
    found = table.select(*texts, "count", "users").collect("pyarrow").rows()
    return [(tuple(texts), Counted(int(count), int(users))) for *texts, count, users in found]


def _report(rows: Frame, counts: WordCounts, min_users: int) -> SpellingReport:
    """Names a correction only if enough users of the background typed its words."""
    changed = rows.filter(~nw.col("changes").is_null()).group_by("changes").agg(rows=nw.len())
    tally: Counter[str] = Counter()
    for changes, count in changed.select("changes", "rows").collect("pyarrow").rows():
        tally.update(dict.fromkeys(changes.split("\n"), int(count)))
    common = {word for word, seen in counts.items() if seen.users >= min_users}
    public = []
    for change, count in tally.items():
        word, replacement = change.split(">")
        if common.issuperset((word, *replacement.split(" "))):
            public.append(Correction(word, replacement, count))
    public.sort(key=lambda item: (-item.rows, item.word, item.replacement))
    return SpellingReport(tally.total(), tuple(public[:10]))
