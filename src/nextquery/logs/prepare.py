"""The whole job: raw logs in, a data folder out, complete or not at all.

Knows the order of the stages and what the manifest says; each stage is a module of its own.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from nextquery.artifacts import publish
from nextquery.errors import InputError
from nextquery.logs.engines.base import Engine
from nextquery.logs.engines.choosing import AUTO, choose_engine
from nextquery.logs.engines.opening import open_engine
from nextquery.logs.reading.compression import find_files
from nextquery.logs.reading.read_logs import ReadResult, read_logs
from nextquery.logs.reading.rejected_rows import OWNERS, REJECTED
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.stages.cleaning import CleaningRules
from nextquery.logs.stages.journal import REJECTED_OWNERS, ROWS
from nextquery.logs.stages.numbered_rows import read_events
from nextquery.logs.stages.privacy import recogniser_name
from nextquery.logs.stages.robots import ROBOTS
from nextquery.logs.stages.splits import SplitRule, parse_cuts, parse_days
from nextquery.logs.tables import Progress, split_rule, write_tables

__all__ = ["PrepareSettings", "Progress", "prepare"]


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
    settings, why = _with_engine(settings, logs)
    if settings.engine == "spark":
        _check_name(out)
    entries: dict[str, Any] = {}
    with publish(out, "data", entries) as folder:
        work = folder / "work"
        work.mkdir(mode=0o700)  # raw text and users lie here until the end
        engine = open_engine(settings.engine, work, settings.spark_master)
        try:
            read = read_into(engine, logs, settings, work, progress)
            entries |= _run_stages(engine, folder, settings, read, progress)
            entries["settings"] |= why
        finally:
            engine.close()
        (work / REJECTED).replace(folder / REJECTED)
        if settings.journal:
            (work / OWNERS).replace(folder / REJECTED_OWNERS)
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


def read_into(
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
    rule = split_rule(engine.scan(rows), settings)
    progress("cleaning", 0)
    rules = CleaningRules(settings.keep_personal_data, settings.drop_urls, settings.recogniser)
    journal = folder / ROWS if settings.journal else None
    cleaned = partial(read_events, engine, rows, rule.held_out(), rules, journal)
    found = write_tables(engine, folder, settings, rule, cleaned, progress)
    progress("publishing", 0)
    return {
        "counts": read_counts(read) | found["counts"],
        "settings": settings_entry(settings, read, rule),
        "spelling": found["spelling"],
        "logs": [asdict(file) for file in read.files],
    }


def _split_by(settings: PrepareSettings) -> str:
    """What decides the cuts: given `times`, `days` at the end, or the paper's `proportions`."""
    return "times" if settings.split_at else "days" if settings.split_days else "proportions"


def read_counts(read: ReadResult) -> dict[str, Any]:
    """What the manifest says of the rows that were read."""
    return {
        "rows_read": read.rows_read,
        "rows_accepted": read.rows_accepted,
        "rows_rejected": read.rows_rejected,
        "rejected": dict(read.reasons),
    }


def settings_entry(settings: PrepareSettings, read: ReadResult, rule: SplitRule) -> dict[str, Any]:
    """What the manifest says of the settings; `split_by` tells by what it was cut."""
    values = asdict(settings)
    recogniser = values.pop("recogniser")
    if recogniser is not None:
        values["recogniser"] = recogniser_name(recogniser)
    reading = {**values.pop("read"), "format": read.format, "format_reason": read.reason}
    if not settings.keep_robots:
        values["robots"] = str(ROBOTS)
    return {
        **reading,
        **values,
        "split_at": [time.isoformat() for time in rule.cuts],
        "split_by": _split_by(settings),
    }
