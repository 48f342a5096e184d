"""Word and query vectors on a plane (the paper's Figure 1). Knows vectors and texts.

t-SNE keeps neighbours together; distances between far groups mean nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.manifold import TSNE

from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.base import Embedder

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
