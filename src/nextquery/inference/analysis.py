"""Explanations (session update gates) and nearest neighbours among word and query vectors."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts import replaced_file
from nextquery.errors import InputError
from nextquery.inference.context import ContextEncoder
from nextquery.inference.network import Network
from nextquery.normalise import normalise_query
from nextquery.records import Neighbour, QueryWeight
from nextquery.text.vocabulary import SPECIAL

Floats = NDArray[np.float32]


def update_gates_many(
    model: Network, encoder: ContextEncoder, contexts: Sequence[Sequence[str]]
) -> list[Floats]:
    """The gates `u_m` of every query that has any word: (queries, d_s) for each context.

    All contexts go through the session encoder together, and each distinct query is encoded once.
    Queries before the last ones that the model reads have gates of zero.
    """
    whole = [[text for text in map(normalise_query, context) if text] for context in contexts]
    texts = [queries[-encoder.limits.queries :] for queries in whole]
    distinct = sorted({text for queries in texts for text in queries})
    places = {text: place for place, text in enumerate(distinct)}
    vectors = encoder.query_vectors(distinct) if distinct else np.zeros(0, dtype=np.float32)
    states = model.start_session(len(texts))
    gates = [np.zeros((len(row), model.config.session_size), dtype=np.float32) for row in whole]
    for position in range(max(map(len, texts), default=0)):
        rows = [row for row, queries in enumerate(texts) if position < len(queries)]
        queries = [places[texts[row][position]] for row in rows]
        states[rows], update = model.extend_session(states[rows], vectors[queries])
        for row, gate in zip(rows, update, strict=True):
            gates[row][position - len(texts[row])] = gate
    return gates


def query_weights(context: Sequence[str], gates: Floats) -> list[QueryWeight]:
    """What the gates say of each query; a query without any word weighs nothing."""
    later = np.ones_like(gates)  # the product of (1 - u) over the queries behind each one
    later[:-1] = np.cumprod((1.0 - gates)[:0:-1], axis=0)[::-1]
    share = (gates * later).mean(axis=1) if len(gates) else np.zeros(0)
    found, weights = 0, []
    for query in context:
        if not normalise_query(query):
            weights.append(QueryWeight(query, 0.0, 0.0))
            continue
        weights.append(QueryWeight(query, float(gates[found].mean()), float(share[found])))
        found += 1
    return weights


def draw_gates(weights: Sequence[QueryWeight], gates: Floats, path: Path) -> None:
    """The gates as a heat map, a row a query, dimensions sorted by the last query's gate."""
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
    named = [weight for weight in weights if normalise_query(weight.query)]
    axes.set_yticks(range(len(named)), [f"{each.query}  ({each.update:.2f})" for each in named])
    axes.set_xlabel("dimensions of the session state, sorted by the gate of the last query")
    axes.set_title("Session update gates: the darker, the more a query is discarded", fontsize=10)
    figure.colorbar(image, ax=axes, label="update gate")
    with replaced_file(path) as stream:
        figure.savefig(stream, dpi=150, format=path.suffix[1:].lower())


_BATCH = 512


def word_vectors(model: Network) -> Floats:
    """The output vectors of all words (V, d_e), in the order of the vocabulary's ids."""
    return model.output_matrix


def query_vectors(encoder: ContextEncoder, queries: Sequence[str]) -> Floats:
    """The vectors of queries (queries, d_h); one without any word has the vector zero."""
    texts = [normalise_query(query) for query in queries]
    distinct = sorted({text for text in texts if text}, key=lambda text: (text.count(" "), text))
    parts = [
        encoder.query_vectors(distinct[start : start + _BATCH])
        for start in range(0, len(distinct), _BATCH)
    ]
    place = {text: number for number, text in enumerate(distinct)}
    table = np.concatenate([*parts, np.zeros((1, encoder.query_size), dtype=np.float32)])
    return np.asarray(table[[place.get(text, -1) for text in texts]], dtype=np.float32)


def nearest_words(model: Network, text: str, n: int) -> list[Neighbour]:
    """The words nearest to a known word."""
    word = normalise_query(text)
    if word not in model.vocabulary:
        raise InputError(f"{text!r}: not one word of the model's vocabulary")
    place = model.vocabulary.id(word)
    vectors = word_vectors(model)
    cosines = _cosines(vectors, vectors[place])
    cosines[[*range(len(SPECIAL)), place]] = -np.inf
    return _nearest(model.vocabulary.words, cosines, n)


def nearest_queries(
    encoder: ContextEncoder, known: Sequence[str], text: str, n: int
) -> list[Neighbour]:
    """Those of the known queries that are nearest to a query."""
    query = normalise_query(text)
    if not query:
        raise InputError(f"{text!r}: has no word")
    others = [other for other in known if other != query]
    if not others:
        raise InputError("the model folder knows no queries to compare with; try `words`")
    cosines = _cosines(query_vectors(encoder, others), query_vectors(encoder, [query])[0])
    return _nearest(others, cosines, n)


def _cosines(vectors: Floats, one: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(one)
    return np.asarray(vectors @ one / np.maximum(lengths, 1e-12), dtype=np.float32)


def _nearest(texts: Sequence[str], cosines: Floats, n: int) -> list[Neighbour]:
    order = np.argsort(-cosines, kind="stable")[:n]
    return [Neighbour(texts[place], float(cosines[place])) for place in order]
