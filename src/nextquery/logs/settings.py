"""What decides the contents of a data folder.

Nothing heavy is imported here, so that the command line takes its defaults from these classes.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nextquery.errors import InputError
from nextquery.logs.reading.settings import ReadSettings

if TYPE_CHECKING:
    from nextquery.logs.stages.privacy import Recogniser

_LARGEST = {"idle_minutes": 1_000_000, "vocabulary_size": 10**9, "min_users": 10**9}


@dataclass(frozen=True)
class PrepareSettings:
    """Everything that decides what the data folder holds."""

    read: ReadSettings = field(default_factory=ReadSettings)
    idle_minutes: int = 30
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
    """Whether visitors that no person can be stay in (`stages/robots.py` has the rule)."""
    recogniser: "Recogniser | None" = None
    """A site's own rule of what is personal, asked for every distinct query as typed."""
    journal: bool = True
    """Whether the cleaned rows are kept, without which nobody can be forgotten or days added."""
    engine: str = "polars"
    spark_master: str = "local[*]"

    def __post_init__(self) -> None:
        """Refuse values that make no sense before hours of work."""
        for name, most in _LARGEST.items():
            if not 1 <= getattr(self, name) <= most:
                raise InputError(f"`{name}`: must be 1 or more, and at most {most:,}")
        if self.split_at and self.split_days:
            raise InputError("`split_at` and `split_days` exclude each other; choose one")
        if not 0 <= self.holdout_users < 1:
            raise InputError(f"`holdout_users` {self.holdout_users}: give a share below 1")
        if self.keep_personal_data and self.recogniser is not None:
            raise InputError("`recogniser`: has no effect with `keep_personal_data`; choose one")
