"""One loaded model as the service asks it: questions in, lists out."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast

from nextquery.artifacts import MANIFEST, open_artifact, sha256
from nextquery.artifacts.files import FileStamp, file_stamp
from nextquery.errors import BlocklistError
from nextquery.guard.guard import Guard, read_hits
from nextquery.records import Correction, QueryWeight, ScoredQuery, Suggestion
from nextquery.suggesters.base import (
    Adjustable,
    Completer,
    Explainer,
    Guarded,
    ListMaker,
    Stateful,
    Suggester,
    SuggestOptions,
    UsefulnessJudge,
)
from nextquery.suggesters.diagnosis import Diagnosis, why
from nextquery.suggesters.loading import load
from nextquery.suggesters.rewriting import QueryRewriter, Synonyms

BLOCKLIST_POLL_INTERVAL = 0.25
SECONDS_BETWEEN_RETRIES = 10.0
"""A file that could not be taken is read again after this time even if it looks the same."""


@dataclass(frozen=True)
class BlocklistState:
    """Which list is in use, and what is wrong with the file if it could not be taken."""

    generation: int = 0
    """Grows with every list that is taken: answers of an earlier one must not be remembered."""
    problem: str | None = None


class BlocklistWatch:
    """Reloads one guard's blocklist when its file changes."""

    def __init__(self, guard: Guard, path: Path) -> None:
        self.state = BlocklistState()
        self._guard = guard
        self._path = path
        self._seen: FileStamp | None = (-1, -1, -1, -1)  # the guard may have read it a while ago
        self._retry_at = float("inf")
        self._ending = threading.Event()

    def start(self) -> None:
        """Check the file in a thread until `stop`."""
        threading.Thread(target=self._run, name="blocklist", daemon=True).start()

    def stop(self) -> None:
        """Stop checking the file."""
        self._ending.set()

    def reload_if_changed(self) -> None:
        """Reload a changed file; if that fails, keep the old list and try again later."""
        stamp = file_stamp(self._path)
        if stamp == self._seen and time.monotonic() < self._retry_at:
            return
        self._seen, self._retry_at = stamp, float("inf")
        try:
            changed = self._guard.reload()
        except BlocklistError as error:
            self.state = BlocklistState(self.state.generation, str(error))
            self._retry_at = time.monotonic() + SECONDS_BETWEEN_RETRIES
        else:
            self.state = BlocklistState(self.state.generation + changed)

    def _run(self) -> None:
        while not self._ending.wait(BLOCKLIST_POLL_INTERVAL):
            self.reload_if_changed()


Context = tuple[str, ...]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Question(Generic[Answer]):
    """Base of all questions: the session so far, oldest query first."""

    context: Context

    @property
    def group(self) -> Hashable:
        """Questions of one group can be answered in one call; these are answered one by one."""
        return self


@dataclass(frozen=True)
class SuggestQuestion(Question[list[Suggestion]]):
    """What may come next?"""

    options: SuggestOptions = field(default_factory=SuggestOptions)
    found_nothing: bool = False
    """Whether the last query had no results: the rescue then answers first."""
    typed: Context = ()
    """The session as it was typed, where `context` was corrected."""
    correction: Correction | None = None
    """What was changed in the last query."""

    @property
    def session(self) -> Context:
        """The session as it is stored and recorded: as it was typed."""
        return self.typed or self.context

    @property
    def group(self) -> Hashable:
        """Lists made in the same way are decoded together."""
        return self.options


@dataclass(frozen=True)
class CompleteQuestion(Question[list[Suggestion]]):
    """How may a half-typed query end?"""

    prefix: str
    n: int = 5


@dataclass(frozen=True)
class ScoreQuestion(Question[list[ScoredQuery]]):
    """How likely is each candidate to come next?"""

    candidates: tuple[str, ...]


@dataclass(frozen=True)
class ExplainQuestion(Question[list[QueryWeight]]):
    """How much does each query of the session count?"""


@dataclass(frozen=True)
class WhyQuestion(Question[Diagnosis]):
    """Can a query be suggested, and why not?"""

    query: str


WARM_UP = 4
"""Batches of up to this number of contexts are decoded before the first request: each size that is
new to the kernels takes some milliseconds more than later."""
SECONDS_OF_SILENCE = 3.0
"""A model that has not answered for this long counts as unavailable."""


class Served(Suggester, Completer, Guarded, Protocol):
    """A suggester as `load` gives it: every kind completes and has a guard."""


@dataclass(frozen=True)
class Facts:
    """What was opened, and what it can do."""

    kind: str
    version: str
    explains: bool
    """Whether it can say how much each query of a session counts."""
    judges_usefulness: bool
    """Whether it has learnt how likely a query is useful."""
    specificity: float
    """How much globally popular queries are held back, unless a question says otherwise."""
    min_users: int
    """K of the guard: what fewer users typed is not shown."""


class Engine(ABC):
    """A model folder, opened, checked and warmed up."""

    facts: Facts
    blocklist = BlocklistState()
    """The current blocklist."""
    immediate = False
    """Whether it answers an ordinary question in less time than it takes to hand it over."""
    restarts = 0
    """How often a model that ended was started again."""
    rewriter: QueryRewriter | None = None
    """Corrects what visitors type, after `open_rewriter`."""
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

    @abstractmethod
    def open_rewriter(self, synonyms: Synonyms | None) -> None:
        """Open what corrects the texts of visitors, in this process."""

    def check(self) -> None:
        """Check that it runs, in the thread that asks it; restart it if it has ended."""
        return

    def kill(self) -> None:
        """End what it computes now, if that is possible."""
        return

    def cancel(self) -> None:
        """Nobody waits for the present answer any more: stop soon, if that is possible."""
        return

    @abstractmethod
    def close(self) -> None:
        """Release what the model holds; it is not asked any more."""


class LocalEngine(Engine):
    """A model in this process, asked for one list after the other."""

    def __init__(self, suggester: Served, version: str, blocklist: Path | None = None) -> None:
        self.suggester = suggester
        specificity = suggester.specificity if isinstance(suggester, Adjustable) else 0.0
        if isinstance(suggester, Stateful):
            specificity = suggester.config.specificity
        self.facts = Facts(
            kind=suggester.kind,
            version=version,
            explains=isinstance(suggester, Explainer),
            judges_usefulness=(
                isinstance(suggester, UsefulnessJudge) and suggester.judges_usefulness
            ),
            specificity=specificity,
            min_users=suggester.guard.tables.min_users,
        )
        self.immediate = not isinstance(suggester, Stateful)
        self._maker = ListMaker(suggester)
        self._watch = BlocklistWatch(suggester.guard, blocklist) if blocklist else None
        if self._watch is not None:
            self._watch.start()

    @property
    def blocklist(self) -> BlocklistState:  # type: ignore[override]
        """The current blocklist."""
        return self._watch.state if self._watch is not None else BlocklistState()

    def answer(self, questions: Sequence[Question[Any]]) -> list[Any]:
        """An answer to each question of one group."""
        if isinstance(questions[0], SuggestQuestion):
            contexts = [question.context for question in questions]
            return self._maker.lists(contexts, questions[0].options)
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
        raise TypeError(f"{self.facts.kind} cannot answer a {type(question).__name__}")

    def open_rewriter(self, synonyms: Synonyms | None) -> None:
        """Correct texts by the tables of the model's guard."""
        self.rewriter = QueryRewriter(self.suggester.guard, synonyms)

    def blocked(self) -> Mapping[str, int]:
        """How often each rule of the guard held something back."""
        return {str(reason): count for reason, count in self.suggester.guard.blocked().items()}

    def close(self) -> None:
        """Stop checking the blocklist; memory is freed with the object."""
        if self._watch is not None:
            self._watch.stop()


def version_of(path: Path) -> str:
    """What a model folder's version is called: it changes with every file of the folder."""
    return sha256(path / MANIFEST)[:12]


def open_engine(path: Path, blocklist: Path | None, hits: Path | None = None) -> LocalEngine:
    """Open a model folder: every file is checked, then first lists are made."""
    open_artifact(path, verify=False).verify()
    check = read_hits(hits) if hits else None
    suggester = cast("Served", load(path, blocklist=blocklist, hits=check))
    engine = LocalEngine(suggester, version_of(path), blocklist)
    for size in range(1, WARM_UP + 1):
        engine.answer([SuggestQuestion(("warm up", str(number))) for number in range(size)])
    return engine
