"""QVMM as the authors' code has it: the raw count after the longest known part of the context."""

import numpy as np

from nextquery.ranking.cases import CaseSet, Floats
from nextquery.suggesters.qvmm import QVMM


def suffix_counts(qvmm: QVMM, cases: CaseSet) -> Floats:
    """How often each candidate followed the longest known end of its context, flat.

    Zero where nothing is known. `qvmm` should not be pruned.
    """
    rows = [_counts(qvmm, case.context, case.candidates) for case in cases.cases]
    return np.concatenate(rows) if rows else np.zeros(0)


def _counts(qvmm: QVMM, context: tuple[str, ...], candidates: tuple[str, ...]) -> Floats:
    recent = context[-qvmm.settings.depth :]
    known = qvmm.background.newest_known(recent, shorten=qvmm.settings.shorten)
    path = qvmm.tree.match(known.queries)
    if not path:
        return np.zeros(len(candidates))
    ids = [qvmm.background.id(text) for text in candidates]
    wanted = np.array([-1 if query is None else query for query in ids], np.int64)
    return qvmm.tree.followers.count(path[-1], wanted).astype(np.float64)
