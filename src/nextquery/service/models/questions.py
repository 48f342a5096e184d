"""What a model can be asked: one frozen record per question, from the route to the engine.

To let clients decide one more thing about lists, add a field to `SuggestOptions`, to the schema of
the request, and use it in the engine.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from nextquery.records import QueryWeight, ScoredQuery, Suggestion
from nextquery.suggesters.diagnosis import Diagnosis

Context = tuple[str, ...]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class SuggestOptions:
    """How a list of suggestions is to be made."""

    n: int = 5
    """How many at most."""
    diversity: float = 0.0
    """0 takes the likeliest, 1 the most unlike each other."""
    specificity: float | None = None
    """How much what people type after anything is held back; None: as the model has it."""
    known: Literal["free", "prefer", "only"] | None = None
    """Queries that at least K users typed; None: as the model has it. Counts know no others."""
    usefulness: float = 0.0
    """How often log P(useful) is added to a value, by a model that has learnt it."""


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

    options: SuggestOptions = SuggestOptions()
    found_nothing: bool = False
    """Whether the last query had no results: the rescue then answers first."""

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
