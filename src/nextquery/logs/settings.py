"""Settings of `prepare` and of reading raw logs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nextquery.errors import InputError
from nextquery.logs.reading.encodings import check_encoding

if TYPE_CHECKING:
    from nextquery.logs.privacy import Recogniser

UTC = "UTC"
FORMAT_NAMES = (
    "aol", "excite", "csv", "tsv", "ndjson", "parquet", "excel", "access", "elastic", "ubi", "ga4",
    "matomo", "algolia",
)  # fmt: skip
"""Every format of `formats/table.py`, here so that `--help` can name them without reading it."""


@dataclass(frozen=True)
class Condition:
    """Which rows are taken: those whose column has this value, or those whose column has not."""

    column: str
    value: str
    equal: bool

    @classmethod
    def parse(cls, text: str) -> "Condition":
        """Read `column=value` or `column!=value`.

        >>> Condition.parse("site!=intranet")
        Condition(column='site', value='intranet', equal=False)
        """
        column, equals, value = text.partition("=")
        name = column.removesuffix("!").strip()
        if not equals or not name:
            raise InputError(f"`where` {text}: write column=value or column!=value")
        return cls(name, value.strip(), equal=not column.endswith("!"))


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
    """A larger share of bad rows stops the job."""
    excerpts: bool = True
    """Whether the list of rejected rows shows the start of each."""
    encoding: str = "utf-8"
    """The encoding of text files; UTF-16 is detected automatically."""
    parameter: str | None = None
    """Which parameter of an access log's addresses is the query; None: `q`."""

    where: tuple[str, ...] = ()
    """Conditions on columns of the raw log, `column=value` or `column!=value`, that all taken rows
    satisfy; texts are compared as they are, without blanks around them."""

    def conditions(self) -> tuple[Condition, ...]:
        """What `where` says."""
        return tuple(map(Condition.parse, self.where))

    def __post_init__(self) -> None:
        """Refuse values that make no sense."""
        self.conditions()
        if self.time_zone != UTC:
            # Imported late: the command line reads the defaults of this class without Polars.
            from nextquery.logs.reading.times import check_time_zone

            check_time_zone(self.time_zone)
        check_encoding(self.encoding)
        if not 0 <= self.max_rejected <= 1:
            raise InputError(f"`max_rejected` {self.max_rejected}: give a share from 0 to 1")


_LIMITS = {
    "idle_minutes": (1, 1_000_000),
    "max_session_queries": (2, 100_000),
    "vocabulary_size": (1, 10**9),
    "min_users": (1, 10**9),
    "max_user_repeats": (1, 10**9),
}


@dataclass(frozen=True)
class PrepareSettings:
    """Everything that decides what the data folder holds."""

    read: ReadSettings = field(default_factory=ReadSettings)
    idle_minutes: int = 30
    max_session_queries: int = 500
    """A longer session is cut into sessions of this many queries. A program that searches every
    minute never pauses; the longest session of a person in the logs at hand had 269 queries."""
    split_at: str | None = None
    """Three times, or None for the paper's proportions of the log's time."""
    split_days: str | None = None
    """Days of training, validation and test at the end of the log; all before is background."""
    holdout_users: float = 0.0
    vocabulary_size: int = 90_000
    min_users: int = 3
    spelling: bool = True
    keep_personal_data: bool = False
    drop_urls: bool = False
    keep_robots: bool = False
    """Whether likely bots stay in (`cleaning.RobotRule` is the rule)."""
    exclude_users: tuple[str, ...] = ()
    """Users whose rows do not count, as the log names them, or `pseudonym:NUMBER` as the data
    folder does."""
    max_user_repeats: int = 5
    """Searches of one query by one user on one day that count in the background. In the AOL log
    this leaves out 0.9% of the searches."""
    max_user_share: float = 0.01
    """The largest share of the background's searches that one user may have; of a user with more
    the newest count. Twenty times the mean is always allowed."""
    recogniser: "Recogniser | None" = None
    """A site's own rule of what is personal, asked for every distinct query as typed."""
    titles: str | None = None
    """Titles of what the site has, for completions and fill-in suggestions: a file with one per
    line, FILE:column of a CSV file, or a sitemap."""
    journal: bool = True
    """Whether the cleaned rows are kept, without which nobody can be forgotten or days added."""
    engine: str = "polars"
    spark_master: str = "local[*]"

    def __post_init__(self) -> None:
        """Refuse values that make no sense before hours of work."""
        for name, (least, most) in _LIMITS.items():
            if not least <= getattr(self, name) <= most:
                raise InputError(f"`{name}`: must be {least} or more, and at most {most:,}")
        if self.split_at and self.split_days:
            raise InputError("`split_at` and `split_days` exclude each other; choose one")
        if not 0 < self.max_user_share <= 1:
            raise InputError(
                f"`max_user_share` {self.max_user_share}: give a share above 0, at most 1"
            )
        if not 0 <= self.holdout_users < 1:
            raise InputError(f"`holdout_users` {self.holdout_users}: give a share below 1")
        if self.keep_personal_data and self.recogniser is not None:
            raise InputError("`recogniser`: has no effect with `keep_personal_data`; choose one")
        if self.recogniser is not None:
            # Imported late, as the command line reads the defaults of this class at every start.
            from nextquery.logs.privacy import check_recogniser

            check_recogniser(self.recogniser, repr(self.recogniser))
