"""One loaded model as the service asks it: batches in, lists out, guarded, contexts encoded once.

Runs in the model's own thread. Knows what a suggester can do beyond the protocol; knows nothing of
queues or HTTP.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from nextquery.artifacts import MANIFEST, open_artifact, sha256
from nextquery.guard.guard import Guard
from nextquery.guard.tables import FOLDER as GUARD_FOLDER
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

    def __init__(self, suggester: Suggester, guard: Guard, version: str) -> None:
        self.suggester = suggester
        self.guard = guard
        self.version = version

    @classmethod
    def open(cls, path: Path, blocklist: Path | None) -> "Engine":
        """Open a model folder: every file is checked, then a first list is made."""
        artifact = open_artifact(path)
        artifact.verify()
        suggester = load(path)
        engine = cls(suggester, open_guard(path, blocklist), sha256(path / MANIFEST)[:12])
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
        """A guarded list for each context."""
        return [self._guarded(context, self.suggester.suggest(context, n)) for context in contexts]

    def score(self, context: Context, candidates: Sequence[str]) -> list[ScoredQuery]:
        """The log-likelihood of each candidate."""
        return self.suggester.score(context, candidates)

    def complete(self, context: Context, prefix: str, n: int) -> list[Suggestion]:
        """Guarded completions of a prefix."""
        suggester: Any = self.suggester
        return self._guarded(context, suggester.complete(context, prefix, n))

    def explain(self, context: Context) -> list[tuple[str, float]]:
        """Each query of the context with its weight."""
        suggester: Any = self.suggester
        return list(suggester.explain(context))

    def _guarded(self, context: Context, found: Sequence[Suggestion]) -> list[Suggestion]:
        return [item for item in found if self.guard.allows(item.text, context)]


def open_guard(path: Path, blocklist: Path | None) -> Guard:
    """The guard of a model folder; one without tables has the blocklist only."""
    if (path / GUARD_FOLDER).is_dir():
        return Guard.open(path, blocklist)
    return Guard(blocklist=blocklist)


Loader = Callable[[Path, Path | None], Engine]
