"""How much an export writes."""

from dataclasses import dataclass

from nextquery.errors import InputError


@dataclass(frozen=True)
class ExportSettings:
    """How much leaves the model."""

    queries: int = 10_000
    """The most frequent queries that are written."""
    next_queries: int = 8
    """How many next queries each of them gets, at most."""

    def __post_init__(self) -> None:
        for name in ("queries", "next_queries"):
            if getattr(self, name) < 1:
                raise InputError(f"`{name}` {getattr(self, name)}: must be at least 1")
