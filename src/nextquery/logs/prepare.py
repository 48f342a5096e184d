"""Prepare a raw log: read, clean, correct, cut into sessions, split, count, publish.

`prepare` and `write_tables` read from top to bottom in the order in which things happen. `revise`
runs `write_tables` on the rows that a data folder keeps.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl

from nextquery.artifacts import publish, write_text
from nextquery.errors import InputError, LogError
from nextquery.logs.cleaning import (
    PSEUDONYM,
    REJECTED_OWNERS,
    ROBOTS,
    ROWS,
    Events,
    ExcludedCounts,
    RowCounts,
    SpellingReport,
    Texts,
    as_pseudonyms,
    correct_spelling,
    exclude_users,
    leave_out_robots,
    read_events,
)
from nextquery.logs.counting import COUNT_KEYS, count_background
from nextquery.logs.data_folder import SINGLE_SEARCHES, SPLITS, TITLES, UNSEEN_USERS
from nextquery.logs.engines import base, open_engine
from nextquery.logs.engines.base import AUTO, Engine, Frame, choose_engine
from nextquery.logs.privacy import recogniser_name
from nextquery.logs.reading.open import find_files
from nextquery.logs.reading.read_logs import ReadResult, read_logs
from nextquery.logs.reading.rejects import OWNERS, REJECTED
from nextquery.logs.sessions import (
    SPLIT_CODES,
    SessionRows,
    SplitRule,
    UserLimit,
    find_sessions,
    last_days_cuts,
    limit_users,
    paper_cuts,
    parse_cuts,
    parse_days,
)
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.titles import read_titles

Progress = Callable[[str, float], None]
"""Hears the name of the stage and how much of the stage is done, 0 to 1."""


def prepare(
    logs: Sequence[str | Path],
    out: Path,
    settings: PrepareSettings,
    progress: Progress = lambda stage, share: None,
) -> Mapping[str, Any]:
    """Make the data folder `out` of raw logs; returns the entries of its manifest."""
    if settings.split_at:
        parse_cuts(settings.split_at, settings.read.time_zone)
    if settings.split_days:
        parse_days(settings.split_days)
    titles = read_titles(settings.titles, settings) if settings.titles else []
    engine_reason = {}
    if settings.engine == AUTO:
        local = [Path(log) for log in logs if "://" not in str(log)]
        choice = choose_engine(find_files(local))
        settings = replace(settings, engine=choice.name)
        engine_reason = {"engine_reason": choice.reason}
    if settings.engine == "spark":
        try:
            str(out.absolute()).encode()
        except UnicodeEncodeError:
            raise InputError(f"{out}: Spark opens UTF-8 names only; choose another `out`") from None
    entries: dict[str, Any] = {}
    with publish(out, "data", entries) as folder:
        work = folder / "work"
        work.mkdir(mode=0o700)  # raw text and users are here until the end
        engine = open_engine(settings.engine, work, settings.spark_master)
        try:
            read = read_into(engine, logs, settings, work, progress)
            rows = work / "rows"
            split = split_rule(engine.scan(rows), settings)
            progress("cleaning", 0)
            journal = folder / ROWS if settings.journal else None
            cleaned = partial(read_events, engine, rows, split.held_out(), settings, journal)
            entries |= write_tables(engine, folder, settings, split, cleaned, progress)
        finally:
            engine.close()
        progress("publishing", 0)
        write_titles(folder, titles)
        (work / REJECTED).replace(folder / REJECTED)
        if settings.journal:
            (work / OWNERS).replace(folder / REJECTED_OWNERS)
        shutil.rmtree(work)
        entries["counts"] = {
            "rows_read": read.rows_read,
            "rows_accepted": read.rows_accepted,
            "rows_rejected": read.rows_rejected,
            "rejected": dict(read.reasons),
            **entries["counts"],
            "titles": len(titles),
        }
        entries["settings"] = settings_entry(settings, read, split) | engine_reason
        entries["logs"] = [asdict(file) for file in read.files]
    return entries


def write_tables(
    engine: Engine,
    folder: Path,
    settings: PrepareSettings,
    split: SplitRule,
    read: Callable[[], tuple[Events, RowCounts]],
    progress: Progress,
) -> dict[str, Any]:
    """Write sessions, counts and vocabulary of cleaned rows; returns sizes and corrections.

    The rows are read here: while a caller held them, too, no `del` would free their memory.
    """
    events, row_counts = read()
    events, excluded = exclude_users(engine, events, settings.exclude_users)
    bots = ExcludedCounts()
    if not settings.keep_robots:
        events, bots = leave_out_robots(engine, events, ROBOTS)
    corrections = SpellingReport()
    if settings.spelling:
        progress("spelling", 0)
        background = split.in_background()
        events, corrections = correct_spelling(engine, events, background, settings.min_users)

    progress("sessions", 0)
    texts, ordered = events.texts, engine.sort_rows(events.rows, "ordered")
    del events
    sessions = find_sessions(
        engine, ordered, split.split(), settings.idle_minutes, settings.max_session_queries
    )
    del ordered
    limit = UserLimit(settings.max_user_repeats, settings.max_user_share)
    sessions, limited = limit_users(engine, sessions, limit)
    splits = (*SPLITS, UNSEEN_USERS) if settings.holdout_users else SPLITS
    sizes = _split_sizes(sessions.queries, splits)
    _check_background(sizes, row_counts)

    progress("counting", 0)
    engine.side_by_side(
        partial(_write_sessions, engine, sessions.queries, texts, folder, splits),
        partial(_write_counts, engine, sessions, texts, folder, settings),
    )
    counts = {
        **asdict(row_counts),
        "excluded": asdict(excluded),
        "robots": asdict(bots),
        "limited": asdict(limited),
        **sizes,
    }
    return {"counts": counts, "spelling": asdict(corrections)}


def split_rule(rows: Frame, settings: PrepareSettings) -> SplitRule:
    """Where the time of `rows` is cut into splits."""
    if settings.split_at:
        cuts = parse_cuts(settings.split_at, settings.read.time_zone)
    else:
        span = rows.select(first=nw.col("time").min(), last=nw.col("time").max())
        ((first, last),) = span.collect("polars").rows()
        days = settings.split_days
        cuts = last_days_cuts(last, parse_days(days)) if days else paper_cuts(first, last)
    return SplitRule(cuts, settings.holdout_users)


def read_into(
    engine: Engine,
    logs: Sequence[str | Path],
    settings: PrepareSettings,
    work: Path,
    progress: Progress,
) -> ReadResult:
    """Read files; with Spark also what has an address, such as `hdfs://host/log.tsv`."""
    if settings.engine == "spark" and settings.recogniser is not None:
        from nextquery.logs.engines.spark import check_sendable

        check_sendable(settings.recogniser, recogniser_name(settings.recogniser))
    addresses = [str(log) for log in logs if "://" in str(log)]
    if not addresses:
        paths = find_files([Path(log) for log in logs])

        def report(done: int, total: int) -> None:
            progress("reading", done / total)

        return read_logs(paths, settings.read, work, report, engine)
    if settings.engine != "spark" or len(addresses) < len(logs):
        raise InputError(f"{addresses[0]}: addresses need `engine=spark`, without files")
    from nextquery.logs.engines.spark import SparkEngine, read_addresses

    assert isinstance(engine, SparkEngine)
    progress("reading", 0)
    return read_addresses(engine.session, addresses, settings.read, work)


def _write_sessions(
    engine: Engine, rows: Frame, texts: Texts, folder: Path, splits: Sequence[str]
) -> None:
    by_id = {"query_id": texts.queries, "user_id": texts.users}
    for name in reversed(splits):  # the background, the largest, when memory is free again
        for kind, lengths in ((SINGLE_SEARCHES, nw.col("single")), ("sessions", ~nw.col("single"))):
            chosen = rows.filter((nw.col("split") == SPLIT_CODES[name]) & lengths)
            chosen = chosen.select("session", "position", "user_id", "time", "query_id", "clicks")
            file = folder / kind / name / "part-00000.parquet"
            engine.write(chosen, file, base.SESSIONS, ["session", "position"], by_id)


def _split_sizes(rows: Frame, splits: Sequence[str]) -> dict[str, Any]:
    groups = rows.group_by("split", "single").agg(
        sessions=nw.col("starts").cast(nw.Int64).sum(),
        queries=nw.len(),
        too_long=nw.col("too_long").cast(nw.Int64).sum(),
    )
    columns = groups.select("split", "single", "sessions", "queries", "too_long")
    counted = columns.collect("polars").rows()
    sizes = {(split, single): counts for split, single, *counts in counted}
    several = {name: sizes.get((SPLIT_CODES[name], False), (0, 0)) for name in splits}
    single = {name: sizes.get((SPLIT_CODES[name], True), (0, 0)) for name in splits}
    return {
        "sessions": {name: int(several[name][0]) for name in splits},
        "queries": {name: int(several[name][1]) for name in splits},
        "single_query_sessions": {name: int(single[name][0]) for name in splits},
        "searches": {name: int(several[name][1] + single[name][1]) for name in splits},
        "sessions_cut": sum(int(too_long) for *_, too_long in counted),
    }


def _check_background(sizes: Mapping[str, Any], rows: RowCounts) -> None:
    if sizes["sessions"]["background"]:
        return
    searches = sum(sizes["searches"].values())
    if searches >= 100 and rows.users > 0.9 * searches:
        raise LogError(
            f"no session of two or more queries: {rows.users:,} users in {searches:,} searches, so "
            "nearly every row has a user of its own; choose the column that stays the same through "
            "a visit with `columns=user=...,time=...,query=...`"
        )
    raise LogError(
        "no session of two or more queries in the background: "
        "the log is too short, or `split_at` or `split_days` leave nothing before them"
    )


def _write_counts(
    engine: Engine, sessions: SessionRows, texts: Texts, folder: Path, settings: PrepareSettings
) -> None:
    counts = count_background(engine, sessions, texts.queries, texts.urls, settings.min_users)
    for name, schema in base.COUNTS.items():
        file = folder / "counts" / f"{name}.parquet"
        engine.write(getattr(counts, name), file, schema, ["-count", *COUNT_KEYS[name]])
    words = pl.scan_parquet(folder / "counts" / "words.parquet", glob=False).select("word")
    vocabulary = words.head(settings.vocabulary_size).collect()["word"].to_list()
    write_text(folder / "vocabulary.txt", "".join(f"{word}\n" for word in vocabulary))


def write_titles(folder: Path, titles: Sequence[str]) -> None:
    """Write the titles into a data folder, if there are any."""
    if titles:
        write_text(folder / TITLES, "".join(f"{title}\n" for title in titles))


def settings_entry(settings: PrepareSettings, read: ReadResult, rule: SplitRule) -> dict[str, Any]:
    """What the manifest says of the settings; `split_by` says how it was split."""
    # Without the recogniser, which may hold what cannot be copied, such as a lock.
    values = asdict(replace(settings, recogniser=None))
    del values["recogniser"]
    # The raw names of users are in no file of the data folder.
    excluded = as_pseudonyms(settings.exclude_users)
    values["exclude_users"] = [f"{PSEUDONYM}{name}" for name in excluded]
    if settings.recogniser is not None:
        values["recogniser"] = recogniser_name(settings.recogniser)
    reading = {**values.pop("read"), "format": read.format, "format_reason": read.reason}
    if not settings.keep_robots:
        values["robots"] = str(ROBOTS)
    days = settings.split_days
    return {
        **reading,
        **values,
        "split_at": [time.isoformat() for time in rule.cuts],
        "split_by": "times" if settings.split_at else "days" if days else "proportions",
    }
