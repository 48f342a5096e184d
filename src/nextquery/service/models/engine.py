"""One loaded model as the service asks it: batches in, lists out, each query encoded once.

Knows what a model can do; knows nothing of queues, processes or HTTP.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from nextquery.artifacts import MANIFEST, open_artifact, sha256
from nextquery.records import Suggestion
from nextquery.service.lru_cache import LruCache
from nextquery.service.models.blocklist_watch import BlocklistState, BlocklistWatch
from nextquery.service.models.questions import (
    Answer,
    CompleteQuestion,
    Context,
    ExplainQuestion,
    Question,
    ScoreQuestion,
    SuggestOptions,
    SuggestQuestion,
    WhyQuestion,
)
from nextquery.suggesters.base import (
    Adjustable,
    Completer,
    Explainer,
    Guarded,
    Stateful,
    Suggester,
    UsefulnessJudge,
)
from nextquery.suggesters.diagnosis import why
from nextquery.suggesters.loading import load

WARM_UP = 4
"""Batches of up to so many contexts are decoded before the first request: each size that is new to
the kernels takes some milliseconds more than later."""
SECONDS_OF_SILENCE = 3.0
"""A model that answers nothing for so long cannot be relied upon now."""


class Served(Suggester, Completer, Guarded, Protocol):
    """A suggester as `load` gives it: every kind completes and stands behind a guard."""


class ServedWithStates(Served, Stateful[Any], Protocol):
    """One that reads only the new queries of a session."""


class Engine(ABC):
    """A model folder, opened, checked and warmed up."""

    kind: str
    version: str
    blocklist = BlocklistState()
    """The blocklist of the moment."""
    immediate = False
    """Whether it answers an ordinary question in less time than it takes to hand it over."""
    explains = False
    """Whether it can say how much each query of a session counts."""
    judges_usefulness = False
    """Whether it has learnt how likely a query is useful."""
    specificity = 0.0
    """How much what people type after anything is held back, unless a question says otherwise."""
    min_users = 1
    """K of the guard: what fewer users typed is not shown."""
    states_found = 0
    states_missed = 0
    """How often the session's earlier queries were already encoded, and how often not."""
    restarts = 0
    """How often a model that ended was started again."""
    _loading = False

    @property
    def silent_for(self) -> float:
        """Seconds since it was asked something that it has not answered, where that can be told."""
        return 0.0

    @property
    def available(self) -> bool:
        """Whether it can be expected to answer."""
        return not self._loading and self.silent_for < SECONDS_OF_SILENCE

    @abstractmethod
    def answer(self, questions: Sequence[Question[Answer]]) -> list[Answer]:
        """An answer to each question of one group."""

    @abstractmethod
    def blocked(self) -> Mapping[str, int]:
        """How often each rule of the guard held something back."""

    def check(self) -> None:
        """Look whether it lives, in the thread that asks it; what has ended is started again."""
        return

    def kill(self) -> None:
        """End what it does now, if that can be done."""
        return

    def give_up(self) -> None:
        """Nobody waits for what is being computed any more: end that soon, if it can be done."""
        return

    @abstractmethod
    def close(self) -> None:
        """Let go of what the model holds; it is not asked any more."""


class LocalEngine(Engine):
    """A model in this process, asked for one list after the other."""

    immediate = True

    def __init__(self, suggester: Served, version: str, blocklist: Path | None = None) -> None:
        self.suggester = suggester
        self.kind = suggester.kind
        self.version = version
        self.explains = isinstance(suggester, Explainer)
        if isinstance(suggester, UsefulnessJudge):
            self.judges_usefulness = suggester.judges_usefulness
        self.min_users = suggester.guard.tables.min_users
        # Asked once: to see whether an object has what a protocol names takes as long as a look-up.
        self._adjustable = suggester if isinstance(suggester, Adjustable) else None
        if self._adjustable is not None:
            self.specificity = self._adjustable.specificity
        self._watch = BlocklistWatch(suggester.guard, blocklist) if blocklist else None
        if self._watch is not None:
            self._watch.start()

    @property
    def blocklist(self) -> BlocklistState:  # type: ignore[override]
        """The blocklist of the moment."""
        return self._watch.state if self._watch is not None else BlocklistState()

    def answer(self, questions: Sequence[Question[Any]]) -> list[Any]:
        """An answer to each question of one group."""
        match questions[0]:
            case SuggestQuestion(options=options):
                return self.suggest([question.context for question in questions], options)
            case _:
                return [self._answer_one(question) for question in questions]

    def _answer_one(self, question: Question[Any]) -> Any:
        match question:
            case CompleteQuestion(context, prefix, n):
                return self.suggester.complete(context, prefix, n)
            case ScoreQuestion(context, candidates):
                return self.suggester.score(context, candidates)
            case WhyQuestion(context, query):
                return why(self.suggester, query, context)
            case ExplainQuestion(context) if isinstance(self.suggester, Explainer):
                return self.suggester.explain(context)
        raise TypeError(f"{self.kind} cannot answer a {type(question).__name__}")

    def suggest(
        self, contexts: Sequence[Context], options: SuggestOptions
    ) -> list[list[Suggestion]]:
        """A list for each context."""
        specificity, diversity = options.specificity, options.diversity
        assert self._adjustable is not None, f"{self.kind} takes no options"
        return [
            self._adjustable.suggest(
                context, options.n, specificity=specificity, diversity=diversity
            )
            for context in contexts
        ]

    def blocked(self) -> Mapping[str, int]:
        """How often each rule of the guard held something back."""
        return {str(reason): count for reason, count in self.suggester.guard.blocked().items()}

    def close(self) -> None:
        """Look at no blocklist any more; memory goes with the object."""
        if self._watch is not None:
            self._watch.stop()


class StatefulEngine(LocalEngine):
    """Contexts are decoded together and their states kept, so that only new queries are read."""

    immediate = False

    def __init__(
        self,
        suggester: ServedWithStates,
        version: str,
        cache_size: int,
        blocklist: Path | None = None,
    ) -> None:
        super().__init__(suggester, version, blocklist)
        self._model = suggester
        self.specificity = suggester.config.specificity
        self._states: LruCache[Context, Any] = LruCache(cache_size)

    def suggest(
        self, contexts: Sequence[Context], options: SuggestOptions
    ) -> list[list[Suggestion]]:
        """A list for each context, all decoded in one batch."""
        config = self._model.config
        asked = {"specificity": options.specificity, "known": options.known}
        wanted = {key: value for key, value in asked.items() if value is not None}
        wanted["diversity"] = options.diversity
        if self.judges_usefulness and options.usefulness:
            wanted["usefulness"] = options.usefulness
        states = self._encoded(contexts)
        return self._model.suggest_after(states, options.n, config=config.model_copy(update=wanted))

    @property
    def states_kept(self) -> int:
        """How many encoded contexts are kept."""
        return len(self._states)

    def _encoded(self, contexts: Sequence[Context]) -> list[Any]:
        """The states of sessions; where a beginning is known, only the rest is encoded."""
        known = [self._longest_known(context) for context in contexts]
        new = [context for context, (state, _) in zip(contexts, known, strict=True) if not state]
        fresh = iter(self._model.encode_many(new))
        self.states_missed += len(new)
        self.states_found += len(contexts) - len(new)
        states = []
        for context, (state, length) in zip(contexts, known, strict=True):
            reached = state or next(fresh)
            for query in context[length:] if state else ():
                reached = self._model.extend(reached, query)
            self._states.put(context, reached)
            states.append(reached)
        return states

    def _longest_known(self, context: Context) -> tuple[Any | None, int]:
        for length in range(len(context), 0, -1):
            state = self._states.get(context[:length])
            if state is not None:
                return state, length
        return None, 0


def open_engine(path: Path, blocklist: Path | None, cache_size: int) -> LocalEngine:
    """Open a model folder: every file is checked, then first lists are made."""
    open_artifact(path, verify=False).verify()
    suggester = cast("Served", load(path, blocklist=blocklist))
    version = sha256(path / MANIFEST)[:12]
    engine: LocalEngine
    if isinstance(suggester, Stateful):
        stateful = cast("ServedWithStates", suggester)
        engine = StatefulEngine(stateful, version, cache_size, blocklist)
    else:
        engine = LocalEngine(suggester, version, blocklist)
    for size in range(1, WARM_UP + 1):
        engine.suggest([("warm up", str(number)) for number in range(size)], SuggestOptions())
    return engine
