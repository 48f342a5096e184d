"""Settings of `prepare`, of reading raw logs and of trends."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nextquery.errors import InputError
from nextquery.logs.reading.encodings import check_encoding
from nextquery.settings import TUNING, Option, check_limits, setting

if TYPE_CHECKING:
    from nextquery.logs.privacy import Recogniser

UTC = "UTC"
FORMAT_NAMES = (
    "aol", "excite", "csv", "tsv", "ndjson", "parquet", "excel", "access", "elastic", "ubi", "ga4",
    "matomo", "algolia",
)  # fmt: skip
"""Every format of `formats/detection.py`: `--help` names them without reading that."""


@dataclass(frozen=True)
class Condition:
    """Which rows are read: those whose column equals this value, or those whose column differs."""

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
    """auto, or one of aol, excite, csv, tsv, ndjson, parquet, excel, access, elastic, ubi, ga4,
    matomo, algolia."""
    columns: Mapping[str, str] | None = setting(None, flag=None)
    """Which column of a CSV, TSV, NDJSON or Parquet log is user, time, query and click."""
    time_zone: str = UTC
    """Time zone of times written without an offset, e.g. Europe/Berlin."""
    max_rejected: float = setting(0.05, panel=TUNING)
    """A larger share of unreadable rows stops the job."""
    excerpts: bool = setting(True, flag="--no-excerpts")
    """False: list rejected rows without their text."""
    encoding: str = "utf-8"
    """Encoding of text files, e.g. cp1252; UTF-16 is detected automatically."""
    parameter: str | None = None
    """Access logs: which parameter of an address is the query; q by default."""
    where: tuple[str, ...] = setting((), metavar="COLUMN=VALUE")
    """Keep only rows in which a column of the log has a value (column=value) or another one
    (column!=value); repeatable. Surrounding blanks are ignored."""

    def conditions(self) -> tuple[Condition, ...]:
        """What `where` says."""
        return tuple(map(Condition.parse, self.where))

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        self.conditions()
        if self.time_zone != UTC:
            # Imported late: the command line reads the defaults of this class without Polars.
            from nextquery.logs.reading.times import check_time_zone

            check_time_zone(self.time_zone)
        check_encoding(self.encoding)
        if not 0 <= self.max_rejected <= 1:
            raise InputError(f"`max_rejected` {self.max_rejected}: give a share from 0 to 1")


@dataclass(frozen=True)
class PrepareSettings:
    """Everything that decides what the data folder holds."""

    read: ReadSettings = field(default_factory=ReadSettings, metadata={"option": Option(flag=None)})
    idle_minutes: int = setting(30, least=1, most=1_000_000)
    """A pause of more minutes ends a session."""
    # A program that searches every minute never pauses; the longest session of a person in the logs
    # at hand had 269 queries.
    max_session_queries: int = setting(500, least=2, most=100_000, panel=TUNING)
    """A session of more queries is cut into several."""
    split_at: str | None = setting(None, metavar="T1,T2,T3")
    """Three times that end background, training and validation; by default the log's time is cut in
    the paper's proportions."""
    split_days: str | None = setting(None, metavar="D1,D2,D3")
    """Days of training, validation and test at the end of the log; the rest is background. For
    folders that `nextquery update` extends."""
    holdout_users: float = 0.0
    """Share of users kept for evaluation only."""
    vocabulary_size: int = setting(90_000, least=1, most=10**9, panel=TUNING)
    """How many of the most frequent words are kept."""
    min_users: int = setting(3, least=1, most=10**9)
    """K: a word or query of fewer users is never counted, learnt or suggested."""
    spelling: bool = setting(True, flag="--no-spelling")
    """False: do not correct spelling."""
    keep_personal_data: bool = False
    """Keep queries that look personal."""
    drop_urls: bool = False
    """Drop queries that look like addresses."""
    keep_robots: bool = False
    """Keep likely bots: visitors with more queries than a person types."""
    exclude_users: tuple[str, ...] = setting((), flag=None)
    """Users whose rows do not count, as the log names them, or `pseudonym:NUMBER` as the data
    folder does."""
    # In the AOL log this leaves out 0.9% of the searches.
    max_user_repeats: int = setting(5, least=1, most=10**9, panel=TUNING)
    """At most this many searches of one query by one user and day count in the background."""
    max_user_share: float = setting(0.01, panel=TUNING)
    """Largest share of the background's searches that one user may have; the newest count, and 20
    times the mean is always allowed."""
    recogniser: "Recogniser | None" = setting(None, flag=None)
    """A site's own rule of what is personal, asked for every distinct query as typed."""
    titles: str | None = setting(None, metavar="FILE[:COLUMN]")
    """Titles of what the site has, for completions and fill-in suggestions: one per line, a column
    of a CSV file, or a sitemap."""
    journal: bool = setting(True, flag="--no-journal")
    """False: keep no cleaned rows; then forget and update cannot be used."""
    engine: str = "polars"
    """polars, duckdb (larger than memory), spark (a cluster) or auto."""
    spark_master: str = "local[*]"
    """Master URL for --engine spark."""

    def __post_init__(self) -> None:
        """Refuse invalid values before hours of work."""
        check_limits(self)
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


@dataclass(frozen=True)
class TrendSettings:
    """What counts as a trend."""

    days: int = setting(7, least=1, most=3660)
    """The last days, which are compared with those before them."""
    past_days: int = setting(28, least=1, most=3660)
    """How many days before them."""
    rate: float = 0.05
    """The expected share of false trends among those named."""
    min_users: int | None = setting(None, least=1)
    """Users of the last days that a query needs; K of the data folder by default, and never
    fewer."""

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        check_limits(self)
        if not 0 < self.rate < 1:
            raise InputError(f"`rate` {self.rate}: give a share between 0 and 1")
