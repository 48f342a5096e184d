"""The base class of count models: context cleaning, guard, completion, saving and loading.

The site's own titles (`SiteTitles`) fill completions and lists that the counts leave empty.
"""

import heapq
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from itertools import islice
from math import ceil, log
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from nextquery.artifacts import Artifact, publish, read_artifact
from nextquery.config import Section, stored_section
from nextquery.guard.guard import Guard
from nextquery.guard.tables import FOLDER
from nextquery.inference.lists import diversify
from nextquery.normalise import cache_short_texts, normalise_query
from nextquery.records import Known, ScoredQuery, Suggestion
from nextquery.suggesters.background import Background
from nextquery.suggesters.base import asks_for_none

LOOKED_AT = 200
"""Titles that are looked at for one list."""


class SiteTitles:
    """Titles by their beginning and by their words; `titles` is a trie.

    >>> import marisa_trie
    >>> site = SiteTitles(marisa_trie.Trie(["red shoes", "red wine", "running shoes"]))
    >>> site.beginning_with("red")
    ['red wine', 'red shoes']
    >>> site.related_to("running in red shoes")
    ['running shoes', 'red shoes', 'red wine']
    """

    def __init__(self, titles: Any) -> None:
        self._titles = titles

    def __bool__(self) -> bool:
        return len(self._titles) > 0

    def beginning_with(self, prefix: str) -> list[str]:
        """Titles that begin with `prefix`, the shortest first."""
        titles: Iterable[str] = self._titles.iterkeys(prefix)
        return heapq.nsmallest(LOOKED_AT, titles, key=lambda title: (len(title), title))

    def related_to(self, query: str) -> list[str]:
        """Titles with words of the query, rare words counting more."""
        values: dict[int, float] = defaultdict(float)
        for word in dict.fromkeys(query.split()):
            titles = self._titles_of.get(word, ())
            for title in titles:
                values[title] += log(1 + len(self._titles) / len(titles))
        best = heapq.nsmallest(LOOKED_AT, values, key=lambda title: (-values[title], title))
        texts = [(-values[title], self._titles.restore_key(title)) for title in best]
        return [text for _, text in sorted(texts)]

    @cached_property
    def _titles_of(self) -> dict[str, Sequence[int]]:
        """The numbers of the titles of each word; words that every fifth title has are left out."""
        titles_of: dict[str, list[int]] = defaultdict(list)
        for title in self._titles.iterkeys():
            for word in set(title.split()):
                titles_of[word].append(self._titles[title])
        common = max(20, len(self._titles) // 5)
        return {word: titles for word, titles in titles_of.items() if len(titles) <= common}


EXPECTED = 1000
"""Number of candidates of the session that are considered."""
FREQUENT = 50
"""Number of frequent queries at first, more where the guard refuses them."""
LISTS_LOOKED_AT = 4
"""A diverse list of n is chosen among this number times n suggestions."""
_PREFIXES_REMEMBERED, _LONGEST_REMEMBERED = 4096, 8


def diverse(suggestions: Sequence[Suggestion], n: int, diversity: float) -> list[Suggestion]:
    """`n` of the suggestions, likelihood traded for words not yet shown.

    >>> suggestions = [
    ...     Suggestion("red shoes", -1.0, ""),
    ...     Suggestion("red shoes sale", -1.1, ""),
    ...     Suggestion("blue hat", -2.0, ""),
    ... ]
    >>> [item.text for item in diverse(suggestions, 2, 0.8)]
    ['red shoes', 'blue hat']
    """
    words = sorted({word for item in suggestions for word in item.text.split()})
    columns = {word: column for column, word in enumerate(words)}
    vectors = np.zeros((len(suggestions), len(words)))
    for row, item in enumerate(suggestions):
        vectors[row, [columns[word] for word in item.text.split()]] = 1.0
    values = np.array([item.score for item in suggestions])
    return [suggestions[index] for index in diversify(values, vectors, n, diversity)]


SettingsT = TypeVar("SettingsT", bound=Section)

SPECIFIC_POOL = 200
"""Number of the likeliest candidates that are ordered by specificity."""


class CountSuggester(ABC, Generic[SettingsT]):
    """A suggester fitted by counting."""

    kind: str
    settings_type: ClassVar[type[Section]]
    may_be_empty: ClassVar[bool] = False
    """Whether it works without a known query, with titles only."""
    specificity: float = 0.0
    """How much of its prior a query loses, unless a call asks otherwise. Not any: most counts are
    1, and among equal counts the prior says what is likely (docs/reference/models.md)."""

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
        known: Known | None = None,
    ) -> list[Suggestion]:
        """At most `n` suggestions, best first, ties by text; never a query of the context.

        They are ranked by `log P(q | session) - specificity * log P(q)`, then chosen for
        `diversity`; None is the model's own `specificity`. All of them are known queries; after
        them come titles of the site that have words of the last query, unless `known` is `only`.
        """
        if asks_for_none(n):
            return []
        share = self.specificity if specificity is None else specificity
        pool_size = n * LISTS_LOOKED_AT if diversity else n
        queries = clean(context)
        suggestions = self._allowed(queries, pool_size, share)
        if share:
            texts = [item.text for item in suggestions]
            likelihoods = self.log_probabilities(queries, texts)
            priors = self.log_probabilities((), texts)
            suggestions = [
                replace(item, log_likelihood=likelihood, log_prior=prior)
                for item, likelihood, prior in zip(suggestions, likelihoods, priors, strict=True)
            ]
        if diversity:
            suggestions = diverse(suggestions, n, diversity)
        if len(suggestions) < n and queries and known != "only" and self._titles:
            titles = self._titles.related_to(queries[-1])
            suggestions = self._filled(suggestions, titles, queries, n)
        return suggestions

    @cached_property
    def _titles(self) -> SiteTitles:
        return SiteTitles(self.guard.tables.titles)

    def _filled(
        self,
        suggestions: Sequence[Suggestion],
        titles: Sequence[str],
        context: Sequence[str],
        n: int,
    ) -> list[Suggestion]:
        """The list with titles that may be shown after it, up to `n`."""
        guard, filled = self.guard, list(suggestions)
        shown = {*context, *(item.text for item in suggestions)}
        new = [
            title for title in titles if title not in shown and title not in guard.tables.queries
        ]
        allowed = list(islice(filter(guard.allows, new), n - len(suggestions)))
        for scored in self.score(context, allowed):
            # After typed queries, whatever their likelihood.
            score = min([scored.log_likelihood, *(item.score for item in filled[-1:])])
            filled.append(Suggestion(scored.text, score, guard.source(scored.text)))
        return filled

    def _allowed(self, queries: Sequence[str], n: int, specificity: float) -> list[Suggestion]:
        """The `n` best that are not in the session and that the guard allows."""
        session = frozenset(queries)

        @cache
        def allowed(text: str) -> bool:
            return text not in session and bool(self.guard.allows(text))

        limit = (max(n, SPECIFIC_POOL) if specificity else n) + len(session)
        while True:
            candidates = self.best(queries, limit)
            ranked = self._ranked(candidates, specificity)
            suggestions = list(islice((item for item in ranked if allowed(item.text)), n))
            if len(suggestions) == n or len(candidates) < limit:
                return suggestions
            # The guard refused some: look further down until n are left or nothing is.
            limit *= 4

    def _ranked(self, suggestions: Sequence[Suggestion], specificity: float) -> list[Suggestion]:
        """The candidates by their value, ties by text."""
        if specificity:
            priors = self.log_priors([item.text for item in suggestions])
            suggestions = [
                replace(item, score=self.log_score(item.score) - specificity * prior)
                for item, prior in zip(suggestions, priors, strict=True)
            ]
        return sorted(suggestions, key=lambda item: (-item.score, item.text))

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
        if asks_for_none(n):
            return []
        typed = normalise_query(prefix)
        if typed and prefix[-1].isspace():
            typed += " "
        queries = tuple(map(normalise_query, context))
        shown = self._known_completions(queries, typed, n)
        scored = self.score(context, shown) if shown else []
        ordered = sorted(scored, key=lambda item: (-item.log_likelihood, item.text))
        completions = [
            Suggestion(item.text, item.log_likelihood, self.guard.source(item.text))
            for item in ordered[:n]
        ]
        if len(completions) < n and self._titles and typed:
            return self._filled(completions, self._titles.beginning_with(typed), queries, n)
        return completions

    def _known_completions(self, context: tuple[str, ...], typed: str, n: int) -> list[str]:
        """Known queries that may be shown, the `n` likeliest among them."""
        known, session = self.guard.tables.queries, frozenset(context)

        @cache
        def allowed(query: str) -> bool:
            # Known queries need no exemption from the K-user rule.
            return query not in session and query in known and bool(self.guard.allows(query))

        likely = self.expected(context, EXPECTED) if context else []
        expected = [query for query in likely if query.startswith(typed)]
        count = max(FREQUENT, n)
        while True:
            frequent = self._most_frequent(typed, count)
            fine = [query for query in frequent if allowed(query)]
            # Whatever is left is neither expected nor as frequent as these.
            if len(fine) >= n or len(frequent) < count:
                return list(dict.fromkeys([*filter(allowed, expected), *fine]))
            count *= 4

    @cached_property
    def _most_frequent(self) -> Callable[[str, int], tuple[str, ...]]:
        """The most frequent known queries that begin so; a short prefix, with many, is kept."""

        @cache_short_texts(_PREFIXES_REMEMBERED, _LONGEST_REMEMBERED)
        def most_frequent(typed: str, count: int) -> tuple[str, ...]:
            items = self.guard.tables.queries.iteritems(typed)
            weighed = ((-self.frequency(query, times), query) for query, (times,) in items)
            return tuple(query for _, query in heapq.nsmallest(count, weighed))

        return most_frequent

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
        self.background.check(may_be_empty=self.may_be_empty)


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
    suffix = f" {where}" if where else ""
    return f"seen in the log ({times} time{'' if times == 1 else 's'}{suffix})"


FREQUENT_QUERIES = 50_000
"""How many of the most frequent queries are searched, which takes a twentieth of a second."""


def fall_back(model: CountSuggester[Any], context: Sequence[str], n: int) -> list[Suggestion]:
    """At most `n` queries that share words with the last one, or the most frequent if none does.

    The `source` of each says that it does not come from the model. The score is the logarithm of
    the query's frequency, and for shared words also of the share of words: rare words weigh more.
    """
    background, queries = model.background, clean(context)
    order = np.argsort(-np.asarray(background.counts), kind="stable")[:FREQUENT_QUERIES]
    frequent = [(background.text(query), int(background.counts[query])) for query in order.tolist()]
    last = queries[-1].split() if queries else ()
    typed = {word for word in last if word in background.words}

    def weight(words: set[str]) -> float:
        counts = (int(background.word_counts[background.words[word]]) for word in words)
        return sum(log(background.symbols / count) for count in counts)

    def allowed(candidates: Iterable[Suggestion]) -> list[Suggestion]:
        new = (item for item in candidates if item.text not in queries)
        return list(islice((item for item in new if model.guard.allows(item.text)), n))

    related = []
    for text, count in frequent if typed else ():
        words = set(text.split())
        if shared := typed & words:
            score = background.log_prior(text) + log(weight(shared) / weight(typed | words))
            source = f"shares words with the last query; {seen(count)}"
            related.append(Suggestion(text, score, source))
    return allowed(sorted(related, key=lambda item: (-item.score, item.text))) or allowed(
        Suggestion(
            text, background.log_prior(text), f"frequent, whatever came before; {seen(count)}"
        )
        for text, count in frequent
    )
