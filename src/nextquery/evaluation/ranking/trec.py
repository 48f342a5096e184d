"""TREC run and qrels files, which the field's own tools read.

Knows case sets and scores. Each case is a topic named by its session, its candidates are documents
`c0`, `c1`, ... in the order of the case. Tools break ties each in their own way, so the score
written is the place from the end of the ranked list: equal scores cannot occur.
"""

from pathlib import Path

import numpy as np

from nextquery.artifacts import write_text
from nextquery.ranking.cases import CaseSet, Floats


def write_qrels(path: Path, cases: CaseSet) -> None:
    """Which candidate of each case the user really typed."""
    lines = [f"{case.session} 0 c{case.target} 1\n" for case in cases.cases]
    write_text(path, "".join(lines))


def write_run(path: Path, cases: CaseSet, scores: Floats, system: str) -> None:
    """The candidates of each case, best first; ties go to the earlier candidate."""
    lines = []
    for case, start, size in zip(cases.cases, cases.starts, cases.sizes, strict=True):
        order = np.argsort(-scores[start : start + size], kind="stable")
        lines += [
            f"{case.session} Q0 c{candidate} {rank} {size - rank} {system}\n"
            for rank, candidate in enumerate(order, start=1)
        ]
    write_text(path, "".join(lines))
