"""What a model can do, as protocols. Code that needs a capability asks for it, never for a kind.

`ListMaker` uses them to make lists, in the same way for `nextquery suggest` and the service.

    Suggester         suggests, scores and can be saved: every model of a folder
    Scorer            gives likelihoods: all that ranking needs of a system
    BatchSuggester    suggests for many contexts together
    BatchScorer       scores many contexts together
    Completer         finishes a half-typed query
    Adjustable        makes lists more specific or more diverse, call by call
    Decoding          suggests under a decode config (beam, specificity, diversity, ...)
    Stateful          keeps a session as a state, so that only a new query is read
    Explainer         says how much each query of a session counts
    Gated             has session update gates (HRED)
    Embedder          has a vector for every word and query
    Guarded           shows nothing that its guard refuses
    Wrapping          orders the suggestions of another model
    Trained           what a blend and the service need of a trained model
    UsefulnessJudge   says how likely a query is useful after a session

A context is a session so far, oldest query first, as the user typed it: the model normalises it.
The last query is the anchor. An empty context is allowed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts import Artifact, further_entries, publish
from nextquery.errors import InputError
from nextquery.guard.guard import Guard
from nextquery.inference.settings import DecodeConfig
from nextquery.records import Known, Neighbour, QueryWeight, ScoredQuery, Suggestion
from nextquery.text.vocabulary import Vocabulary

Floats = NDArray[np.float32]
State = TypeVar("State")


@runtime_checkable
class Scorer(Protocol):
    """The part of a suggester that ranking needs; a system of one's own needs no more."""

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        """The natural-log likelihood of each candidate given the context, in the given order."""
        ...


@runtime_checkable
class Suggester(Scorer, Protocol):
    """Anything that proposes and scores next queries and lives in a model folder."""

    kind: str
    """The artifact kind, as in the table of `suggesters/loading.py`."""

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        """At most `n` suggestions, best first, ties by text; never a query of the context."""
        ...

    def save(self, path: Path) -> None:
        """Publish the suggester as an artifact folder of its kind."""
        ...


@runtime_checkable
class BatchSuggester(Protocol):
    """A suggester that suggests for many contexts faster together than one by one."""

    def suggest_many(self, contexts: Sequence[Sequence[str]], n: int = 5) -> list[list[Suggestion]]:
        """What `suggest` gives for each context."""
        ...


@runtime_checkable
class BatchScorer(Protocol):
    """A suggester that scores many contexts faster together than one by one."""

    def score_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """What `score` gives for each context and its candidates."""
        ...


@runtime_checkable
class Completer(Protocol):
    """A suggester that finishes a half-typed query."""

    def complete(self, context: Sequence[str], prefix: str, n: int = 5) -> list[Suggestion]:
        """At most `n` queries that begin with `prefix`, best first; none of the context."""
        ...


@runtime_checkable
class Adjustable(Protocol):
    """A suggester whose lists can be made more specific or more diverse, call by call."""

    specificity: float
    """How much of its prior a query loses, unless a call asks otherwise."""

    def suggest(
        self,
        context: Sequence[str],
        n: int = 5,
        *,
        specificity: float | None = None,
        diversity: float = 0.0,
        known: Known | None = None,
    ) -> list[Suggestion]:
        """What `suggest` gives with other weights; None is the model's own."""
        ...


@runtime_checkable
class Decoding(Protocol):
    """A suggester whose lists are decoded under a config, which a call can replace."""

    config: DecodeConfig

    def suggest(
        self, context: Sequence[str], n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[Suggestion]:
        """What `suggest` gives under a config."""
        ...

    def suggest_many(
        self, contexts: Sequence[Sequence[str]], n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[list[Suggestion]]:
        """What `suggest` gives for each context under a config."""
        ...

    def complete(
        self, context: Sequence[str], prefix: str, n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[Suggestion]:
        """What `complete` gives under a config."""
        ...


@runtime_checkable
class Stateful(Protocol[State]):
    """A suggester that keeps a session as a state; what a state is made of is its own business."""

    config: DecodeConfig

    def encode_many(self, contexts: Sequence[Sequence[str]]) -> list[State]:
        """The state of each session, computed together."""
        ...

    def extend(self, state: State, query: str) -> State:
        """The state after one more query, which alone is encoded."""
        ...

    def suggest_after(
        self, states: Sequence[State], n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[list[Suggestion]]:
        """A list for each session whose state is known."""
        ...

    def score_after(
        self, states: Sequence[State], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """The likelihood of each candidate of each session whose state is known."""
        ...


@runtime_checkable
class Explainer(Protocol):
    """A suggester that says how much each query of a session counts."""

    def explain(self, context: Sequence[str]) -> list[QueryWeight]:
        """One weight per query of the context."""
        ...


@runtime_checkable
class Gated(Protocol):
    """A model with session update gates."""

    def update_gates_many(self, contexts: Sequence[Sequence[str]]) -> list[Floats]:
        """The update gate of each query of each context: (queries, d_s), between 0 and 1."""
        ...


class _Wordy(Protocol):
    """A model with a vocabulary."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of its vocabulary."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """A suggester with a vector for every word and query."""

    @property
    def model(self) -> _Wordy:
        """The model with its vocabulary."""
        ...

    def word_vectors(self) -> Floats:
        """The vectors of all words, in the order of the vocabulary."""
        ...

    def query_vectors(self, queries: Sequence[str]) -> Floats:
        """The vectors of queries: (queries, size)."""
        ...

    def neighbours(self, text: str, n: int = 10, *, words: bool = False) -> list[Neighbour]:
        """The nearest known queries, or with `words` the nearest words to a word."""
        ...


@runtime_checkable
class UsefulnessJudge(Protocol):
    """A suggester that may have learnt from clicks how likely a query is useful."""

    @property
    def judges_usefulness(self) -> bool:
        """Whether it has: a model of the kind may be trained without."""
        ...

    def usefulness_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """P(useful | query, session) of each context's candidates."""
        ...


@runtime_checkable
class Guarded(Protocol):
    """A suggester with a guard."""

    guard: Guard


@runtime_checkable
class Wrapping(Protocol):
    """A suggester whose suggestions are another's."""

    base: Suggester


@runtime_checkable
class Trained(
    Decoding,
    Stateful[State],
    BatchScorer,
    Embedder,
    Guarded,
    Suggester,
    Protocol[State],
):
    """A trained model: it generates queries, keeps states, scores many, and has vectors.

    Explanations (`Explainer`, `Gated`) and usefulness (`UsefulnessJudge`) are optional.
    """


class SessionSuggester(Stateful[State]):
    """A model of a folder that suggests and scores by the states of sessions."""

    kind: str
    _artifact: Artifact

    def save(self, path: Path) -> None:
        """Publish a copy of the model folder."""
        with publish(path, self.kind, further_entries(self._artifact.manifest)) as folder:
            self._artifact.copy_files(folder, self._artifact.manifest["files"])

    def suggest(
        self, context: Sequence[str], n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[Suggestion]:
        """At most `n` suggestions, best first; never a query of the context."""
        return self.suggest_many([context], n, config=config)[0]

    def suggest_many(
        self, contexts: Sequence[Sequence[str]], n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[list[Suggestion]]:
        """What `suggest` gives for each context, computed together."""
        return self.suggest_after(self.encode_many(contexts), n, config=config)

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        """The natural-log likelihood of each candidate given the context, in the given order."""
        return self.score_many([context], [candidates])[0]

    def score_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """What `score` gives for each context and its candidates, computed together."""
        return self.score_after(self.encode_many(contexts), candidates)


def asks_for_none(n: int) -> bool:
    """Whether no suggestion is requested; a negative number is refused."""
    if n < 0:
        raise InputError(f"n = {n}: must be at least 0")
    return n == 0


@dataclass(frozen=True)
class SuggestOptions:
    """How a list of suggestions is to be made; None: as the model has it."""

    n: int = 5
    """How many at most."""
    diversity: float | None = None
    """0 takes the most likely, 1 the most unlike each other."""
    specificity: float | None = None
    """How much globally popular queries are held back."""
    known: Known | None = None
    """Whether queries that at least K users typed are preferred; count models have no others."""
    usefulness: float = 0.0
    """How often log P(useful) is added to a value, by a model that has learnt it."""


class ListMaker:
    """Makes lists with one model; what the model can do is looked up once."""

    def __init__(self, model: Suggester) -> None:
        self._stateful: Stateful[Any] | None = model if isinstance(model, Stateful) else None
        self._adjustable = cast("Adjustable", model)
        self._judges = isinstance(model, UsefulnessJudge) and model.judges_usefulness

    def lists(
        self,
        contexts: Sequence[Sequence[str]],
        options: SuggestOptions,
        config: DecodeConfig | None = None,
    ) -> list[list[Suggestion]]:
        """A list for each context; a model that decodes does so for all of them together.

        `config` replaces the model's own, for models that decode.
        """
        if self._stateful is None:
            return [
                self._adjustable.suggest(
                    context,
                    options.n,
                    specificity=options.specificity,
                    diversity=options.diversity or 0.0,
                    known=options.known,
                )
                for context in contexts
            ]
        config = config or self._stateful.config
        chosen = {name: getattr(options, name) for name in ("diversity", "specificity", "known")}
        changes = {name: value for name, value in chosen.items() if value is not None}
        if self._judges and options.usefulness:
            changes["usefulness"] = options.usefulness
        config = config.model_copy(update=changes) if changes else config
        states = self._stateful.encode_many(contexts)
        return self._stateful.suggest_after(states, options.n, config=config)
