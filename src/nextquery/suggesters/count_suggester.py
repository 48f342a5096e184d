"""What the count models share: cleaning the context, the guard, saving and loading.

A model gives its best candidates and the log-probability of given ones; the rest is here. Knows
nothing of how a model counts.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import ceil
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from nextquery.artifacts import Artifact, publish, read_artifact
from nextquery.config import Section, stored_section
from nextquery.errors import InputError
from nextquery.guard.guard import Guard
from nextquery.guard.guard_tables import FOLDER
from nextquery.normalise import normalise_query
from nextquery.records import ScoredQuery, Suggestion
from nextquery.suggesters.background import Background
from nextquery.suggesters.count_completion import LISTS_LOOKED_AT, KnownCompletion, diverse

SettingsT = TypeVar("SettingsT", bound=Section)

SPECIFIC_POOL = 200
"""So many of the likeliest candidates are ordered by specificity."""


class CountSuggester(ABC, Generic[SettingsT]):
    """A suggester fitted by counting."""

    kind: str
    settings_type: ClassVar[type[Section]]
    specificity: float = 0.0
    """How much of its prior a query loses, unless a call asks otherwise. Not any: most counts are
    1, and among equal counts the prior says what is likely (docs/suggesters.md)."""

    def __init__(self, settings: SettingsT, background: Background) -> None:
        self.settings = settings
        self.background = background
        self.guard = Guard()
        self.write_guard_tables: Callable[[Path], None] | None = None
        """Writes what the k-user rule needs into a folder; given by who fits or loads the model."""
        self.data_entry: Mapping[str, Any] | None = None
        """What the manifest says of the data; given by who fits or loads the model."""

    @abstractmethod
    def best(self, context: Sequence[str], limit: int) -> list[Suggestion]:
        """Up to `limit` candidates for a normalised context, its own queries possibly included."""

    @abstractmethod
    def log_probabilities(self, context: Sequence[str], candidates: Sequence[str]) -> list[float]:
        """The natural log-probability of each normalised candidate after a normalised context."""

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Write what is beyond the background counts."""

    @classmethod
    @abstractmethod
    def read(cls, artifact: Artifact, settings: SettingsT, background: Background) -> Self:
        """Map what `write` wrote."""

    def suggest(
        self,
        context: Sequence[str],
        n: int = 5,
        *,
        specificity: float | None = None,
        diversity: float = 0.0,
    ) -> list[Suggestion]:
        """At most `n` suggestions, best first, ties by text; never a query of the context.

        They are ranked by `log P(q | session) - specificity * log P(q)`, then chosen for
        `diversity`; None is the model's own `specificity`.
        """
        if n < 0:
            raise InputError(f"n is {n}; it must be 0 or more")
        if n == 0:
            return []
        share = self.specificity if specificity is None else specificity
        wanted = n * LISTS_LOOKED_AT if diversity else n
        queries = clean(context)
        found = self._allowed(queries, wanted, share)
        if share:
            found = self._with_likelihoods(queries, found)
        return diverse(found, n, diversity) if diversity else found

    def _allowed(self, queries: Sequence[str], n: int, specificity: float) -> list[Suggestion]:
        """The `n` best that are not in the session and that the guard allows."""
        allowed = dict.fromkeys(queries, False)
        limit = (max(n, SPECIFIC_POOL) if specificity else n) + len(allowed)
        while True:
            found = self.best(queries, limit)
            kept: list[Suggestion] = []
            for suggestion in self._ranked(found, specificity):
                text = suggestion.text
                if text not in allowed:
                    allowed[text] = bool(self.guard.allows(text))
                if allowed[text]:
                    kept.append(suggestion)
                if len(kept) == n:
                    return kept
            if len(found) < limit:
                return kept
            # The guard refused some: look further down until n are left or nothing is.
            limit *= 4

    def _ranked(self, found: Sequence[Suggestion], specificity: float) -> list[Suggestion]:
        """The candidates by their value, ties by text."""
        if specificity:
            priors = self.log_priors([item.text for item in found])
            found = [
                replace(item, score=self.log_score(item.score) - specificity * prior)
                for item, prior in zip(found, priors, strict=True)
            ]
        return sorted(found, key=lambda item: (-item.score, item.text))

    def _with_likelihoods(
        self, queries: Sequence[str], found: Sequence[Suggestion]
    ) -> list[Suggestion]:
        texts = [item.text for item in found]
        likelihoods = self.log_probabilities(queries, texts)
        priors = self.log_probabilities((), texts)
        return [
            replace(item, log_likelihood=likelihood, log_prior=prior)
            for item, likelihood, prior in zip(found, likelihoods, priors, strict=True)
        ]

    def log_priors(self, texts: Sequence[str]) -> list[float]:
        """How likely each candidate of `best` is without a session, as a natural logarithm."""
        return [self.background.log_prior(text) for text in texts]

    def log_score(self, score: float) -> float:
        """The score of a candidate of `best` as a natural logarithm."""
        return score

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        """The natural-log likelihood of each candidate given the context, in the given order."""
        texts = [normalise_query(candidate) for candidate in candidates]
        return [
            ScoredQuery(
                candidate, likelihood, len(text.split()) + 1, self.background.unknown_words(text)
            )
            for candidate, text, likelihood in zip(
                candidates, texts, self.log_probabilities(clean(context), texts), strict=True
            )
        ]

    def complete(self, context: Sequence[str], prefix: str, n: int = 5) -> list[Suggestion]:
        """At most `n` known queries that begin with `prefix`, likeliest in the session first."""
        if n < 0:
            raise InputError(f"n is {n}; it must be 0 or more")
        return self._completion.complete(context, prefix, n)

    @cached_property
    def _completion(self) -> KnownCompletion:
        return KnownCompletion(self, self.guard)

    def expected(self, context: Sequence[str], limit: int) -> list[str]:
        """About `limit` of the queries that a normalised session makes likelier."""
        return [item.text for item in self.best(context, limit)]

    def frequency(self, query: str, count: int) -> float:
        """By what known queries are ordered where the session says nothing: their count."""
        return count

    def save(self, path: Path) -> None:
        """Publish the model as an artifact folder of its kind."""
        entries: dict[str, Any] = {"settings": self.settings.model_dump(mode="json")}
        entries["counts"] = {"queries": len(self.background.queries)}
        if self.data_entry is not None:
            entries["data"] = dict(self.data_entry)
        with publish(path, self.kind, entries) as folder:
            self.background.save(folder)
            self.write(folder)
            if self.write_guard_tables is not None:
                self.write_guard_tables(folder)

    @classmethod
    def load(cls, path: Path | Artifact, guard: Guard | None = None) -> Self:
        """Open a folder that `save` published; its own guard stands unless another is given."""
        return read_artifact(path, lambda artifact: cls._load(artifact, guard), cls.kind)

    @classmethod
    def _load(cls, artifact: Artifact, guard: Guard | None) -> Self:
        settings: Any = stored_section(cls.settings_type, artifact.entry("settings"), artifact.path)
        model = cls.read(artifact, settings, Background.load(artifact))
        artifact.check_once("contents", model.check)
        model.guard = guard or Guard.open(artifact)
        model.write_guard_tables = partial(artifact.copy_files, names=artifact.files(FOLDER))
        model.data_entry = artifact.manifest.get("data")
        return model

    def check(self) -> None:
        """Refuse contents that do not fit together; models add what they have of their own."""
        self.background.check()


def clean(context: Sequence[str]) -> tuple[str, ...]:
    """The normalised queries of a context, those left out of which nothing remains."""
    return tuple(filter(None, map(normalise_query, context)))


def seen(count: float, where: str = "") -> str:
    """The `source` of a suggestion that the log holds: how often it was seen, and where.

    A count in which old observations weigh less is rounded up.

    >>> seen(1), seen(2.25, "after the last query")
    ('seen in the log (1 time)', 'seen in the log (3 times after the last query)')
    """
    times = ceil(count)
    place = f" {where}" if where else ""
    return f"seen in the log ({times} time{'' if times == 1 else 's'}{place})"
