"""Explanations (session update gates) and nearest neighbours among word and query vectors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts import replaced_file
from nextquery.errors import InputError
from nextquery.inference.context import ContextEncoder
from nextquery.inference.decoder import NeuralModel
from nextquery.normalise import normalise_query
from nextquery.records import Neighbour, QueryWeight
from nextquery.text.vocabulary import SPECIAL

Floats = NDArray[np.float32]


class GatedModel(Protocol):
    """A network whose session encoder has update gates."""

    def update_gates(self, sessions: Sequence[Sequence[str]]) -> list[Floats]:
        """The gates of each query of each session, as the network reads it: (queries, d_s)."""
        ...


def update_gates_many(
    model: GatedModel, encoder: ContextEncoder[Any], contexts: Sequence[Sequence[str]]
) -> list[Floats]:
    """The gates `u_m` of every query that has a word: (queries, d_s) for each context.

    Queries before the last ones that the model reads have gates of zero.
    """
    sessions = [encoder.normalised(context) for context in contexts]
    read = model.update_gates([encoder.read_part(session) for session in sessions])
    return [
        np.pad(gates, ((len(session) - len(gates), 0), (0, 0)))
        for session, gates in zip(sessions, read, strict=True)
    ]


def query_weights(context: Sequence[str], gates: Floats) -> list[QueryWeight]:
    """The weight of each query by its gates; a query without a word has weight 0."""
    later = np.ones_like(gates)  # the product of (1 - u) over the queries after each one
    later[:-1] = np.cumprod((1.0 - gates)[:0:-1], axis=0)[::-1]
    share = (gates * later).mean(axis=1) if len(gates) else np.zeros(0)
    row, weights = 0, []
    for query in context:
        if not normalise_query(query):
            weights.append(QueryWeight(query, 0.0, 0.0))
            continue
        weights.append(QueryWeight(query, float(gates[row].mean()), float(share[row])))
        row += 1
    return weights


def draw_gates(weights: Sequence[QueryWeight], gates: Floats, path: Path) -> None:
    """The gates as a heat map: one row per query, dimensions sorted by the last query's gate."""
    from matplotlib import rc_context

    with rc_context({"text.parse_math": False}):  # a query may be "$\\frac$"
        _draw_gates(weights, gates, path)


def _draw_gates(weights: Sequence[QueryWeight], gates: Floats, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 1.4 + 0.45 * len(gates)), layout="constrained")
    axes = figure.add_subplot()
    order = np.argsort(-gates[-1]) if len(gates) else slice(None)
    image = axes.imshow(
        gates[:, order], "gray", aspect="auto", vmin=0.0, vmax=1.0, interpolation="nearest"
    )
    axes.set_yticks([row - 0.5 for row in range(1, len(gates))], minor=True)
    axes.grid(axis="y", which="minor", color="white", linewidth=2)
    labels = [f"{w.query}  ({w.update:.2f})" for w in weights if normalise_query(w.query)]
    axes.set_yticks(range(len(labels)), labels)
    axes.set_xlabel("dimensions of the session state, sorted by the gate of the last query")
    axes.set_title("Session update gates: the darker, the more a query is discarded", fontsize=10)
    figure.colorbar(image, ax=axes, label="update gate")
    with replaced_file(path) as stream:
        figure.savefig(stream, dpi=150, format=path.suffix[1:].lower())


_BATCH = 512


def query_vectors(encoder: ContextEncoder[Any], queries: Sequence[str]) -> Floats:
    """The vectors of queries (queries, size); that of a query without a word is zero."""
    texts = [normalise_query(query) for query in queries]
    distinct = sorted({text for text in texts if text}, key=lambda text: (text.count(" "), text))
    parts = [
        encoder.query_vectors(distinct[start : start + _BATCH])
        for start in range(0, len(distinct), _BATCH)
    ]
    row = {text: number for number, text in enumerate(distinct)}
    table = np.concatenate([*parts, np.zeros((1, encoder.query_size), dtype=np.float32)])
    return np.asarray(table[[row.get(text, -1) for text in texts]], dtype=np.float32)


def nearest_words(model: NeuralModel[Any], text: str, n: int) -> list[Neighbour]:
    """The words nearest to a known word."""
    word = normalise_query(text)
    if word not in model.vocabulary:
        raise InputError(f"{text!r}: not one word of the model's vocabulary")
    word_id = model.vocabulary.id(word)
    vectors = model.word_vectors()
    cosines = _cosines(vectors, vectors[word_id])
    cosines[[*range(len(SPECIAL)), word_id]] = -np.inf
    return _nearest(model.vocabulary.words, cosines, n)


def nearest_queries(
    encoder: ContextEncoder[Any], known: Sequence[str], text: str, n: int
) -> list[Neighbour]:
    """The known queries that are nearest to a query."""
    query = normalise_query(text)
    if not query:
        raise InputError(f"{text!r}: has no word")
    candidates = [candidate for candidate in known if candidate != query]
    if not candidates:
        raise InputError("the model folder has no queries to compare with; try `words`")
    cosines = _cosines(query_vectors(encoder, candidates), query_vectors(encoder, [query])[0])
    return _nearest(candidates, cosines, n)


def _cosines(vectors: Floats, vector: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(vector)
    return np.asarray(vectors @ vector / np.maximum(lengths, 1e-12), dtype=np.float32)


def _nearest(texts: Sequence[str], cosines: Floats, n: int) -> list[Neighbour]:
    order = np.argsort(-cosines, kind="stable")[:n]
    return [Neighbour(texts[index], float(cosines[index])) for index in order]
