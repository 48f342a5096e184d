"""What a sentence encoder made elsewhere says of a candidate: its cosine with earlier queries.

Knows any function from texts to vectors; a text is given to it once.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from nextquery.ranking.cases import CaseSet, Floats
from nextquery.text.word_vectors import Encoder

SEMANTIC_FEATURES = {
    "meaning_last": "cosine of the encoder's vectors of the candidate and the last query",
    "meaning_context": "the highest such cosine with an earlier query; that of the last if none",
}
"""Every feature that an encoder gives, with its meaning."""

_AT_A_TIME = 256


class QueryVectors:
    """The vectors of queries by a sentence encoder, of unit length."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def columns(self, cases: CaseSet) -> dict[str, Floats]:
        """`SEMANTIC_FEATURES` of every candidate, flat.

        >>> from nextquery.ranking.cases import RankingCase
        >>> def encoder(texts):
        ...     return [[text.count("a"), text.count("b")] for text in texts]
        >>> case = RankingCase(1, ("bb", "a"), "a", ("aa", "b"), 0, 3)
        >>> found = QueryVectors(encoder).columns(CaseSet((case,)))
        >>> found["meaning_last"].tolist(), found["meaning_context"].tolist()
        ([1.0, 0.0], [0.0, 1.0])
        """
        self._encode(text for case in cases.cases for text in (*case.context, *case.candidates))
        last, context = np.zeros((2, cases.rows))
        for case, start in zip(cases.cases, cases.starts, strict=True):
            if not case.context:
                continue
            rows = slice(start, start + len(case.candidates))
            cosines = self._of(case.candidates) @ self._of(case.context).T  # (candidates, queries)
            last[rows] = cosines[:, -1]
            earlier = cosines[:, :-1] if len(case.context) > 1 else cosines
            context[rows] = earlier.max(axis=1)
        return dict(zip(SEMANTIC_FEATURES, (last, context), strict=True))

    def _of(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self._vectors[text] for text in texts])

    def _encode(self, texts: Iterable[str]) -> None:
        # By length: an encoder fills a batch up to its longest text.
        new = sorted({text for text in texts if text not in self._vectors}, key=_length)
        for start in range(0, len(new), _AT_A_TIME):
            batch = new[start : start + _AT_A_TIME]
            vectors = np.asarray(self._encoder(batch), dtype=np.float32)
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            self._vectors.update(zip(batch, vectors / np.maximum(lengths, 1e-12), strict=True))


def _length(text: str) -> tuple[int, str]:
    return len(text), text
