"""How good an order of candidates is: MRR and hit rates. Knows ranks and nothing of systems.

MRR is the mean over cases of 1/rank(true next query); the hit rate at k is the share of cases with
rank <= k.
"""

from dataclasses import dataclass

import numpy as np

from nextquery.evaluation.ranking.significance import bootstrap_interval
from nextquery.ranking.cases import Floats, Integers


@dataclass(frozen=True)
class Quality:
    """The results of one system, with the 95% bootstrap interval of its MRR."""

    cases: int
    mrr: float
    mrr_low: float
    mrr_high: float
    hit_1: float
    hit_5: float
    mrr_by_seed: tuple[float, ...]
    """The MRR of each seed's ranker; one number for a system that is not learnt."""


def quality(ranks: Integers) -> Quality:
    """The quality of ranks of shape (seeds, cases): means over seeds, then over cases.

    >>> found = quality(np.array([[1, 2, 4, 1]]))
    >>> found.mrr, found.hit_1
    (0.6875, 0.5)
    """
    reciprocal = mean_reciprocal(ranks)
    low, high = bootstrap_interval(reciprocal)
    return Quality(
        cases=ranks.shape[1],
        mrr=float(reciprocal.mean()),
        mrr_low=low,
        mrr_high=high,
        hit_1=float((ranks <= 1).mean()),
        hit_5=float((ranks <= 5).mean()),
        mrr_by_seed=tuple((1.0 / ranks).mean(axis=1).tolist()),
    )


def mean_reciprocal(ranks: Integers) -> Floats:
    """The reciprocal rank of each case, averaged over the seeds."""
    return np.asarray((1.0 / ranks).mean(axis=0), dtype=np.float64)
