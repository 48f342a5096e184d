"""Word and query vectors on a plane (the paper's Figure 1). Knows vectors and texts.

t-SNE keeps neighbours together; distances between far groups mean nothing.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.manifold import TSNE

from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.base import Embedder

POINTS = 300
GROUPS = 10

Vectors = NDArray[np.float32]


def projections(suggester: Embedder, data: PreparedData, seed: int) -> dict[str, Any]:
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
    return {
        "words": project(known, vectors, seed),
        "queries": project(longer, suggester.query_vectors(longer), seed),
    }


def project(texts: Sequence[str], vectors: Vectors, seed: int) -> list[dict[str, Any]]:
    """A place on the plane and a group of neighbours for each text."""
    if len(texts) < GROUPS:
        return []
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    plane = TSNE(
        perplexity=min(15.0, (len(texts) - 1) / 3),
        init="pca",
        method="exact",
        random_state=seed,
    ).fit_transform(unit.astype(np.float64))
    groups = KMeans(GROUPS, n_init=4, random_state=seed).fit_predict(plane)
    return [
        {"text": text, "x": float(x), "y": float(y), "group": int(group)}
        for text, (x, y), group in zip(texts, plane, groups, strict=True)
    ]
