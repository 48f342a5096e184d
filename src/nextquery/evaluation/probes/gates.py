"""Probes of the session update gates on noisy contexts, and projections of vectors."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.manifold import TSNE

from nextquery.evaluation.comparison import bootstrap_interval, paired_t_test
from nextquery.evaluation.scenarios import Noise
from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.cases import Floats
from nextquery.ranking.scoring import Track
from nextquery.records import Session
from nextquery.suggesters.base import Embedder, Gated

_BATCH = 256


@dataclass(frozen=True)
class GateExample:
    """One corrupted context with the gates of its queries."""

    queries: tuple[str, ...]
    gates: tuple[tuple[float, ...], ...]  # (queries, d_s)


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """The gates of one model on clean contexts, and an example with noise."""

    contexts: int
    """How many contexts have a query of their own and a noisy one at the same place."""
    by_position: Mapping[str, float]
    """The mean gate of the first, second, ... fifth query of clean contexts."""
    example: GateExample | None


@dataclass(frozen=True, kw_only=True)
class GateComparison(GateResult):
    """Mean gates of own queries and of noise at the same places, of two contexts or more.

    `difference` is noise less own query, with its 95% bootstrap interval; `p` the paired t-test's.
    """

    own_query: float
    noisy_query: float
    difference: float
    difference_low: float
    difference_high: float
    p: float
    noise_updates_less: float
    """The share of contexts in which the noise updates less."""


def gate_result(
    model: Gated,
    sessions: Sequence[Session],
    noise: Noise,
    track: Track,
    known: Container[str] = (),
) -> GateComparison | GateResult:
    """Mean gates of inserted noise and of the query that was at the same place before it.

    The example consists of `known` queries, which K users typed.

    Only contexts with a query at that place take part, so that both gates belong to the same
    position; the first position is left out, where nothing is remembered yet.
    """
    contexts = [session.queries[:-1] for session in sessions]
    noisy = [
        noise.insert(context, session.id)
        for context, session in zip(contexts, sessions, strict=True)
    ]
    clean_means = mean_gates(model, contexts, track)
    noisy_means = mean_gates(model, [context.queries for context in noisy], track)
    pairs = [
        (clean[context.position], corrupted[context.position])
        for clean, corrupted, context in zip(clean_means, noisy_means, noisy, strict=True)
        if 0 < context.position < len(clean)
    ]
    by_position, example = _by_position(clean_means), gate_example(model, sessions, noise, known)
    if len(pairs) < 2:
        return GateResult(contexts=len(pairs), by_position=by_position, example=example)
    original, inserted = np.array(pairs).T
    return _compare(original, inserted, by_position, example)


def gate_example(
    model: Gated, sessions: Sequence[Session], noise: Noise, known: Container[str]
) -> GateExample | None:
    """Gates of one corrupted context, as the paper shows them: two queries, then a noisy one.

    All of them were typed by K users; None where no session is so.
    """
    for session in sessions:
        context = session.queries[:-1]
        noisy = noise.insert(context, session.id)
        public = all(query in known for query in noisy.queries)
        if public and noisy.position == len(context) == 2 and not noise.within(context):
            gates = model.update_gates_many([noisy.queries])[0].round(3).astype(np.float64)
            return GateExample(noisy.queries, tuple(map(tuple, gates.tolist())))
    return None


def _compare(
    original: Floats, noisy: Floats, by_position: Mapping[str, float], example: GateExample | None
) -> GateComparison:
    low, high = bootstrap_interval(noisy - original)
    return GateComparison(
        contexts=len(original),
        by_position=by_position,
        example=example,
        own_query=float(original.mean()),
        noisy_query=float(noisy.mean()),
        difference=float((noisy - original).mean()),
        difference_low=low,
        difference_high=high,
        p=paired_t_test(noisy, original),
        noise_updates_less=float((noisy < original).mean()),
    )


def _by_position(means: Sequence[Floats]) -> dict[str, float]:
    """The mean gate of the first, second, ... fifth query of clean contexts."""
    return {
        str(position + 1): float(np.mean([row[position] for row in means if len(row) > position]))
        for position in range(5)
        if any(len(row) > position for row in means)
    }


def mean_gates(model: Gated, contexts: Sequence[tuple[str, ...]], track: Track) -> list[Floats]:
    """The mean over the gate's elements, one number per query of each context."""
    means: list[Floats] = []
    for start in track(range(0, len(contexts), _BATCH)):
        gates = model.update_gates_many(contexts[start : start + _BATCH])
        means += [np.asarray(gate.mean(axis=1), np.float64) for gate in gates]
    return means


POINTS = 300
GROUPS = 10

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class ProjectedText:
    """A text's place on the plane, and the number of its group of neighbours."""

    text: str
    x: float
    y: float
    group: int


@dataclass(frozen=True)
class Projections:
    """The most frequent words and queries on a plane; empty if there are too few."""

    words: tuple[ProjectedText, ...]
    queries: tuple[ProjectedText, ...]


def projections(suggester: Embedder, data: PreparedData, seed: int) -> Projections:
    """The most frequent words of four letters or more, and the most frequent longer queries.

    Short words and one-word queries are mostly function words and site names, which the paper's
    figure leaves out too.
    """
    vocabulary = suggester.model.vocabulary
    words = [word for word in data.words() if len(word) > 3 and word.isalpha()]
    known = [word for word in words if word in vocabulary][:POINTS]
    vectors = suggester.word_vectors()[[vocabulary.id(word) for word in known]]
    queries = data.counts("queries").select("query").collect()["query"].to_list()
    longer = [query for query in queries if " " in query][:POINTS]
    return Projections(
        words=project(known, vectors, seed),
        queries=project(longer, suggester.query_vectors(longer), seed),
    )


def project(texts: Sequence[str], vectors: Vectors, seed: int) -> tuple[ProjectedText, ...]:
    """A place on the plane and a group of neighbours for each text."""
    if len(texts) < GROUPS:
        return ()
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    plane = TSNE(
        perplexity=min(15.0, (len(texts) - 1) / 3),
        init="pca",
        method="exact",
        random_state=seed,
    ).fit_transform(unit.astype(np.float64))
    groups = KMeans(GROUPS, n_init=4, random_state=seed).fit_predict(plane)
    return tuple(
        ProjectedText(text, float(x), float(y), int(group))
        for text, (x, y), group in zip(texts, plane, groups, strict=True)
    )
