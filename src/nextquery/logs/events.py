"""The log's rows with integers instead of texts: who (pseudonym), when, which query (id).

Texts are cleaned and corrected once for every distinct query and joined back. Knows nothing of
sessions.
"""

from collections import Counter
from dataclasses import dataclass
from functools import partial

import narwhals as nw
import pyarrow as pa

from nextquery.logs import tables
from nextquery.logs.cleaning import CleaningRules, clean_texts
from nextquery.logs.counting import POSITIONS, count_word_pairs, count_words, word_positions
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

_CORRECTED = pa.schema({"query_id": pa.int64(), "corrected": pa.string(), "changes": pa.string()})


@dataclass(frozen=True)
class Events:
    """`rows`: user, time, row, query_id, drop, click. `queries`: query_id, query."""

    rows: Frame
    queries: Frame

    @property
    def kept(self) -> Frame:
        """The rows whose query is not dropped."""
        return self.rows.filter(nw.col("drop").is_null()).drop("drop")


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


def read_events(engine: Engine, rows: Frame, rules: CleaningRules) -> Events:
    """Clean the distinct queries, number them, and put ids into the rows."""
    raw = rows.select(raw=nw.col("query")).unique()
    texts = engine.apply(raw, partial(clean_texts, rules=rules), tables.TEXTS, "texts")
    raw_users = rows.select(raw_user=nw.col("user")).unique()
    users = engine.apply(raw_users, pseudonyms, tables.USERS, "users")
    kept = texts.filter(nw.col("drop").is_null()).select("query").unique()
    queries = engine.number(kept, "query_id", "queries")
    coded = texts.join(queries, on="query", how="left").select("raw", "query_id", "drop")
    named = rows.rename({"user": "raw_user", "query": "raw"})
    events = named.join(coded, on="raw").join(users, on="raw_user")
    columns = ("user", "time", "row", "query_id", "drop", "click")
    return Events(engine.keep(events.select(*columns), "events"), queries)


def correct_spelling(
    engine: Engine, events: Events, background: nw.Expr, min_users: int
) -> tuple[Events, SpellingReport]:
    """Correct the distinct queries by the counts of the `background` rows."""
    speller, counts = _learn(engine, events, background)
    correct = partial(correct_texts, speller=speller)
    corrected = engine.apply(events.queries, correct, _CORRECTED, "corrected")
    distinct = corrected.select(query=nw.col("corrected")).unique()
    queries = engine.number(distinct, "query_id", "corrected_queries")
    new_ids = queries.rename({"query_id": "new_id", "query": "corrected"})
    mapping = corrected.join(new_ids, on="corrected").select("query_id", "new_id", "changes")
    rows = engine.keep(events.rows.join(mapping, on="query_id", how="left"), "corrected_events")
    coded = rows.drop("query_id", "changes").rename({"new_id": "query_id"})
    return Events(coded, queries), _report(rows, counts, min_users)


def _learn(engine: Engine, events: Events, background: nw.Expr) -> tuple[Speller, WordCounts]:
    positions = engine.apply(events.queries, word_positions, POSITIONS, "spelling_positions")
    seen = events.kept.filter(background)
    by_user = engine.keep(seen.group_by("user", "query_id").agg(count=nw.len()), "spelling_queries")
    words = positions.select("word").unique().collect("pyarrow")
    counts = {word: counted for (word,), counted in _counted(count_words(by_user, positions, 1))}
    pairs = _counted(count_word_pairs(by_user, positions, MIN_PAIR_USERS))
    by_pair = {(first, second): counted for (first, second), counted in pairs}
    return learn_spelling(sorted(words["word"].to_list()), counts, by_pair), counts


def _counted(table: Frame) -> list[tuple[tuple[str, ...], Counted]]:
    found = table.collect("pyarrow").rows()
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
