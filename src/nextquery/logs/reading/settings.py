"""How a raw log is to be read: the settings that formats and readers share."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ReadSettings:
    """How a raw log is read.

    >>> ReadSettings(format="csv", columns={"user": "who", "time": "when", "query": "what"}).format
    'csv'
    """

    format: str = "auto"
    columns: Mapping[str, str] | None = None
    """Which column of a CSV, TSV, NDJSON or Parquet log is user, time, query and click."""
    time_zone: str = "UTC"
    """The zone of times that name none."""
    max_rejected: float = 0.05
    """The largest share of bad rows with which the job goes on."""
