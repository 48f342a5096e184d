"""What is decided about reading feedback. Knows names and bounds; reads nothing."""

import re
from dataclasses import dataclass

from nextquery.errors import InputError

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class Bounds:
    """Which lists count: how many of a day (0 sets no bound), and of which days."""

    per_visitor: int = 100
    """Lists of one visitor."""
    per_origin: int = 2000
    """Lists of one origin. Where all visitors come through one proxy, they are one origin."""
    since: str = ""
    """The first day that counts, as `2026-05-01`."""
    until: str = ""
    """The last day that counts."""

    def __post_init__(self) -> None:
        for name in ("per_visitor", "per_origin"):
            if getattr(self, name) < 0:
                raise InputError(f"`{name}` {getattr(self, name)}: must be 0 or more")
        for name in ("since", "until"):
            given = getattr(self, name)
            if given and not _DAY.fullmatch(given):
                raise InputError(f"`{name}` {given}: write a day as 2026-05-01")


@dataclass(frozen=True)
class ReportSettings:
    """What a report shows."""

    min_visitors: int = 3
    """Queries of fewer visitors are not named."""
    min_shown: int = 50
    """A query's list must have been shown so often to be named as never taken."""
    queries: int = 50
    """How many queries are named."""

    def __post_init__(self) -> None:
        for name in ("min_visitors", "min_shown", "queries"):
            if getattr(self, name) < 1:
                raise InputError(f"`{name}` {getattr(self, name)}: must be at least 1")


@dataclass(frozen=True)
class CompareSettings:
    """What is stated before a trial: how sure to be, and of how small a difference."""

    alpha: float = 0.05
    """How often, at most, a winner may be named where there is none, however often one looks."""
    power: float = 0.95
    """How often a difference of `smallest_effect` is to be found before the trial ends."""
    smallest_effect: float = 0.2
    """The smallest relative difference in acceptance worth knowing."""

    def __post_init__(self) -> None:
        for name in ("alpha", "power"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(f"`{name}` {getattr(self, name)}: must lie between 0 and 1")
        if not 0 < self.smallest_effect <= 10:
            raise InputError(
                f"`smallest_effect` {self.smallest_effect}: must lie above 0, up to 10"
            )


@dataclass(frozen=True)
class RerankSettings:
    """From how much feedback a re-ranker is made."""

    min_taken: int = 500
    """Fewer taken suggestions are not learnt from."""
    min_visitors: int = 3
    """What fewer visitors were shown is not remembered."""

    def __post_init__(self) -> None:
        for name in ("min_taken", "min_visitors"):
            if getattr(self, name) < 1:
                raise InputError(f"`{name}` {getattr(self, name)}: must be at least 1")
