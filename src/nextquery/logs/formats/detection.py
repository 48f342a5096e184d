"""Detect the format of a log by the start of its files, with the reason in a sentence.

`auto` looks at every file, since files of two formats must not be mixed by mistake; a format that
is given is taken as given. All formats are in `FORMATS`: adding one is a file in this folder and a
row there.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from nextquery.errors import LogError
from nextquery.logs.formats.access_log import AccessFormat
from nextquery.logs.formats.analytics import (
    AlgoliaFormat,
    ElasticFormat,
    Ga4Format,
    MatomoFormat,
    describe_report,
)
from nextquery.logs.formats.base import LogFormat, check_columns, guess_columns, listed
from nextquery.logs.formats.delimited import (
    AolFormat,
    CsvFormat,
    ExciteFormat,
    TsvFormat,
    likely_header,
)
from nextquery.logs.formats.excel import ExcelFormat
from nextquery.logs.formats.json import NdjsonFormat, sample_objects
from nextquery.logs.formats.parquet import ParquetFormat
from nextquery.logs.formats.ubi import UbiFormat
from nextquery.logs.reading.open import Sample
from nextquery.logs.settings import ReadSettings

# A file is of the first format that recognises it: those that look for more come first.
_ALL: tuple[LogFormat, ...] = (
    UbiFormat(),
    ParquetFormat(),
    ExcelFormat(),
    ElasticFormat(),
    Ga4Format(),
    MatomoFormat(),
    AlgoliaFormat(),
    NdjsonFormat(),
    AccessFormat(),
    AolFormat(),
    ExciteFormat(),
    CsvFormat(),
    TsvFormat(),
)
FORMATS = {format.name: format for format in _ALL}


def format_named(name: str) -> LogFormat:
    """The format of that name.

    >>> format_named("aol").name
    'aol'
    """
    if name not in FORMATS:
        raise LogError(f"format {name!r} is unknown; choose auto, {', '.join(sorted(FORMATS))}")
    return FORMATS[name]


class FormatChoice(NamedTuple):
    """A format and why it was chosen."""

    format: LogFormat
    reason: str


def check_settings(settings: ReadSettings) -> None:
    """Refuse unknown formats, and columns that are incomplete or have no effect."""
    chosen = None if settings.format == "auto" else format_named(settings.format)
    if chosen and settings.parameter is not None and not chosen.takes_parameter:
        raise LogError(f"`parameter` goes with access; {chosen.name} has no addresses to look in")
    if settings.columns is None:
        return
    if chosen and not chosen.takes_columns:
        takers = ", ".join(name for name, log_format in FORMATS.items() if log_format.takes_columns)
        raise LogError(f"`columns` goes with {takers}; {chosen.name} has columns of its own")
    check_columns(settings.columns)


def choose_format(samples: Sequence[Sample], settings: ReadSettings) -> FormatChoice:
    """The format that was given, or the one that all files which are not empty have."""
    if settings.format != "auto":
        choice = FormatChoice(format_named(settings.format), "the format was given, not guessed")
    else:
        choice = _detect(samples, settings)
    if settings.where and not choice.format.takes_where:
        takers = ", ".join(name for name, log_format in FORMATS.items() if log_format.takes_where)
        raise LogError(f"`where` goes with {takers}, not with {choice.format.name}")
    return choice


def _detect(samples: Sequence[Sample], settings: ReadSettings) -> FormatChoice:
    filled = [sample for sample in samples if sample.lines]
    if not filled:
        raise LogError(f"{', '.join(str(sample.file) for sample in samples)}: no rows (empty)")
    first = _recognise(filled[0], settings)
    for sample in filled[1:]:
        other = _recognise(sample, settings)
        if other.format is not first.format:
            raise LogError(
                f"{filled[0].file} looks like {first.format.name} and {sample.file} like "
                f"{other.format.name}; prepare them apart, or name one with `format`"
            )
    return first


def _recognise(sample: Sample, settings: ReadSettings) -> FormatChoice:
    for log_format in FORMATS.values():
        reason = log_format.recognise(sample, settings)
        if reason:
            return FormatChoice(log_format, reason)
    report = describe_report(sample)
    if report:
        raise LogError(f"{sample.file}: {report}")
    start, header = f"it starts with {sample.lines[0][:60]!r}", likely_header(sample.lines)
    if header and header.position:
        names = listed(header.names)
        start += f", and line {header.position + 1} looks like a header: {names}"
    raise LogError(
        f"{sample.file}: the format is not recognised ({start}); "
        f"name it with `format`, or the columns with `columns={_likely_columns(sample)}`"
    )


def _likely_columns(sample: Sample) -> str:
    """Columns by the names in a header or object that look like them, or what to fill in."""
    objects, header = sample_objects(sample), likely_header(sample.lines)
    names: Sequence[str] = header.names if header else re.split("[,;|\t]", sample.lines[0])
    plain = [name.strip('" ') for name in (objects[0] if objects else names)]
    guessed = guess_columns([name for name in plain if re.fullmatch(r"[\w.@ -]{1,40}", name)])
    columns = ",".join(f"{field}={name}" for field, name in guessed.items())
    return columns or "user=...,time=...,query=..."
