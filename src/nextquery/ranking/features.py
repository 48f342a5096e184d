"""The baseline ranker's features, as the paper's section 4.3 lists them.

Knows texts, the background's counts and the QVMM score; computes whole case sets at once. The paper
says 17 features; its list counts 18, and the list is what stands here. Scores of further models are
added by name (`with_scores`), in any of the forms of `ranking/scoring.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import HashingVectorizer

from nextquery.ranking.candidates import Backgrounds
from nextquery.ranking.cases import CaseSet, Floats

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
        found: Floats = self.values[:, self.names.index(name)]
        return found

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
    counts = [backgrounds.of(case.user) for case in cases.cases]
    pairs = list(zip(cases.cases, counts, strict=True))
    last = _spread(cases, [case.context[-1] if case.context else "" for case in cases.cases])
    columns: dict[str, Floats] = {
        "adj_count": _floats(
            [b.followers(case.anchor).get(c, 0) for case, b in pairs for c in case.candidates]
        ),
        "anchor_frequency": _floats(
            [b.frequency(case.anchor) for case, b in pairs for _ in case.candidates]
        ),
        "anchor_levenshtein": _edits(last, candidates),
        "characters": _floats([len(text) for text in candidates]),
        "words": _floats([len(text.split()) for text in candidates]),
        "frequency": _floats([b.frequency(c) for case, b in pairs for c in case.candidates]),
        **_similarities(cases),
        "context_levenshtein": _context_edits(cases),
        "qvmm": qvmm,
    }
    names = tuple(BASELINE_FEATURES)
    return FeatureTable(names, np.column_stack([columns[name] for name in names]))


def authors_features(cases: CaseSet, suffix_counts: Floats) -> dict[str, Floats]:
    """The columns that the authors' Baseline Ranker has instead of ours.

    Like their code, it looks at the first ten queries of a context that is longer.
    """
    recent = [case.context[:RECENT][::-1] for case in cases.cases]
    shared = _products(cases, recent, RECENT, _trigram_marks)
    return {**dict(zip(SHARED_TRIGRAMS, shared, strict=True)), SUFFIX_COUNT: suffix_counts}


def _trigram_marks(texts: Sequence[str]) -> Any:
    """A row per text, with a 1 in the column of each trigram that it has."""
    places: dict[str, int] = {}
    rows = [
        [places.setdefault(run, len(places)) for run in letter_trigrams(text)] for text in texts
    ]
    ends = np.cumsum([0, *map(len, rows)])
    columns = np.array([place for row in rows for place in row], dtype=np.int64)
    return csr_array((np.ones(len(columns)), columns, ends), (len(texts), max(len(places), 1)))


def letter_trigrams(text: str) -> frozenset[str]:
    """The different runs of three letters of a text; its letters if it is shorter.

    >>> sorted(letter_trigrams("cars"))
    ['ars', 'car']
    """
    runs = (text[place : place + 3] for place in range(len(text) - 2))
    return frozenset(runs) if len(text) >= 3 else frozenset(text)


def _similarities(cases: CaseSet) -> dict[str, Floats]:
    """Cosine of character trigrams between each candidate and each recent query."""
    recent = [case.context[::-1][:RECENT] for case in cases.cases]
    columns = trigram_cosines(cases, recent, RECENT)
    return {f"similarity_{back}": column for back, column in enumerate(columns, start=1)}


def trigram_cosines(cases: CaseSet, recent: Sequence[Sequence[str]], columns: int) -> list[Floats]:
    """Cosines of the candidates' character trigrams with those of some queries of each case.

    Column 0 is of the first of them, flat over all candidates; 0 where a case has fewer queries.
    """
    vectorizer = HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 3), n_features=2**20, alternate_sign=False
    )
    return _products(cases, recent, columns, vectorizer.transform)


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
    found = np.zeros((columns, cases.rows))
    if not texts:
        return list(found)
    known = np.full((columns, len(cases)), -1, dtype=np.int64)
    for number, queries in enumerate(recent):
        some = [ids[query] for query in queries[:columns]]
        known[: len(some), number] = some
    queries_of = known[:, cases.owners]  # (columns, candidates)
    present = queries_of >= 0
    pairs = (queries_of * len(texts) + candidates)[present]
    distinct, back = np.unique(pairs, return_inverse=True)
    vectors = vectors_of(texts)
    product = vectors[distinct % len(texts)].multiply(vectors[distinct // len(texts)])
    found[present] = np.asarray(product.sum(axis=1), dtype=np.float64).ravel()[back]
    return list(found)


def _context_edits(cases: CaseSet) -> Floats:
    """The mean edits between a candidate and the queries of its context."""
    lengths = np.array([len(case.context) for case in cases.cases], dtype=np.int64)
    counts = lengths[cases.owners]
    candidates = [text for text, n in zip(cases.texts, counts, strict=True) for _ in range(n)]
    queries = [query for case in cases.cases for _ in case.candidates for query in case.context]
    owners = np.repeat(np.arange(len(counts)), counts)
    edits = _edits(candidates, queries)
    total = np.bincount(owners, weights=edits, minlength=len(counts)).astype(np.float64)
    means: Floats = total / np.maximum(counts, 1)
    return means


def _edits(left: Sequence[str], right: Sequence[str]) -> Floats:
    if not left:
        return np.zeros(0)
    return process.cpdist(left, right, scorer=Levenshtein.distance).astype(np.float64)


def _spread(cases: CaseSet, values: Sequence[str]) -> list[str]:
    """One value per case becomes one per candidate."""
    return [value for value, size in zip(values, cases.sizes, strict=True) for _ in range(size)]


def _floats(values: Sequence[float]) -> Floats:
    return np.array(values, dtype=np.float64)
