"""Features of the Baseline Ranker (section 4.3 of the paper) and optional ones."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein
from scipy.sparse import csr_array

from nextquery.ranking.cases import Backgrounds, CaseSet, Floats
from nextquery.suggesters.qvmm import QVMM
from nextquery.text.vectors import Encoder, letter_trigrams, word_trigrams


def suffix_counts(qvmm: QVMM, cases: CaseSet) -> Floats:
    """How often each candidate followed the longest known end of its context, flat.

    Zero where nothing is known. `qvmm` should not be pruned.
    """
    rows = [_counts(qvmm, case.context, case.candidates) for case in cases]
    return np.concatenate(rows) if rows else np.zeros(0)


def _counts(qvmm: QVMM, context: tuple[str, ...], candidates: tuple[str, ...]) -> Floats:
    recent = context[-qvmm.settings.depth :]
    known = qvmm.background.newest_known(recent, shorten=qvmm.settings.shorten)
    path = qvmm.tree.match(known.queries)
    if not path:
        return np.zeros(len(candidates))
    ids = [qvmm.background.id(text) for text in candidates]
    known_ids = np.array([-1 if query is None else query for query in ids], np.int64)
    return qvmm.tree.followers.count(path[-1], known_ids).astype(np.float64)


RECENT = 10
"""Character similarity is measured to this many most recent queries."""

BASELINE_FEATURES: Mapping[str, str] = {
    "adj_count": "how often the candidate follows the anchor in the background",
    "anchor_frequency": "how often the anchor occurs in the background",
    "anchor_levenshtein": "edits (insert, delete, replace) between anchor and candidate",
    "characters": "the candidate's length in characters",
    "words": "the candidate's length in words",
    "frequency": "how often the candidate occurs in the background",
    **{
        f"similarity_{back}": "cosine of the character trigram counts of the candidate and the "
        + ("last query" if back == 1 else f"query {back} places from the end")
        + "; 0 where the context is shorter"
        for back in range(1, RECENT + 1)
    },
    "context_levenshtein": "mean edits between the candidate and each query of the context",
    "qvmm": "log-probability by the query variable memory Markov model",
}
"""Every baseline feature with its meaning."""


SIMILARITY = "earlier_similarity_"
"""Begins the name of a feature: trigram cosine with an earlier query, 1 being the latest."""

SHARED_TRIGRAMS = tuple(f"shared_trigrams_{back}" for back in range(1, RECENT + 1))
SUFFIX_COUNT = "suffix_count"

AUTHORS_FEATURES: tuple[str, ...] = (
    *(name for name in BASELINE_FEATURES if not name.startswith(("similarity", "qvmm"))),
    *SHARED_TRIGRAMS,
    SUFFIX_COUNT,
)
"""The Baseline Ranker as the authors' code has it: in place of cosines the number of character
trigrams that the candidate shares with each query, and in place of QVMM's probability the raw count
at the longest known part of the context."""


@dataclass(frozen=True)
class FeatureTable:
    """One row per candidate, one column per feature."""

    names: tuple[str, ...]
    values: Floats

    def column(self, name: str) -> Floats:
        """The values of one feature."""
        column: Floats = self.values[:, self.names.index(name)]
        return column

    def with_columns(self, columns: Mapping[str, Floats]) -> "FeatureTable":
        """The table with more features, or with other values of those it has."""
        names = tuple(dict.fromkeys((*self.names, *columns)))
        values = np.empty((len(self.values), len(names)))
        values[:, : len(self.names)] = self.values
        for name, column in columns.items():
            values[:, names.index(name)] = column
        return FeatureTable(names, values)


def baseline_features(cases: CaseSet, backgrounds: Backgrounds, qvmm: Floats) -> FeatureTable:
    """All of `BASELINE_FEATURES` for every candidate; `qvmm` is that model's score.

    The counts of each case are those of its user's background.
    """
    candidates = cases.texts
    counts = [backgrounds.of(case.user) for case in cases]
    pairs = list(zip(cases, counts, strict=True))
    last = [case.context[-1] if case.context else "" for case in cases for _ in case.candidates]
    recent = [case.context[::-1][:RECENT] for case in cases]
    columns: list[Any] = [  # in the order of the names
        [b.followers(case.anchor).get(c, 0) for case, b in pairs for c in case.candidates],
        [b.frequency(case.anchor) for case, b in pairs for _ in case.candidates],
        _edits(last, candidates),
        [len(text) for text in candidates],
        [len(text.split()) for text in candidates],
        [b.frequency(c) for case, b in pairs for c in case.candidates],
        *trigram_cosines(cases, recent, RECENT),
        _context_edits(cases),
        qvmm,
    ]
    return FeatureTable(tuple(BASELINE_FEATURES), np.column_stack(columns))


def authors_features(cases: CaseSet, suffix_counts: Floats) -> dict[str, Floats]:
    """The columns that the authors' Baseline Ranker has instead of ours.

    Like their code, it looks at the first ten queries of a context that is longer.
    """
    recent = [case.context[:RECENT][::-1] for case in cases]
    shared = _products(cases, recent, RECENT, _trigram_marks)
    return {**dict(zip(SHARED_TRIGRAMS, shared, strict=True)), SUFFIX_COUNT: suffix_counts}


def _trigram_marks(texts: Sequence[str]) -> Any:
    """One row per text, with a 1 in the column of each trigram that it has."""
    return _sparse_rows([dict.fromkeys(letter_trigrams(text), 1.0) for text in texts])


def _trigram_vectors(texts: Sequence[str]) -> Any:
    """One row per text: the counts of the trigrams of its words, of unit length."""
    rows = []
    for text in texts:
        counts = word_trigrams(text)
        length = math.sqrt(sum(count * count for count in counts.values()))
        rows.append({part: count / length for part, count in counts.items()})
    return _sparse_rows(rows)


def _sparse_rows(rows: Sequence[Mapping[str, float]]) -> Any:
    columns: dict[str, int] = {}
    indices = [columns.setdefault(part, len(columns)) for row in rows for part in row]
    values = np.array([value for row in rows for value in row.values()], dtype=np.float64)
    ends = np.cumsum([0, *map(len, rows)])
    shape = len(rows), max(len(columns), 1)
    return csr_array((values, np.array(indices, dtype=np.int64), ends), shape)


def trigram_cosines(cases: CaseSet, recent: Sequence[Sequence[str]], columns: int) -> list[Floats]:
    """Cosines of the candidates' character trigrams with those of some queries of each case.

    Column 0 is of the first of them, flat over all candidates; 0 where a case has fewer queries.
    """
    return _products(cases, recent, columns, _trigram_vectors)


def _products(
    cases: CaseSet,
    recent: Sequence[Sequence[str]],
    columns: int,
    vectors_of: Callable[[Sequence[str]], Any],
) -> list[Floats]:
    """The products of each candidate's vector with those of some queries of its case.

    Each text is made a vector once, and each pair of texts multiplied once.
    """
    texts = list({text: None for texts in (cases.texts, *recent) for text in texts})
    ids = {text: number for number, text in enumerate(texts)}
    candidates = np.array([ids[text] for text in cases.texts], dtype=np.int64)
    products = np.zeros((columns, cases.rows))
    if not texts:
        return list(products)
    known = np.full((columns, len(cases)), -1, dtype=np.int64)
    for number, queries in enumerate(recent):
        recent_ids = [ids[query] for query in queries[:columns]]
        known[: len(recent_ids), number] = recent_ids
    queries_of = known[:, cases.owners]  # (columns, candidates)
    present = queries_of >= 0
    pairs = (queries_of * len(texts) + candidates)[present]
    distinct, back = np.unique(pairs, return_inverse=True)
    vectors = vectors_of(texts)
    product = vectors[distinct % len(texts)].multiply(vectors[distinct // len(texts)])
    products[present] = np.asarray(product.sum(axis=1), dtype=np.float64).ravel()[back]
    return list(products)


def _context_edits(cases: CaseSet) -> Floats:
    """The mean edits between a candidate and the queries of its context."""
    lengths = np.array([len(case.context) for case in cases], dtype=np.int64)
    counts = lengths[cases.owners]
    candidates = [text for text, n in zip(cases.texts, counts, strict=True) for _ in range(n)]
    queries = [query for case in cases for _ in case.candidates for query in case.context]
    owners = np.repeat(np.arange(len(counts)), counts)
    edits = _edits(candidates, queries)
    total = np.bincount(owners, weights=edits, minlength=len(counts)).astype(np.float64)
    means: Floats = total / np.maximum(counts, 1)
    return means


def _edits(left: Sequence[str], right: Sequence[str]) -> Floats:
    if not left:
        return np.zeros(0)
    return process.cpdist(left, right, scorer=Levenshtein.distance).astype(np.float64)


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
        >>> columns = QueryVectors(encoder).columns(CaseSet((case,)))
        >>> columns["meaning_last"].tolist(), columns["meaning_context"].tolist()
        ([1.0, 0.0], [0.0, 1.0])
        """
        self._encode(text for case in cases for text in (*case.context, *case.candidates))
        last, context = np.zeros((2, cases.rows))
        for case, start in zip(cases, cases.starts, strict=True):
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
        new = sorted(set(texts) - self._vectors.keys(), key=lambda text: (len(text), text))
        for start in range(0, len(new), _AT_A_TIME):
            batch = new[start : start + _AT_A_TIME]
            vectors = np.asarray(self._encoder(batch), dtype=np.float32)
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            self._vectors.update(zip(batch, vectors / np.maximum(lengths, 1e-12), strict=True))
