"""Settings for reading feedback, reports, comparisons and re-rankers."""

import re
from dataclasses import dataclass

from nextquery.errors import InputError
from nextquery.settings import check_limits, setting

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class Bounds:
    """Which lists count: daily limits (0: no limit) and the range of days."""

    per_visitor: int = setting(100, least=0)
    """Lists of one visitor and day that count; 0: all."""
    per_origin: int = setting(2000, least=0)
    """Lists of one origin and day that count; 0: all. Visitors behind one proxy are one origin."""
    since: str = setting("", metavar="DAY")
    """The first day that counts, as 2026-05-01."""
    until: str = setting("", metavar="DAY")
    """The last day that counts."""

    def __post_init__(self) -> None:
        check_limits(self)
        for name in ("since", "until"):
            day = getattr(self, name)
            if day and not _DAY.fullmatch(day):
                raise InputError(f"`{name}` {day}: write a day as 2026-05-01")


@dataclass(frozen=True)
class ReportSettings:
    """What a report shows."""

    min_visitors: int = setting(3, least=1)
    """Queries with fewer visitors are not shown."""
    min_shown: int = setting(50, least=1)
    """Lists needed before a query is reported as never accepted."""
    queries: int = setting(50, least=1)
    """Number of queries in the report."""

    def __post_init__(self) -> None:
        check_limits(self)


@dataclass(frozen=True)
class CompareSettings:
    """Error rates and smallest effect, fixed before a trial."""

    alpha: float = 0.05
    """Maximum false-positive rate, however often one looks."""
    power: float = 0.95
    """Probability of detecting a difference of `smallest_effect`."""
    smallest_effect: float = 0.2
    """Smallest relative difference in acceptance that matters."""

    def __post_init__(self) -> None:
        for name in ("alpha", "power"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(f"`{name}` {getattr(self, name)}: must be between 0 and 1")
        if not 0 < self.smallest_effect <= 10:
            raise InputError(
                f"`smallest_effect` {self.smallest_effect}: must be above 0 and at most 10"
            )


@dataclass(frozen=True)
class RerankSettings:
    """Feedback needed to train a re-ranker."""

    min_taken: int = setting(500, least=1)
    """Accepted suggestions that are needed to learn."""
    min_visitors: int = setting(3, least=1)
    """Pairs shown to fewer visitors are not stored."""

    def __post_init__(self) -> None:
        check_limits(self)
