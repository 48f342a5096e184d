"""One loaded model as the service asks it: batches in, lists out, contexts encoded once.

Runs in the model's own thread. Knows what a suggester can do beyond the protocol; knows nothing of
queues or HTTP.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from nextquery.artifacts import MANIFEST, open_artifact, sha256
from nextquery.guard.guard import Guard
from nextquery.records import ScoredQuery, Suggestion
from nextquery.suggesters.base import Suggester
from nextquery.suggesters.loading import load

Context = tuple[str, ...]


@runtime_checkable
class Completes(Protocol):
    """A suggester that finishes half-typed queries."""

    def complete(self, context: Sequence[str], prefix: str, n: int = 5) -> list[Suggestion]:
        """At most `n` queries that begin with `prefix`, best first."""
        ...


class Engine:
    """A model folder, opened, checked and warmed up."""

    def __init__(self, suggester: Suggester, version: str) -> None:
        self.suggester = suggester
        self.guard: Guard = _guard_of(suggester)
        self.version = version

    @classmethod
    def open(cls, path: Path, blocklist: Path | None) -> "Engine":
        """Open a model folder: every file is checked, then a first list is made."""
        artifact = open_artifact(path)
        artifact.verify()
        engine = cls(load(path, blocklist=blocklist), sha256(path / MANIFEST)[:12])
        engine.suggest([("warm up",)], 5, 0.0)
        return engine

    @property
    def completes(self) -> bool:
        """Whether it finishes half-typed queries."""
        return isinstance(self.suggester, Completes)

    @property
    def explains(self) -> bool:
        """Whether it can say how much each query of a session counts."""
        return hasattr(self.suggester, "explain")

    def suggest(
        self, contexts: Sequence[Context], n: int, diversity: float
    ) -> list[list[Suggestion]]:
        """A list for each context."""
        return [self.suggester.suggest(context, n) for context in contexts]

    def score(self, context: Context, candidates: Sequence[str]) -> list[ScoredQuery]:
        """The log-likelihood of each candidate."""
        return self.suggester.score(context, candidates)

    def complete(self, context: Context, prefix: str, n: int) -> list[Suggestion]:
        """Completions of a prefix."""
        suggester: Any = self.suggester
        return list(suggester.complete(context, prefix, n))

    def explain(self, context: Context) -> list[tuple[str, float]]:
        """Each query of the context with its weight."""
        suggester: Any = self.suggester
        return list(suggester.explain(context))


def _guard_of(suggester: Any) -> Guard:
    guard: Guard = suggester.guard
    return guard
