"""Results of a study: judgements per model, agreement of assessors, paired comparisons.

`first_pass` describes a pool before people judge it, to find pools that are not worth their time:
models that say the same, lists that are empty or repeat what was typed. It is not a study.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from nextquery.evaluation.comparison import holm
from nextquery.normalise import normalise_query
from nextquery.study.pool import GRADES, SOMEWHAT, USEFUL, Judgement, Key, Pool, PooledTopic

Ratings = Sequence[Sequence[int]]
"""For each item the grades it got, in any order; items may have different numbers of grades."""


def fleiss_kappa(ratings: Ratings) -> float | None:
    """Fleiss' kappa of grades, whatever their order (Fleiss 1971).

    kappa = (P - P_e) / (1 - P_e), with P the mean share of agreeing pairs of assessors per item and
    P_e the sum of squared category shares. Items with fewer than two grades are left out. None
    where it is undefined: nothing to compare, or only one category was ever used.
    """
    counts = _grade_counts(ratings)
    if not len(counts):
        return None
    totals = counts.sum(axis=1)
    agreeing = ((counts * (counts - 1)).sum(axis=1) / (totals * (totals - 1))).mean()
    expected = float(((counts.sum(axis=0) / counts.sum()) ** 2).sum())
    return None if expected == 1 else float((agreeing - expected) / (1 - expected))


def krippendorff_alpha(ratings: Ratings) -> float | None:
    """Krippendorff's alpha of ordered grades (Krippendorff 2011).

    alpha = 1 - D_o / D_e over the coincidence matrix, with the ordinal difference
    (n_c/2 + n_between + n_k/2)^2 between grades c and k. None where it is undefined.
    """
    counts = _grade_counts(ratings)
    if not len(counts):
        return None
    totals = counts.sum(axis=1, keepdims=True)
    pairs = counts[:, :, None] * counts[:, None, :]  # (items, grade, grade)
    pairs -= counts[:, :, None] * np.eye(len(GRADES))
    coincidences = (pairs / (totals[:, :, None] - 1)).sum(axis=0)
    marginals = coincidences.sum(axis=1)
    middle = np.cumsum(marginals) - marginals / 2
    difference = np.square(middle[:, None] - middle[None, :])
    expected = float((np.outer(marginals, marginals) * difference).sum())
    if expected == 0:
        return None
    observed = float((coincidences * difference).sum())
    return 1 - float(marginals.sum() - 1) * observed / expected


def _grade_counts(ratings: Ratings) -> NDArray[np.float64]:
    """How often each item got each grade: (items with two grades or more, categories)."""
    rows = [np.bincount(grades, minlength=len(GRADES)) for grades in ratings if len(grades) > 1]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(GRADES))


RESAMPLES = 10_000
SEED = 1
"""Of permutations and resamples."""


@dataclass(frozen=True)
class Comparison:
    """Two models paired over queries: the difference in gain and its corrected p-value."""

    a: str
    b: str
    difference: float
    p: float
    p_corrected: float


def compare(gains: Mapping[str, NDArray[np.float64]]) -> tuple[Comparison, ...]:
    """Every pair of models by a paired permutation test over queries, corrected after Holm."""
    pairs = list(combinations(gains, 2))
    values = [_p_value(gains[a] - gains[b]) for a, b in pairs]
    corrected = holm(values)
    return tuple(
        Comparison(a, b, float(np.mean(gains[a] - gains[b])) if len(gains[a]) else 0.0, p, q)
        for (a, b), p, q in zip(pairs, values, corrected, strict=True)
    )


def _p_value(differences: NDArray[np.float64]) -> float:
    if len(differences) < 2 or not differences.any():
        return 1.0
    test = stats.permutation_test(
        (differences,),
        np.mean,
        permutation_type="samples",
        n_resamples=RESAMPLES,
        rng=np.random.default_rng(SEED),
    )
    return float(test.pvalue)


@dataclass(frozen=True)
class Share:
    """A share with its 95% confidence interval (bootstrap over queries)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ModelResults:
    """One model: the share of each judgement, and what it did with the places it had."""

    model: str
    judged: int
    suggestions: int
    topics_covered: int
    shares: Mapping[str, Share]
    positive: Share
    """Useful or somewhat useful: the figure that the paper states."""
    gain: float
    """Mean grade over all places (an empty one counts 0), as a share of the highest grade."""


@dataclass(frozen=True)
class Agreement:
    """How far the assessors agree, over all and for each against the others."""

    fleiss_kappa: float | None
    krippendorff_alpha: float | None
    items: int


@dataclass(frozen=True)
class GroupResults:
    """The results on one group of topics."""

    topics: tuple[int, ...]
    queries: int
    """Distinct queries among the topics: a query with three contexts is three topics."""
    models: tuple[ModelResults, ...]
    comparisons: tuple[Comparison, ...]
    agreement: Agreement


@dataclass(frozen=True)
class StudyResults:
    """Everything the judgements say, by group of topics."""

    groups: Mapping[str, GroupResults]
    assessors: Mapping[int, int]
    """How many suggestions each assessor with a link has judged, 0 included."""
    assessor_agreement: Mapping[int, float | None]
    items: int
    missing: Mapping[int, int]
    """How many suggestions each assessor has still to judge; those who are done are left out."""
    complete: bool
    """Whether every assessor has judged everything: the paper's end of a study."""


def evaluate_study(
    pool: Pool, key: Key, judgements: Sequence[Judgement], assessors: Sequence[int] = ()
) -> StudyResults:
    """The results on all topics, on those with a context and on those without.

    `assessors` are the numbers of all who have a link, whether they have judged or not.
    """
    groups = {
        "all": [t.id for t in pool.topics],
        "with context": [t.id for t in pool.topics if t.topic.context],
        "without context": [t.id for t in pool.topics if not t.topic.context],
    }
    items = sum(len(t.items) for t in pool.topics)
    judged = Counter(dict.fromkeys(assessors, 0))
    judged.update(judgement.assessor for judgement in judgements)
    missing = {
        assessor: items - count for assessor, count in sorted(judged.items()) if count < items
    }
    return StudyResults(
        groups={name: evaluate(pool, key, judgements, topics) for name, topics in groups.items()},
        assessors=dict(sorted(judged.items())),
        assessor_agreement=agreement_by_assessor(judgements),
        items=items,
        missing=missing,
        complete=bool(judged) and not missing,
    )


def evaluate(
    pool: Pool, key: Key, judgements: Sequence[Judgement], topics: Sequence[int]
) -> GroupResults:
    """The results on some topics; models in the order of their gain, best first.

    Contexts of one query are not independent: what is resampled and paired is the query, with the
    judgements of all its contexts (shares) or the mean over them (gain).
    """
    grades = _grades(judgements)
    texts = {t.id: normalise_query(t.topic.query) or t.topic.query for t in pool.topics}
    numbers: dict[str, int] = {}
    query_of = [numbers.setdefault(texts[topic], len(numbers)) for topic in topics]
    models, gains = [], {}
    for model in key.given:
        counts = _counts(key, model, topics, grades)
        gains[model] = _mean_by_query(_gains(key, counts), query_of)
        by_query = _sum_by_query(counts, query_of)
        models.append(_model_results(model, key, topics, by_query, gains[model]))
    shown = {i.id for t in pool.topics if t.id in set(topics) for i in t.items}
    return GroupResults(
        tuple(topics),
        len(numbers),
        tuple(sorted(models, key=lambda model: (-model.gain, model.model))),
        compare(gains),
        agreement({item: rated for item, rated in grades.items() if item in shown}),
    )


def topic_gains(
    key: Key, judgements: Sequence[Judgement], topics: Sequence[int]
) -> dict[str, NDArray[np.float64]]:
    """By model: the gain on each of the topics."""
    grades = _grades(judgements)
    return {model: _gains(key, _counts(key, model, topics, grades)) for model in key.given}


def agreement(grades: Mapping[int, Sequence[int]]) -> Agreement:
    """Fleiss' kappa and Krippendorff's alpha over the items judged at least twice."""
    ratings = [rated for rated in grades.values() if len(rated) > 1]
    return Agreement(fleiss_kappa(ratings), krippendorff_alpha(ratings), len(ratings))


def agreement_by_assessor(judgements: Sequence[Judgement]) -> dict[int, float | None]:
    """For each assessor, alpha between them and each of the others, averaged.

    An assessor who flips coins stands out by a value near 0.
    """
    by_assessor: dict[int, dict[int, int]] = {}
    for judgement in judgements:
        by_assessor.setdefault(judgement.assessor, {})[judgement.item] = GRADES[judgement.value]
    agreement: dict[int, float | None] = {}
    for assessor, grades in sorted(by_assessor.items()):
        values = [
            krippendorff_alpha(
                [[grades[item], other[item]] for item in grades.keys() & other.keys()]
            )
            for number, other in by_assessor.items()
            if number != assessor
        ]
        defined = [value for value in values if value is not None]
        agreement[assessor] = float(np.mean(defined)) if defined else None
    return agreement


def _sum_by_query(rows: NDArray[np.float64], query_of: Sequence[int]) -> NDArray[np.float64]:
    """Rows of topics added up per query: (queries, ...)."""
    sums = np.zeros((len(set(query_of)), *rows.shape[1:]))
    np.add.at(sums, np.asarray(query_of, dtype=np.int64), rows)
    return sums


def _mean_by_query(gains: NDArray[np.float64], query_of: Sequence[int]) -> NDArray[np.float64]:
    if not len(gains):
        return gains
    return np.asarray(_sum_by_query(gains, query_of) / np.bincount(query_of))


def _grades(judgements: Sequence[Judgement]) -> dict[int, list[int]]:
    grades: dict[int, list[int]] = {}
    for judgement in judgements:
        grades.setdefault(judgement.item, []).append(GRADES[judgement.value])
    return grades


def _counts(
    key: Key, model: str, topics: Sequence[int], grades: Mapping[int, Sequence[int]]
) -> NDArray[np.float64]:
    """Judgements of the model's suggestions by topic and grade, averaged over assessors per item.

    (topics, grades): each judged suggestion adds 1 in all, whatever the number of its assessors.
    """
    counts = np.zeros((len(topics), len(GRADES)))
    for row, topic in enumerate(topics):
        for item in key.given[model].get(topic, ()):
            for grade in grades.get(item, ()):
                counts[row, grade] += 1 / len(grades[item])
    return counts


def _gains(key: Key, counts: NDArray[np.float64]) -> NDArray[np.float64]:
    best = max(GRADES.values()) * key.places
    return np.asarray(counts @ np.arange(len(GRADES)) / best)


def _model_results(
    model: str,
    key: Key,
    topics: Sequence[int],
    counts: NDArray[np.float64],
    gains: NDArray[np.float64],
) -> ModelResults:
    lists = [key.given[model].get(topic, ()) for topic in topics]
    resampled = _resampled_shares(counts)
    total = counts.sum(axis=0)
    shares = {name: _share(total, resampled, [grade]) for name, grade in GRADES.items()}
    return ModelResults(
        model,
        judged=round(total.sum()),
        suggestions=sum(map(len, lists)),
        topics_covered=sum(map(bool, lists)),
        shares=shares,
        positive=_share(total, resampled, [GRADES[USEFUL], GRADES[SOMEWHAT]]),
        gain=float(gains.mean()) if len(gains) else 0.0,
    )


def _share(total: NDArray[np.float64], resampled: NDArray[np.float64], grades: list[int]) -> Share:
    """The share of some grades together, with the middle 95% of the resampled ones."""
    low, high = np.quantile(resampled[:, grades].sum(axis=1), [0.025, 0.975]).tolist()
    return Share(float(total[grades].sum() / total.sum()) if total.any() else 0.0, low, high)


def _resampled_shares(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The shares of each grade when queries are drawn with replacement: (resamples, grades)."""
    counts = counts[counts.sum(axis=1) > 0]
    if not len(counts):
        return np.zeros((1, len(GRADES)))
    draw = np.random.default_rng(SEED)
    weights = draw.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), RESAMPLES)
    sums = weights @ counts
    return np.asarray(sums / sums.sum(axis=1, keepdims=True))


NOTICE = "Automatic first pass: no person has judged. These figures are not a study."


@dataclass(frozen=True)
class ModelFacts:
    """One model's lists, as shares of the places it had or of the suggestions it made."""

    model: str
    filled: float
    """Places with a suggestion."""
    repeats: float
    """Suggestions that the session already has."""
    extends: float
    """Suggestions that keep every word of the topic and add some."""
    alone: float
    """Suggestions that no other model makes for the same topic."""


@dataclass(frozen=True)
class FirstPass:
    """The facts of a pool; `judged_by` says in every form that nobody judged."""

    notice: str
    judged_by: str
    topics: int
    items: int
    same_lists: int
    """Topics for which all models make the same suggestions: there is nothing to judge."""
    models: tuple[ModelFacts, ...]


def first_pass(pool: Pool, key: Key) -> FirstPass:
    """Look at every list of a study without judging any."""
    lists = key.given
    same = sum(len({frozenset(lists[m].get(t.id, ())) for m in lists}) == 1 for t in pool.topics)
    return FirstPass(
        notice=NOTICE,
        judged_by="nobody",
        topics=len(pool.topics),
        items=sum(len(topic.items) for topic in pool.topics),
        same_lists=same,
        models=tuple(_model_facts(model, pool.topics, key) for model in lists),
    )


def _model_facts(model: str, topics: Sequence[PooledTopic], key: Key) -> ModelFacts:
    suggestions = repeats = extends = alone = 0
    for topic in topics:
        texts = {item.id: normalise_query(item.text) for item in topic.items}
        session = {normalise_query(query) for query in (*topic.topic.context, topic.topic.query)}
        words = set(normalise_query(topic.topic.query).split())
        other_models = {
            item
            for name, lists in key.given.items()
            if name != model
            for item in lists.get(topic.id, ())
        }
        for item in key.given[model].get(topic.id, ()):
            suggestions += 1
            repeats += texts[item] in session
            extends += words < set(texts[item].split())
            alone += item not in other_models
    positions = key.places * len(topics)
    divisor = max(suggestions, 1)
    return ModelFacts(
        model,
        suggestions / max(positions, 1),
        repeats / divisor,
        extends / divisor,
        alone / divisor,
    )
