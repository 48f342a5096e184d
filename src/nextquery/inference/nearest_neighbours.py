"""Word and query vectors as arrays, and nearest neighbours among them.

Words live in the space of the output vectors `o_v`, queries in that of the query encoder's `q`.
Knows cosines; knows nothing of suggesting.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InputError
from nextquery.inference.contexts import ContextEncoder
from nextquery.inference.network.network import Network
from nextquery.normalise import normalise_query
from nextquery.records import Neighbour
from nextquery.text.vocabulary import SPECIAL

Floats = NDArray[np.float32]
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
