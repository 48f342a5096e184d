"""CACB: context-aware concept-based suggestion after Cao et al. (KDD 2008).

Queries are grouped into concepts (`concepts.py`), sessions become sequences of concepts, and a
suffix tree (`suffix_tree.py`) gives the concepts that come next; each is shown as its most clicked
query. The probability of a query is that of its concept times its share of the concept's count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from nextquery.artifacts import Artifact
from nextquery.artifacts.arrays import (
    check_length,
    check_offsets,
    check_order,
    check_positive,
    check_range,
    require,
)
from nextquery.records import Suggestion
from nextquery.suggesters.aging import AgingSettings
from nextquery.suggesters.background import Background
from nextquery.suggesters.count_suggester import CountSuggester, seen
from nextquery.suggesters.counts.storage import load_record, save_record
from nextquery.suggesters.counts.suffix_tree import SuffixTree


class CACBSettings(AgingSettings):
    """How concepts are found and how far back the tree looks."""

    clusters: Literal["clicks", "words"] = "clicks"
    """What queries of one concept share: clicked pages, or words where a log has no clicks."""
    diameter: float = Field(default=1.0, gt=0, lt=2)
    """The largest diameter of a concept; unit vectors with nothing in common are 1.41 apart."""
    min_share: float = Field(default=0.1, ge=0, lt=1)
    """Pages (words) with less than this share of a query's weight do not count."""
    max_queries: int = Field(default=1000, ge=2)
    """Pages (words) shared by more queries than this do not count."""
    depth: int = Field(default=5, ge=1, le=20)
    """The longest part of a session that is looked at, in concepts."""
    pruning: float = Field(default=0.05, ge=0)
    """As for qvmm."""
    escape: float = Field(default=10.0, gt=0)
    """As for qvmm."""
    shorten: bool = True
    """As for qvmm."""


@dataclass(frozen=True)
class Concepts:
    """Which queries belong together."""

    of_query: NDArray[np.int32]
    """The concept of each query, by its number."""
    offsets: NDArray[np.int64]
    members: NDArray[np.int32]
    """The queries of concept `c` at `offsets[c]:offsets[c + 1]`, most clicked first."""
    counts: NDArray[np.int64]

    @classmethod
    def from_queries(
        cls, of_query: NDArray[np.int32], counts: NDArray[np.int64], preference: NDArray[np.int32]
    ) -> Self:
        """Group queries, the preferred (lowest number) of each concept first."""
        members = np.lexsort((preference, of_query)).astype(np.int32)
        sizes = np.bincount(of_query)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return cls(of_query, offsets, members, np.bincount(of_query, counts).astype(np.int64))

    def queries(self, concept: int) -> NDArray[np.int32]:
        """The queries of a concept, most clicked first."""
        return self.members[self.offsets[concept] : self.offsets[concept + 1]]

    def save(self, folder: Path) -> None:
        """Write the arrays into a model folder."""
        save_record(folder, "concepts", self)

    @classmethod
    def load(cls, artifact: Artifact) -> Self:
        """Map what `save` wrote."""
        return load_record(artifact, "concepts", cls)

    def check(self, queries: int) -> None:
        """Refuse arrays that do not divide the queries into concepts."""
        concepts = len(self.counts)
        check_length("concepts_of_query", self.of_query, queries)
        check_range("concepts_of_query", self.of_query, concepts)
        check_offsets("concepts_offsets", self.offsets, concepts, queries)
        check_order("concepts_members", self.members, queries)
        check_positive("concepts_counts", self.counts)
        require(bool((np.diff(self.offsets) > 0).all()), "concepts_offsets has an empty concept")


class CACB(CountSuggester[CACBSettings]):
    """The most clicked queries of the concepts that come next."""

    kind = "cacb"
    settings_type = CACBSettings

    def __init__(
        self,
        settings: CACBSettings,
        background: Background,
        concepts: Concepts,
        tree: SuffixTree,
    ) -> None:
        super().__init__(settings, background)
        self.concepts = concepts
        self.tree = tree

    def best(self, context: Sequence[str], limit: int) -> list[Suggestion]:
        """The most probable concepts, each as its most clicked query that is not in the context."""
        path = self._path(context)
        if context and not path:
            return []
        concepts, found = self.tree.best(path, limit)
        suggestions = []
        for concept, probability in zip(concepts.tolist(), found.tolist(), strict=True):
            queries = self.concepts.queries(concept)
            texts = (self.background.text(int(query)) for query in queries)
            shown = next((text for text in texts if text not in context), None)
            if shown is not None:
                source = self._source(path, concept, len(queries))
                suggestions.append(Suggestion(shown, log(probability), source))
        return suggestions

    def expected(self, context: Sequence[str], limit: int) -> list[str]:
        """All queries of the most probable concepts, at most `limit` of each."""
        path = self._path(context)
        if not path:
            return []
        concepts, _ = self.tree.best(path, limit)
        queries = (self.concepts.queries(concept)[:limit] for concept in concepts.tolist())
        return [self.background.text(query) for found in queries for query in found.tolist()]

    def log_priors(self, texts: Sequence[str]) -> list[float]:
        """The prior of each query's concept, for which it stands."""
        of_query = self.concepts.of_query
        ids = np.array([of_query[self.background.queries[text]] for text in texts], np.int64)
        return np.log(self.tree.probabilities([], ids)).tolist()  # type: ignore[no-any-return]

    def log_probabilities(self, context: Sequence[str], candidates: Sequence[str]) -> list[float]:
        """The concept's probability times the query's share of it."""
        path = self._path(context)
        escaped = log(self.tree.escapes(path) * (self.tree.total + 1))
        return [
            self._log_probability(path, query)
            if query is not None
            else escaped + self.background.log_prior(candidate)
            for candidate, query in ((text, self.background.id(text)) for text in candidates)
        ]

    def _log_probability(self, path: Sequence[int], query: int) -> float:
        concept = int(self.concepts.of_query[query])
        share = int(self.background.counts[query]) / int(self.concepts.counts[concept])
        return log(float(self.tree.probabilities(path, np.array([concept]))[0]) * share)

    def write(self, folder: Path) -> None:
        """Write the concepts and the tree."""
        self.concepts.save(folder)
        self.tree.save(folder)

    @classmethod
    def read(cls, artifact: Artifact, settings: CACBSettings, background: Background) -> Self:
        """Map the concepts and the tree."""
        concepts = Concepts.load(artifact)
        tree = SuffixTree.load(artifact, concepts.counts, settings.escape)
        return cls(settings, background, concepts, tree)

    def check(self) -> None:
        """Refuse contents that do not fit together."""
        super().check()
        self.concepts.check(len(self.background.counts))
        self.tree.check()

    def _path(self, context: Sequence[str]) -> list[int]:
        known = self.background.newest_known(context, shorten=self.settings.shorten)
        concepts = (int(self.concepts.of_query[query]) for query in known.queries)
        different = [concept for concept, _ in groupby(concepts)]
        return self.tree.match(different[: self.settings.depth])

    def _source(self, path: Sequence[int], concept: int, size: int) -> str:
        length, count = self.tree.evidence(path, concept)
        after = "after the last topic" if length == 1 else f"after the last {length} topics"
        stands_for = "" if size == 1 else f", for {size} queries of one topic"
        return seen(count, (after if length else "in all") + stands_for)
