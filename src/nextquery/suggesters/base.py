"""The protocol of every suggester. Knows no model; count models and HRED both follow it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from nextquery.records import ScoredQuery, Suggestion


@runtime_checkable
class Suggester(Protocol):
    """Anything that proposes and scores next queries.

    A context is the session so far, oldest query first, as the user typed it: the suggester
    normalises it. The last query is the anchor. An empty context is allowed.
    """

    kind: str
    """The artifact kind: `popularity`, `adjacency`, `qvmm`, `cacb`, `shortcuts`, `hred`."""

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        """At most `n` suggestions, best first, ties by text; never a query of the context."""
        ...

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        """The natural-log likelihood of each candidate given the context, in the given order."""
        ...

    def save(self, path: Path) -> None:
        """Publish the suggester as an artifact folder of its kind."""
        ...
