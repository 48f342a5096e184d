"""How a raw log is to be read: the settings that formats and readers share."""

from collections.abc import Mapping
from dataclasses import dataclass

from nextquery.errors import InputError
from nextquery.logs.reading.encodings import check_encoding

UTC = "UTC"
FORMAT_NAMES = (
    "aol", "excite", "csv", "tsv", "ndjson", "parquet", "excel", "access", "elastic", "ubi", "ga4",
    "matomo", "algolia",
)  # fmt: skip
"""Every format of `formats/table.py`, here so that `--help` can name them without reading it."""


@dataclass(frozen=True)
class ReadSettings:
    """How a raw log is read.

    >>> ReadSettings(format="csv", columns={"user": "who", "time": "when", "query": "what"}).format
    'csv'
    """

    format: str = "auto"
    columns: Mapping[str, str] | None = None
    """Which column of a CSV, TSV, NDJSON or Parquet log is user, time, query and click."""
    time_zone: str = UTC
    """The zone of times that name none."""
    max_rejected: float = 0.05
    """The largest share of bad rows with which the job goes on."""
    excerpts: bool = True
    """Whether the list of rejected rows shows the start of each."""
    encoding: str = "utf-8"
    """The encoding of text files; UTF-16 is told by itself."""
    parameter: str | None = None
    """Which parameter of an access log's addresses holds the query; None stands for `q`."""

    def __post_init__(self) -> None:
        """Refuse values that make no sense."""
        if self.time_zone != UTC:
            # Imported late: the command line reads the defaults of this class without Polars.
            from nextquery.logs.reading.times import check_time_zone

            check_time_zone(self.time_zone)
        check_encoding(self.encoding)
        if not 0 <= self.max_rejected <= 1:
            raise InputError(f"`max_rejected` {self.max_rejected}: give a share from 0 to 1")
