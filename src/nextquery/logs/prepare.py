"""The whole job: raw logs in, a data folder out, complete or not at all.

Knows the order of the stages and what the manifest says; each stage is a module of its own.
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
from nextquery.logs.data_folder import SPLITS, UNSEEN_USERS
from nextquery.logs.engines import schemas
from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.engines.choosing import AUTO, choose_engine
from nextquery.logs.engines.opening import open_engine
from nextquery.logs.reading.compression import find_files
from nextquery.logs.reading.read_logs import ReadResult, read_logs
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.stages.cleaning import CleaningRules
from nextquery.logs.stages.counting import COUNT_KEYS, count_background
from nextquery.logs.stages.events import SpellingReport, Texts, correct_spelling, read_events
from nextquery.logs.stages.privacy import recogniser_name
from nextquery.logs.stages.robots import RobotCounts, RobotRule, leave_out_robots
from nextquery.logs.stages.sessions import SessionRows, find_sessions
from nextquery.logs.stages.splits import SPLIT_CODES, SplitRule, paper_cuts, parse_cuts

Progress = Callable[[str, float], None]
"""Hears the name of the stage and how much of the stage is done, 0 to 1."""


_ROBOTS = RobotRule()


def prepare(
    logs: Sequence[str | Path],
    out: Path,
    settings: PrepareSettings,
    progress: Progress = lambda stage, share: None,
) -> Mapping[str, Any]:
    """Make the data folder `out` of raw logs; returns the entries of its manifest."""
    if settings.split_at:
        parse_cuts(settings.split_at, settings.read.time_zone)
    settings, why = _with_engine(settings, logs)
    if settings.engine == "spark":
        _check_name(out)
    entries: dict[str, Any] = {}
    with publish(out, "data", entries) as folder:
        work = folder / "work"
        work.mkdir(mode=0o700)  # raw text and users lie here until the end
        engine = open_engine(settings.engine, work, settings.spark_master)
        try:
            read = _read(engine, logs, settings, work, progress)
            entries |= _run_stages(engine, folder, settings, read, progress)
            entries["settings"] |= why
        finally:
            engine.close()
        (work / "rejected.ndjson.gz").replace(folder / "rejected.ndjson.gz")
        shutil.rmtree(work)
    return entries


def _with_engine(
    settings: PrepareSettings, logs: Sequence[str | Path]
) -> tuple[PrepareSettings, dict[str, str]]:
    """The settings with an engine's name for `auto`, and what the manifest says of it."""
    if settings.engine != AUTO:
        return settings, {}
    local = [Path(log) for log in logs if "://" not in str(log)]
    choice = choose_engine(find_files(local))
    return replace(settings, engine=choice.name), {"engine_reason": choice.reason}


def _check_name(out: Path) -> None:
    """Refuse a place that Spark cannot open."""
    try:
        str(out.absolute()).encode()
    except UnicodeEncodeError:
        raise InputError(f"{out}: Spark opens UTF-8 names only; choose another `out`") from None


def _read(
    engine: Engine,
    logs: Sequence[str | Path],
    settings: PrepareSettings,
    work: Path,
    progress: Progress,
) -> ReadResult:
    """Read files; with Spark also what has an address, such as `hdfs://host/log.tsv`."""
    addresses = [str(log) for log in logs if "://" in str(log)]
    if not addresses:
        paths = find_files([Path(log) for log in logs])
        return read_logs(
            paths,
            settings.read,
            work,
            lambda done, total: progress("reading", done / total),
            engine.write_part,
        )
    if settings.engine != "spark" or len(addresses) < len(logs):
        raise InputError(f"{addresses[0]}: addresses need `engine=spark`, and no files beside them")
    from nextquery.logs.engines.spark import SparkEngine
    from nextquery.logs.reading.spark_reader import read_addresses

    assert isinstance(engine, SparkEngine)
    progress("reading", 0)
    return read_addresses(engine.session, addresses, settings.read, work)


def _run_stages(
    engine: Engine, folder: Path, settings: PrepareSettings, read: ReadResult, progress: Progress
) -> dict[str, Any]:
    rows = folder / "work" / "rows"
    rule = _split_rule(engine.scan(rows), settings)
    progress("cleaning", 0)
    rules = CleaningRules(settings.keep_personal_data, settings.drop_urls, settings.recogniser)
    events, row_counts = read_events(engine, rows, rule.held_out(), rules)
    robots = RobotCounts()
    if not settings.keep_robots:
        people, robots = leave_out_robots(engine, events.rows, _ROBOTS)
        events = replace(events, rows=people)
        del people
    report = SpellingReport()
    if settings.spelling:
        progress("spelling", 0)
        events, report = correct_spelling(engine, events, rule.in_background(), settings.min_users)
    progress("sessions", 0)
    sessions = find_sessions(engine, events.rows, rule.split(), settings.idle_minutes)
    texts = events.texts
    del events  # gives back the memory that Polars holds its rows in
    splits = (*SPLITS, UNSEEN_USERS) if settings.holdout_users else SPLITS
    sizes = _split_sizes(sessions.queries, splits)
    _check_background(sizes)
    progress("counting", 0)
    engine.side_by_side(
        partial(_write_sessions, engine, sessions.queries, texts, folder, splits),
        partial(_write_counts, engine, sessions, texts, folder, settings),
    )
    progress("publishing", 0)
    return {
        "counts": _read_counts(read) | asdict(row_counts) | {"robots": asdict(robots)} | sizes,
        "settings": _settings(settings, read, rule),
        "spelling": asdict(report),
    }


def _split_rule(rows: Frame, settings: PrepareSettings) -> SplitRule:
    if settings.split_at:
        cuts = parse_cuts(settings.split_at, settings.read.time_zone)
    else:
        span = rows.select(first=nw.col("time").min(), last=nw.col("time").max())
        ((first, last),) = span.collect("pyarrow").rows()
        cuts = paper_cuts(first, last)
    return SplitRule(cuts, settings.holdout_users)


def _write_sessions(
    engine: Engine, rows: Frame, texts: Texts, folder: Path, splits: Sequence[str]
) -> None:
    for name in reversed(splits):  # the background, the largest, when memory is free again
        chosen = rows.filter((nw.col("split") == SPLIT_CODES[name]) & ~nw.col("single"))
        chosen = chosen.select("session", "position", "user_id", "time", "query_id", "clicks")
        chosen = engine.lookup(chosen, texts.queries, "query_id")
        chosen = engine.lookup(chosen, texts.users, "user_id")
        file = folder / "sessions" / name / "part-00000.parquet"
        engine.write(chosen, file, schemas.SESSIONS, ["session", "position"])


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
            "the log is too short, or `split_at` lies before it"
        )


def _write_counts(
    engine: Engine, sessions: SessionRows, texts: Texts, folder: Path, settings: PrepareSettings
) -> None:
    counts = count_background(engine, sessions, texts.queries, texts.urls, settings.min_users)
    for name, schema in schemas.COUNTS.items():
        file = folder / "counts" / f"{name}.parquet"
        engine.write(getattr(counts, name), file, schema, ["-count", *COUNT_KEYS[name]])
    words = pl.scan_parquet(folder / "counts" / "words.parquet", glob=False).head(
        settings.vocabulary_size
    )
    vocabulary = words.select("word").collect()["word"].to_list()
    write_text(folder / "vocabulary.txt", "".join(f"{word}\n" for word in vocabulary))


def _read_counts(read: ReadResult) -> dict[str, Any]:
    return {
        "rows_read": read.rows_read,
        "rows_accepted": read.rows_accepted,
        "rows_rejected": read.rows_rejected,
        "rejected": dict(read.reasons),
    }


def _settings(settings: PrepareSettings, read: ReadResult, rule: SplitRule) -> dict[str, Any]:
    values = asdict(settings)
    recogniser = values.pop("recogniser")
    if recogniser is not None:
        values["recogniser"] = recogniser_name(recogniser)
    reading = {**values.pop("read"), "format": read.format, "format_reason": read.reason}
    if not settings.keep_robots:
        values["robots"] = str(_ROBOTS)
    return {**reading, **values, "split_at": [time.isoformat() for time in rule.cuts]}
