"""One loaded model as the service asks it: batches in, lists out, each query encoded once.

Knows what a model can do beyond the protocol; knows nothing of queues, processes or HTTP.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from nextquery.artifacts import MANIFEST, open_artifact, sha256
from nextquery.guard.guard import Guard
from nextquery.records import QueryWeight, ScoredQuery, Suggestion
from nextquery.service.frequent import LISTS_LOOKED_AT, FrequentCompletion, diverse
from nextquery.service.lru_cache import LruCache
from nextquery.suggesters.base import Suggester
from nextquery.suggesters.loading import load

if TYPE_CHECKING:  # count models are served without torch
    from nextquery.inference.contexts import ContextState
    from nextquery.suggesters.neural import HREDSuggester

Context = tuple[str, ...]
WARM_UP = 4
"""Batches of up to so many contexts are decoded before the first request: each size that is new to
the kernels takes some milliseconds more than later."""


class Guarded(Suggester, Protocol):
    """A suggester as `load` gives it: behind a guard."""

    guard: Guard


class Engine(ABC):
    """A model folder, opened, checked and warmed up."""

    kind: str
    version: str
    guard: Guard
    """Holds the blocklist of the moment."""
    explains = False
    """Whether it can say how much each query of a session counts."""
    states_found = 0
    states_missed = 0
    """How often the session's earlier queries were already encoded, and how often not."""

    @abstractmethod
    def suggest(
        self, contexts: Sequence[Context], n: int, diversity: float
    ) -> list[list[Suggestion]]:
        """A list for each context."""

    @abstractmethod
    def complete(self, context: Context, prefix: str, n: int) -> list[Suggestion]:
        """How a half-typed query may end."""

    @abstractmethod
    def explain(self, context: Context) -> list[QueryWeight]:
        """How much each query of the context counts."""

    @abstractmethod
    def score(self, context: Context, candidates: Sequence[str]) -> list[ScoredQuery]:
        """The log-likelihood of each candidate."""

    @abstractmethod
    def blocked(self) -> Mapping[str, int]:
        """How often each rule of the guard held something back."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what the model holds; it is not asked any more."""


class LocalEngine(Engine):
    """A model in this process."""

    def __init__(self, suggester: Guarded, version: str) -> None:
        self.suggester = suggester
        self.kind = suggester.kind
        self.guard = suggester.guard
        self.version = version

    def score(self, context: Context, candidates: Sequence[str]) -> list[ScoredQuery]:
        """The log-likelihood of each candidate."""
        return self.suggester.score(context, candidates)

    def blocked(self) -> Mapping[str, int]:
        """How often each rule of the guard held something back."""
        return {str(reason): count for reason, count in self.guard.blocked().items()}

    def close(self) -> None:
        """Nothing: memory goes with the object."""


class CountEngine(LocalEngine):
    """A model that looks up counts."""

    def __init__(self, suggester: Guarded, version: str) -> None:
        super().__init__(suggester, version)
        self._completion = FrequentCompletion(suggester, self.guard)

    def suggest(
        self, contexts: Sequence[Context], n: int, diversity: float
    ) -> list[list[Suggestion]]:
        """A list for each context."""
        if not diversity:
            return [self.suggester.suggest(context, n) for context in contexts]
        wider = n * LISTS_LOOKED_AT
        return [diverse(self.suggester.suggest(item, wider), n, diversity) for item in contexts]

    def complete(self, context: Context, prefix: str, n: int) -> list[Suggestion]:
        """Known queries with this beginning."""
        return self._completion.complete(context, prefix, n)

    def explain(self, context: Context) -> list[QueryWeight]:
        """Counts have no gates; the routes ask `explains` first."""
        raise NotImplementedError


class NeuralEngine(LocalEngine):
    """HRED: contexts decoded together, encoded states kept, so that only new queries are read."""

    explains = True

    def __init__(self, suggester: "HREDSuggester", version: str, cache_size: int) -> None:
        super().__init__(suggester, version)
        self._hred = suggester
        self._states: LruCache[Context, ContextState] = LruCache(cache_size)

    def suggest(
        self, contexts: Sequence[Context], n: int, diversity: float
    ) -> list[list[Suggestion]]:
        """A list for each context, all decoded in one batch."""
        config = self._hred.config
        wanted = {"diversity": diversity, "beam": max(config.beam, n)}
        states = self._encoded(contexts)
        return self._hred.suggest_after(states, n, config=config.model_copy(update=wanted))

    def complete(self, context: Context, prefix: str, n: int) -> list[Suggestion]:
        """Queries decoded under the condition that they begin so."""
        return self._hred.complete(context, prefix, n)

    def explain(self, context: Context) -> list[QueryWeight]:
        """The session's update gates."""
        return self._hred.explain(context)

    @property
    def states_kept(self) -> int:
        """How many encoded contexts are kept."""
        return len(self._states)

    def _encoded(self, contexts: Sequence[Context]) -> "list[ContextState]":
        """The states of sessions; where a beginning is known, only the rest is encoded."""
        known = [self._longest_known(context) for context in contexts]
        new = [context for context, (state, _) in zip(contexts, known, strict=True) if not state]
        fresh = iter(self._hred.encode_many(new))
        self.states_missed += len(new)
        self.states_found += len(contexts) - len(new)
        states = []
        for context, (state, length) in zip(contexts, known, strict=True):
            reached = state or next(fresh)
            for query in context[length:] if state else ():
                reached = self._hred.extend(reached, query)
            self._states.put(context, reached)
            states.append(reached)
        return states

    def _longest_known(self, context: Context) -> "tuple[ContextState | None, int]":
        for length in range(len(context), 0, -1):
            state = self._states.get(context[:length])
            if state is not None:
                return state, length
        return None, 0


def open_engine(path: Path, blocklist: Path | None, cache_size: int) -> LocalEngine:
    """Open a model folder: every file is checked, then first lists are made."""
    open_artifact(path).verify()
    suggester = cast("Guarded", load(path, blocklist=blocklist))
    version = sha256(path / MANIFEST)[:12]
    engine: LocalEngine = CountEngine(suggester, version)
    if suggester.kind == "hred":
        from nextquery.suggesters.neural import HREDSuggester

        assert isinstance(suggester, HREDSuggester)
        engine = NeuralEngine(suggester, version, cache_size)
    for size in range(1, WARM_UP + 1):
        engine.suggest([("warm up", str(number)) for number in range(size)], 5, 0.0)
    return engine
