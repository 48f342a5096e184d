"""The whole job: raw logs in, a data folder out, complete or not at all.

Knows the order of the stages and what the manifest says; each stage is a module of its own.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl

from nextquery.artifacts import publish, write_text
from nextquery.errors import InputError, LogError
from nextquery.logs import tables
from nextquery.logs.cleaning import DROP_REASONS, CleaningRules, clean_texts
from nextquery.logs.counting import CountTables, count_background
from nextquery.logs.engine import Engine, Frame, open_engine
from nextquery.logs.formats import ReadResult, ReadSettings, read_logs
from nextquery.logs.prepared import SPLITS, UNSEEN_USERS
from nextquery.logs.privacy import pseudonyms
from nextquery.logs.sessions import mark_sessions, merge_repeats, number_queries
from nextquery.logs.splits import SplitRule, paper_cuts, parse_cuts

Progress = Callable[[str], None]


@dataclass(frozen=True)
class PrepareSettings:
    """Everything that decides what the data folder holds."""

    read: ReadSettings = field(default_factory=ReadSettings)
    idle_minutes: int = 30
    split_at: str | None = None
    holdout_users: float = 0.0
    vocabulary_size: int = 90_000
    min_users: int = 3
    spelling: bool = True
    keep_personal_data: bool = False
    drop_urls: bool = False
    engine: str = "polars"
    spark_master: str = "local[*]"

    def __post_init__(self) -> None:
        """Refuse values that make no sense before hours of work."""
        for name in ("idle_minutes", "vocabulary_size", "min_users"):
            if getattr(self, name) < 1:
                raise InputError(f"--{name.replace('_', '-')}: must be 1 or more")
        if not 0 <= self.holdout_users < 1:
            raise InputError(f"--holdout-users {self.holdout_users}: give a share below 1")
        if self.spelling:
            raise InputError("spelling correction is not there yet: give --no-spelling")


def prepare(
    paths: Sequence[Path], out: Path, settings: PrepareSettings, progress: Progress = lambda _: None
) -> Mapping[str, Any]:
    """Make the data folder `out` of raw logs; returns the entries of its manifest."""
    entries: dict[str, Any] = {}
    with publish(out, "data", entries) as folder:
        work = folder / "work"
        work.mkdir()
        progress("reading")
        read = read_logs(paths, settings.read, work)
        engine = open_engine(settings.engine, work, settings.spark_master)
        try:
            entries |= _Job(engine, folder, work, settings, progress).run(read)
        finally:
            engine.close()
        (work / "rejected.ndjson.gz").replace(folder / "rejected.ndjson.gz")
        shutil.rmtree(work)
    return entries


class _Job:
    """One run over rows that were read: the stages, and where their tables go."""

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        work: Path,
        settings: PrepareSettings,
        progress: Progress,
    ) -> None:
        self.engine = engine
        self.folder = folder
        self.work = work
        self.settings = settings
        self.progress = progress

    def run(self, read: ReadResult) -> dict[str, Any]:
        """All stages; returns the manifest's entries."""
        rows = self.engine.scan(self.work / "rows")
        rule = self._split_rule(rows)
        self.progress("cleaning")
        queries, events = self._clean(rows)
        self.progress("sessions")
        marked, merged = self._sessions(events, rule)
        counts = self._write_sessions(merged, queries)
        self.progress("counting")
        background = nw.col("split") == "background"
        clicked = marked.filter(background & ~nw.col("click").is_null())
        known = count_background(
            self.engine,
            merged.filter(background & ~nw.col("single")),
            clicked.select("user", "query_id", "click"),
            queries,
            self.settings.min_users,
        )
        self._write_counts(known)
        return self._entries(read, rule, events, counts)

    def _split_rule(self, rows: Frame) -> SplitRule:
        settings = self.settings
        if settings.split_at:
            cuts = parse_cuts(settings.split_at, settings.read.time_zone)
        else:
            first, last = _time_span(rows)
            cuts = paper_cuts(first, last)
        return SplitRule(cuts, settings.holdout_users)

    def _clean(self, rows: Frame) -> tuple[Frame, Frame]:
        """The texts by id, and the rows with ids and pseudonyms instead of texts and users."""
        engine = self.engine
        rules = CleaningRules(self.settings.keep_personal_data, self.settings.drop_urls)
        raw = rows.select(raw=nw.col("query")).unique()
        texts = engine.apply(raw, partial(clean_texts, rules=rules), tables.TEXTS, "texts")
        users = engine.apply(
            rows.select(raw_user=nw.col("user")).unique(), pseudonyms, tables.USERS, "users"
        )
        kept = texts.filter(nw.col("drop").is_null()).select("query").unique()
        queries = engine.number(kept, "query_id", "queries")
        coded = texts.join(queries, on="query", how="left").select("raw", "query_id", "drop")
        events = (
            rows.rename({"user": "raw_user", "query": "raw"})
            .join(coded, on="raw")
            .join(users, on="raw_user")
            .select("user", "time", "row", "query_id", "drop", "click")
        )
        return queries, engine.keep(events, "events")

    def _sessions(self, events: Frame, rule: SplitRule) -> tuple[Frame, Frame]:
        """The kept rows with their session and split, and the same with repeats merged."""
        engine = self.engine
        kept = events.filter(nw.col("drop").is_null()).drop("drop")
        kept = kept.with_columns(clicks=(~nw.col("click").is_null()).cast(nw.Int32))
        ordered = engine.in_order(kept, "ordered")
        marked = mark_sessions(ordered, engine, self.settings.idle_minutes)
        marked = marked.with_columns(split=rule.split())
        merged = number_queries(merge_repeats(marked, engine), engine).lazy()
        merged = merged.select(
            *("user", "session", "position", "time", "query_id", "next_id", "clicks"),
            *("split", "starts", "single"),
        )
        return marked.lazy(), engine.keep(merged, "merged")

    def _write_sessions(self, merged: Frame, queries: Frame) -> dict[str, Any]:
        counts: dict[str, Any] = {"sessions": {}, "queries": {}, "single_query_sessions": {}}
        found = merged.group_by("split", "single").agg(
            sessions=nw.col("starts").cast(nw.Int64).sum(), queries=nw.len()
        )
        sizes = {
            (row["split"], row["single"]): row for row in found.collect("pyarrow").rows(named=True)
        }
        nothing = {"sessions": 0, "queries": 0}
        for name in self._split_names():
            several, single = sizes.get((name, False), nothing), sizes.get((name, True), nothing)
            counts["sessions"][name] = int(several["sessions"])
            counts["queries"][name] = int(several["queries"])
            counts["single_query_sessions"][name] = int(single["sessions"])
            rows = merged.filter((nw.col("split") == name) & ~nw.col("single"))
            rows = rows.join(queries, on="query_id").with_columns(
                user=nw.col("user").cast(nw.String)
            )
            file = self.folder / "sessions" / name / "part-00000.parquet"
            self.engine.write(rows, file, tables.SESSIONS, ["session", "position"])
        if not counts["sessions"]["background"]:
            raise LogError(
                "no session of two or more queries in the background: "
                "the log is too short, or --split-at lies before it"
            )
        return counts

    def _split_names(self) -> tuple[str, ...]:
        return (*SPLITS, UNSEEN_USERS) if self.settings.holdout_users else SPLITS

    def _write_counts(self, counts: CountTables) -> None:
        write, folder = self.engine.write, self.folder / "counts"
        down = "-count"
        write(counts.queries, folder / "queries.parquet", tables.QUERIES, [down, "query"])
        write(counts.words, folder / "words.parquet", tables.WORDS, [down, "word"])
        pairs, followers, clicks = ["first", "second"], ["anchor", "next"], ["query", "url"]
        write(counts.word_pairs, folder / "word_pairs.parquet", tables.WORD_PAIRS, [down, *pairs])
        write(counts.followers, folder / "followers.parquet", tables.FOLLOWERS, [down, *followers])
        write(counts.clicks, folder / "clicks.parquet", tables.CLICKS, [down, *clicks])
        words = pl.scan_parquet(folder / "words.parquet").head(self.settings.vocabulary_size)
        vocabulary = words.select("word").collect()["word"].to_list()
        write_text(self.folder / "vocabulary.txt", "".join(f"{word}\n" for word in vocabulary))

    def _entries(
        self, read: ReadResult, rule: SplitRule, events: Frame, counts: dict[str, Any]
    ) -> dict[str, Any]:
        dropped = events.group_by("drop").agg(rows=nw.len()).collect("pyarrow").rows(named=True)
        by_reason = {row["drop"]: int(row["rows"]) for row in dropped}
        users = events.select(nw.col("user").n_unique()).collect("pyarrow").item()
        read_counts = {
            "rows_read": read.rows_read,
            "rows_accepted": read.rows_accepted,
            "rows_rejected": read.rows_rejected,
            "rejected": dict(read.reasons),
            "rows_dropped": {reason: by_reason.get(reason, 0) for reason in DROP_REASONS},
            "users": int(users),
        }
        settings = asdict(self.settings)
        settings |= settings.pop("read")
        settings["format"] = read.format
        settings["split_at"] = [time.isoformat() for time in rule.cuts]
        return {"counts": read_counts | counts, "settings": settings}


def _time_span(rows: Frame) -> tuple[datetime, datetime]:
    span = rows.select(first=nw.col("time").min(), last=nw.col("time").max()).collect("pyarrow")
    ((first, last),) = span.rows()
    return first, last
