"""From cleaned rows to the tables of a data folder: sessions, counts and the vocabulary.

Knows the order of the stages after cleaning; `prepare` and `revise` come here with their rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl

from nextquery.artifacts import write_text
from nextquery.errors import LogError
from nextquery.logs.data_folder import SPLITS, UNSEEN_USERS
from nextquery.logs.engines import table_schemas
from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.stages.counting import COUNT_KEYS, count_background
from nextquery.logs.stages.event_rows import Events, RowCounts, Texts
from nextquery.logs.stages.numbered_rows import SpellingReport, correct_spelling
from nextquery.logs.stages.robots import ROBOTS, RobotCounts, leave_out_robots
from nextquery.logs.stages.sessions import SessionRows, find_sessions
from nextquery.logs.stages.splits import (
    SPLIT_CODES,
    SplitRule,
    last_days_cuts,
    paper_cuts,
    parse_cuts,
    parse_days,
)

Progress = Callable[[str, float], None]
"""Hears the name of the stage and how much of the stage is done, 0 to 1."""


def split_rule(rows: Frame, settings: PrepareSettings) -> SplitRule:
    """Where rows (with their `time`) are cut into splits."""
    if settings.split_at:
        cuts = parse_cuts(settings.split_at, settings.read.time_zone)
    else:
        span = rows.select(first=nw.col("time").min(), last=nw.col("time").max())
        ((first, last),) = span.collect("pyarrow").rows()
        days = settings.split_days
        cuts = last_days_cuts(last, parse_days(days)) if days else paper_cuts(first, last)
    return SplitRule(cuts, settings.holdout_users)


def write_tables(
    engine: Engine,
    folder: Path,
    settings: PrepareSettings,
    rule: SplitRule,
    read: Callable[[], tuple[Events, RowCounts]],
    progress: Progress,
) -> dict[str, Any]:
    """Write sessions, counts and vocabulary; returns sizes and what spelling changed.

    The rows are read here: while a caller held them, too, no `del` would give their memory back.
    """
    events, row_counts = read()
    robots = RobotCounts()
    if not settings.keep_robots:
        people, robots = leave_out_robots(engine, events.rows, ROBOTS)
        events = replace(events, rows=people)
        del people
    report = SpellingReport()
    if settings.spelling:
        progress("spelling", 0)
        events, report = correct_spelling(engine, events, rule.in_background(), settings.min_users)
    progress("sessions", 0)
    texts, ordered = events.texts, engine.sort_rows(events.rows, "ordered")
    del events  # gives back the memory that Polars holds its rows in
    sessions = find_sessions(engine, ordered, rule.split(), settings.idle_minutes)
    del ordered
    splits = (*SPLITS, UNSEEN_USERS) if settings.holdout_users else SPLITS
    sizes = _split_sizes(sessions.queries, splits)
    _check_background(sizes)
    progress("counting", 0)
    engine.side_by_side(
        partial(_write_sessions, engine, sessions.queries, texts, folder, splits),
        partial(_write_counts, engine, sessions, texts, folder, settings),
    )
    counts = {**asdict(row_counts), "robots": asdict(robots), **sizes}
    return {"counts": counts, "spelling": asdict(report)}


def _write_sessions(
    engine: Engine, rows: Frame, texts: Texts, folder: Path, splits: Sequence[str]
) -> None:
    for name in reversed(splits):  # the background, the largest, when memory is free again
        chosen = rows.filter((nw.col("split") == SPLIT_CODES[name]) & ~nw.col("single"))
        chosen = chosen.select("session", "position", "user_id", "time", "query_id", "clicks")
        file = folder / "sessions" / name / "part-00000.parquet"
        by_id = {"query_id": texts.queries, "user_id": texts.users}
        engine.write(chosen, file, table_schemas.SESSIONS, ["session", "position"], by_id)


def _split_sizes(rows: Frame, splits: Sequence[str]) -> dict[str, dict[str, int]]:
    found = rows.group_by("split", "single").agg(
        sessions=nw.col("starts").cast(nw.Int64).sum(), queries=nw.len()
    )
    columns = found.select("split", "single", "sessions", "queries").collect("pyarrow")
    sizes = {
        (split, single): (sessions, queries) for split, single, sessions, queries in columns.rows()
    }
    several = {name: sizes.get((SPLIT_CODES[name], False), (0, 0)) for name in splits}
    single = {name: sizes.get((SPLIT_CODES[name], True), (0, 0)) for name in splits}
    return {
        "sessions": {name: int(several[name][0]) for name in splits},
        "queries": {name: int(several[name][1]) for name in splits},
        "single_query_sessions": {name: int(single[name][0]) for name in splits},
    }


def _check_background(sizes: Mapping[str, Mapping[str, int]]) -> None:
    if not sizes["sessions"]["background"]:
        raise LogError(
            "no session of two or more queries in the background: "
            "the log is too short, or `split_at` or `split_days` leave nothing before them"
        )


def _write_counts(
    engine: Engine, sessions: SessionRows, texts: Texts, folder: Path, settings: PrepareSettings
) -> None:
    counts = count_background(engine, sessions, texts.queries, texts.urls, settings.min_users)
    for name, schema in table_schemas.COUNTS.items():
        file = folder / "counts" / f"{name}.parquet"
        engine.write(getattr(counts, name), file, schema, ["-count", *COUNT_KEYS[name]])
    words = pl.scan_parquet(folder / "counts" / "words.parquet", glob=False).head(
        settings.vocabulary_size
    )
    vocabulary = words.select("word").collect()["word"].to_list()
    write_text(folder / "vocabulary.txt", "".join(f"{word}\n" for word in vocabulary))
