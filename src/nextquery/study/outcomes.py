"""What the judgements say about each model. Pure computation; knows no files and no page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from nextquery.study.agreement import fleiss_kappa, krippendorff_alpha
from nextquery.study.judgements import GRADES, Judgement
from nextquery.study.pool import Key, Pool

RESAMPLES = 10_000


@dataclass(frozen=True)
class Share:
    """A share with its 95% confidence interval (bootstrap over topics)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ModelOutcome:
    """One model: the share of each judgement, and what it did with the places it had."""

    model: str
    judged: int
    suggestions: int
    topics_covered: int
    shares: Mapping[str, Share]
    gain: float
    """Mean grade over all places (an empty one counts 0), as a share of the highest grade."""


@dataclass(frozen=True)
class Comparison:
    """Two models paired over topics: the difference in gain and its corrected p-value."""

    a: str
    b: str
    difference: float
    p: float
    p_corrected: float


@dataclass(frozen=True)
class Agreement:
    """How far the assessors agree, over all and for each against the others."""

    fleiss_kappa: float | None
    krippendorff_alpha: float | None
    items: int


@dataclass(frozen=True)
class Outcome:
    """The result for one group of topics."""

    topics: tuple[int, ...]
    models: tuple[ModelOutcome, ...]
    comparisons: tuple[Comparison, ...]
    agreement: Agreement


@dataclass(frozen=True)
class StudyOutcome:
    """Everything the judgements say, by group of topics."""

    groups: Mapping[str, Outcome]
    assessors: Mapping[int, int]
    """How many suggestions each assessor has judged."""
    assessor_agreement: Mapping[int, float | None]
    items: int


def evaluate_study(pool: Pool, key: Key, judgements: Sequence[Judgement]) -> StudyOutcome:
    """The outcome on all topics, on those with a context and on those without."""
    groups = {
        "all": [t.id for t in pool.topics],
        "with context": [t.id for t in pool.topics if t.topic.context],
        "without context": [t.id for t in pool.topics if not t.topic.context],
    }
    assessors: dict[int, int] = {}
    for judgement in judgements:
        assessors[judgement.assessor] = assessors.get(judgement.assessor, 0) + 1
    return StudyOutcome(
        {name: evaluate(pool, key, judgements, topics) for name, topics in groups.items()},
        dict(sorted(assessors.items())),
        agreement_by_assessor(judgements),
        sum(len(t.items) for t in pool.topics),
    )


def evaluate(
    pool: Pool, key: Key, judgements: Sequence[Judgement], topics: Sequence[int], seed: int = 1
) -> Outcome:
    """The outcome on some topics; models in the order of their gain, best first."""
    grades = _grades(judgements)
    counts = {model: _counts(key, model, topics, grades) for model in key.given}
    gains = {model: _gains(key, counts[model]) for model in key.given}
    models = [
        _model_outcome(model, key, topics, counts[model], gains[model], seed) for model in key.given
    ]
    shown = {i.id for t in pool.topics if t.id in set(topics) for i in t.items}
    return Outcome(
        tuple(topics),
        tuple(sorted(models, key=lambda outcome: (-outcome.gain, outcome.model))),
        compare(gains, seed),
        agreement({item: given for item, given in grades.items() if item in shown}),
    )


def topic_gains(key: Key, judgements: Sequence[Judgement], topic: int) -> list[float]:
    """The gain of each model on one topic, in the key's order."""
    grades = _grades(judgements)
    return [float(_gains(key, _counts(key, model, [topic], grades))[0]) for model in key.given]


def agreement(grades: Mapping[int, Sequence[int]]) -> Agreement:
    """Fleiss' kappa and Krippendorff's alpha over the items judged at least twice."""
    ratings = [given for given in grades.values() if len(given) > 1]
    return Agreement(fleiss_kappa(ratings), krippendorff_alpha(ratings), len(ratings))


def agreement_by_assessor(judgements: Sequence[Judgement]) -> dict[int, float | None]:
    """For each assessor, alpha between them and each of the others, averaged.

    An assessor who flips coins stands out by a value near 0.
    """
    by_assessor: dict[int, dict[int, int]] = {}
    for judgement in judgements:
        by_assessor.setdefault(judgement.assessor, {})[judgement.item] = GRADES[judgement.value]
    found: dict[int, float | None] = {}
    for assessor, own in sorted(by_assessor.items()):
        values = [
            krippendorff_alpha([[own[item], other[item]] for item in own.keys() & other.keys()])
            for number, other in by_assessor.items()
            if number != assessor
        ]
        defined = [value for value in values if value is not None]
        found[assessor] = float(np.mean(defined)) if defined else None
    return found


def compare(gains: Mapping[str, NDArray[np.float64]], seed: int) -> tuple[Comparison, ...]:
    """Every pair of models by a paired permutation test over topics, corrected after Holm."""
    pairs = list(combinations(gains, 2))
    values = [_p_value(gains[a] - gains[b], seed) for a, b in pairs]
    corrected = holm(values)
    return tuple(
        Comparison(a, b, float(np.mean(gains[a] - gains[b])) if len(gains[a]) else 0.0, p, q)
        for (a, b), p, q in zip(pairs, values, corrected, strict=True)
    )


def holm(values: Sequence[float]) -> list[float]:
    """Holm's step-down correction, in the given order."""
    order = np.argsort(values, kind="stable")
    scaled = [min(1.0, values[i] * (len(values) - rank)) for rank, i in enumerate(order)]
    corrected = [0.0] * len(values)
    for index, value in zip(order, np.maximum.accumulate(scaled), strict=True):
        corrected[index] = float(value)
    return corrected


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


def _model_outcome(
    model: str,
    key: Key,
    topics: Sequence[int],
    counts: NDArray[np.float64],
    gains: NDArray[np.float64],
    seed: int,
) -> ModelOutcome:
    lists = [key.given[model].get(topic, ()) for topic in topics]
    resampled = _resampled_shares(counts, seed)
    total = counts.sum()
    shares = {
        name: Share(
            float(counts[:, grade].sum() / total) if total else 0.0,
            *np.quantile(resampled[:, grade], [0.025, 0.975]).tolist(),
        )
        for name, grade in GRADES.items()
    }
    return ModelOutcome(
        model,
        judged=round(total),
        suggestions=sum(map(len, lists)),
        topics_covered=sum(map(bool, lists)),
        shares=shares,
        gain=float(gains.mean()) if len(gains) else 0.0,
    )


def _resampled_shares(counts: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """The shares of each grade when the topics are drawn with replacement: (resamples, grades)."""
    counts = counts[counts.sum(axis=1) > 0]
    if not len(counts):
        return np.zeros((1, len(GRADES)))
    draw = np.random.default_rng(seed)
    weights = draw.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), RESAMPLES)
    sums = weights @ counts
    return np.asarray(sums / sums.sum(axis=1, keepdims=True))


def _p_value(differences: NDArray[np.float64], seed: int) -> float:
    if len(differences) < 2 or not differences.any():
        return 1.0
    test = stats.permutation_test(
        (differences,),
        np.mean,
        permutation_type="samples",
        n_resamples=RESAMPLES,
        rng=np.random.default_rng(seed),
    )
    return float(test.pvalue)
