"""CACB: context-aware concept-based suggestion after Cao et al. (KDD 2008).

Queries are grouped into concepts (`concepts.py`), sessions become sequences of concepts, and a
suffix tree (`suffix_tree.py`) gives the concepts that come next; each is shown as its most clicked
query. The probability of a query is that of its concept times its share of the concept's count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

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
from nextquery.errors import InputError
from nextquery.records import Suggestion
from nextquery.suggesters.background import (
    AgingSettings,
    Background,
    count_background,
    frequency_ranks,
    heaviest_first,
    load_record,
    save_record,
)
from nextquery.suggesters.count_suggester import CountSuggester, seen
from nextquery.suggesters.suffix_tree import SuffixTree, grow_tree

if TYPE_CHECKING:
    import polars as pl

    from nextquery.logs.data_folder import PreparedData
    from nextquery.suggesters.sequences import BackgroundLog


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

    def queries(self, concept: int) -> NDArray[np.int32]:
        """The queries of a concept, most clicked first."""
        return self.members[self.offsets[concept] : self.offsets[concept + 1]]

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
        self, settings: CACBSettings, background: Background, concepts: Concepts, tree: SuffixTree
    ) -> None:
        super().__init__(settings, background)
        self.concepts = concepts
        self.tree = tree

    def best(self, context: Sequence[str], limit: int) -> list[Suggestion]:
        """The most probable concepts, each as its most clicked query that is not in the context."""
        path = self._path(context)
        if context and not path:
            return []
        concepts, probabilities = self.tree.best(path, limit)
        suggestions = []
        for concept, probability in zip(concepts.tolist(), probabilities.tolist(), strict=True):
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
        return [self.background.text(query) for members in queries for query in members.tolist()]

    def log_priors(self, texts: Sequence[str]) -> list[float]:
        """The prior of each query's concept, for which it stands."""
        of_query = self.concepts.of_query
        ids = np.array([of_query[self.background.queries[text]] for text in texts], np.int64)
        return np.log(self.tree.probabilities([], ids)).tolist()  # type: ignore[no-any-return]

    def log_probabilities(self, context: Sequence[str], candidates: Sequence[str]) -> list[float]:
        """The concept's probability times the query's share of it."""
        path = self._path(context)
        queries = [self.background.id(text) for text in candidates]
        known = np.array([query for query in queries if query is not None], np.int64)
        concepts = self.concepts.of_query[known]
        shares = self.background.counts[known] / self.concepts.counts[concepts]
        probabilities = iter((self.tree.probabilities(path, concepts) * shares).tolist())
        escaped = log(self.tree.escapes(path) * (self.tree.total + 1))
        return [
            escaped + self.background.log_prior(candidate)
            if query is None
            else log(next(probabilities))
            for query, candidate in zip(queries, candidates, strict=True)
        ]

    def write(self, folder: Path) -> None:
        """Write the concepts and the tree."""
        save_record(folder, "concepts", self.concepts)
        self.tree.save(folder)

    @classmethod
    def read(cls, artifact: Artifact, settings: CACBSettings, background: Background) -> Self:
        """Map the concepts and the tree."""
        concepts = load_record(artifact, "concepts", Concepts)
        tree = SuffixTree.load(artifact, concepts.counts, settings.escape)
        return cls(settings, background, concepts, tree)

    def check(self) -> None:
        """Refuse contents that do not fit together."""
        super().check()
        self.concepts.check(len(self.background.counts))
        self.tree.check()

    def _path(self, context: Sequence[str]) -> list[int]:
        known_part = self.background.newest_known(context, shorten=self.settings.shorten)
        concepts = (int(self.concepts.of_query[query]) for query in known_part.queries)
        different = [concept for concept, _ in groupby(concepts)]
        return self.tree.match(different[: self.settings.depth])

    def _source(self, path: Sequence[int], concept: int, size: int) -> str:
        length, count = self.tree.evidence(path, concept)
        after = "after the last topic" if length == 1 else f"after the last {length} topics"
        stands_for = "" if size == 1 else f", for {size} queries of one topic"
        return seen(count, (after if length else "in all") + stands_for)


def unit_vectors(
    edges: pl.DataFrame, min_share: float, max_queries: int
) -> list[tuple[int, list[int], list[float]]]:
    """The vector of each query (rank, dimensions, weights), lowest rank first.

    `edges` has the columns rank, dimension and weight. Edges with less than `min_share` of their
    query's weight say little of it, dimensions with more than `max_queries` queries say nothing
    in particular; both are left out.
    """
    import polars as pl

    share = pl.col("weight") / pl.col("weight").sum().over("rank")
    informative = edges.filter(
        share >= min_share, pl.len().over("dimension") <= max_queries
    ).with_columns(pl.col("weight") / (pl.col("weight") ** 2).sum().over("rank").sqrt())
    by_query = informative.sort("rank", "dimension").group_by("rank", maintain_order=True)
    return list(by_query.agg("dimension", "weight").iter_rows())


def find_concepts(
    vectors: Iterable[tuple[int, Sequence[int], Sequence[float]]], queries: int, diameter: float
) -> NDArray[np.int32]:
    """The concept of each of `queries` ranks; a query without a vector is a concept of its own."""
    concepts = np.full(queries, -1, np.int32)
    clusters = _Clusters(diameter)
    for rank, dimensions, weights in vectors:
        concepts[rank] = clusters.add(dimensions, weights)
    alone = np.flatnonzero(concepts < 0)
    concepts[alone] = len(clusters.sizes) + np.arange(len(alone), dtype=np.int32)
    return concepts


class _Clusters:
    """Growing clusters; each dimension lists the clusters that have it with the sum of weights."""

    def __init__(self, diameter: float) -> None:
        self._limit = diameter**2
        self.sizes: list[int] = []
        self._lengths: list[float] = []  # squared, of each cluster's sum
        self._sums: dict[int, dict[int, float]] = defaultdict(dict)

    def add(self, dimensions: Sequence[int], weights: Sequence[float]) -> int:
        """Put a unit vector into the closest cluster that stays compact, or into a new one."""
        products: dict[int, float] = defaultdict(float)
        for dimension, weight in zip(dimensions, weights, strict=True):
            for cluster, total in self._sums[dimension].items():
                products[cluster] += weight * total
        # The closest centre of gravity has the largest cosine; the older cluster wins a tie.
        closest = max(
            products,
            key=lambda cluster: (products[cluster] / self._lengths[cluster] ** 0.5, -cluster),
            default=-1,
        )
        if closest < 0 or not self._stays_compact(closest, products[closest]):
            closest = len(self.sizes)
            self.sizes.append(0)
            self._lengths.append(0.0)
        self.sizes[closest] += 1
        self._lengths[closest] += 2 * products.get(closest, 0.0) + 1
        for dimension, weight in zip(dimensions, weights, strict=True):
            totals = self._sums[dimension]
            totals[closest] = totals.get(closest, 0.0) + weight
        return closest

    def _stays_compact(self, cluster: int, product: float) -> bool:
        size = self.sizes[cluster] + 1
        length = self._lengths[cluster] + 2 * product + 1
        return 2 * (size * size - length) / (size * (size - 1)) <= self._limit + 1e-12


def fit_cacb(log: BackgroundLog, settings: CACBSettings) -> CACB:
    """Find the concepts, then count sequences of them."""
    import polars as pl

    from nextquery.suggesters.sequences import (
        following,
        useful_factors,
        weigh_symbols,
        without_repeats,
    )

    background = count_background(log.data)
    concepts = _concepts(log.data, settings, background)
    known_log = log.known()
    symbols = concepts.of_query[background.ids(known_log["query"].to_list())]
    ages = log.ages(settings)
    named = known_log.with_columns(symbol=pl.Series(symbols))
    rows = without_repeats(log.symbols(named, by_day=settings.ages))
    factors = useful_factors(log, background, settings.useful_weight, concepts.of_query)
    tree = grow_tree(
        weigh_symbols(following(log, rows, settings.depth, ages), factors),
        concepts.counts,
        heaviest_first(
            background, concepts.counts, concepts.members[concepts.offsets[:-1]].tolist()
        ),
        pruning=settings.pruning,
        escape=settings.escape,
    )
    return CACB(settings, background, concepts, tree)


def _concepts(data: PreparedData, settings: CACBSettings, background: Background) -> Concepts:
    import polars as pl

    ranks = frequency_ranks(background)
    edges = _clicks(data, background) if settings.clusters == "clicks" else _words(background)
    ranked = edges.with_columns(rank=pl.Series(ranks[edges["query"].to_numpy()]))
    vectors = unit_vectors(ranked, settings.min_share, settings.max_queries)
    of_rank = find_concepts(vectors, len(ranks), settings.diameter)
    clicks = np.bincount(edges["query"], edges["clicks"], len(ranks))
    preference = np.empty(len(ranks), np.int32)
    preference[np.lexsort((ranks, -clicks))] = np.arange(len(ranks), dtype=np.int32)
    of_query = of_rank[ranks]
    members = np.lexsort((preference, of_query)).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(of_query))]).astype(np.int64)
    counts = np.bincount(of_query, background.counts).astype(np.int64)
    return Concepts(of_query, offsets, members, counts)


def _clicks(data: PreparedData, background: Background) -> pl.DataFrame:
    """One row per query and clicked page: query, dimension, weight, clicks."""
    import polars as pl

    clicks = data.counts("clicks").select("query", "url", "count").sort("query", "url").collect()
    if clicks.is_empty():
        raise InputError(
            f"{data.path}: the log has no clicks to find concepts by; "
            "group queries by shared words with `clusters=words`"
        )
    return pl.DataFrame(
        {
            "query": background.ids(clicks["query"].to_list()),
            "dimension": clicks["url"].rank("dense").cast(pl.Int64),
            "weight": clicks["count"].cast(pl.Float64),
            "clicks": clicks["count"].cast(pl.Int64),
        }
    )


def _words(background: Background) -> pl.DataFrame:
    """One row per query and word, the word weighing more the fewer queries have it."""
    import polars as pl

    size = len(background.counts)
    texts = pl.Series("word", map(background.text, range(size)), pl.String)
    words = pl.DataFrame({"query": np.arange(size), "word": texts})
    rows = words.with_columns(pl.col("word").str.split(" ")).explode("word").unique()
    rarity = (size / pl.len().over("word")).log() + 1
    return rows.sort("query", "word").select(
        "query",
        dimension=pl.col("word").rank("dense").cast(pl.Int64),
        weight=rarity,
        clicks=pl.lit(0, pl.Int64),
    )
