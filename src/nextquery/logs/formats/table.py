"""All formats of raw logs: adding one is a file in this folder and a row here."""

from nextquery.errors import LogError
from nextquery.logs.formats.access_log import AccessFormat
from nextquery.logs.formats.analytics import AlgoliaFormat, ElasticFormat, Ga4Format, MatomoFormat
from nextquery.logs.formats.base import LogFormat
from nextquery.logs.formats.delimited import AolFormat, CsvFormat, ExciteFormat, TsvFormat
from nextquery.logs.formats.excel import ExcelFormat
from nextquery.logs.formats.json import NdjsonFormat
from nextquery.logs.formats.parquet import ParquetFormat
from nextquery.logs.formats.ubi import UbiFormat

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
