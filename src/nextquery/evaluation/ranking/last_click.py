"""Do systems bring what satisfies: sessions whose last query was clicked against those not.

Of a session's last query a log knows whether a result was clicked, not how long its user stayed. A
system that prefers useful queries should rank the clicked ones higher and the others lower; where
clicks come by chance it should do neither. Knows ranks by system, and models that judge usefulness.
"""

from collections.abc import Iterable, Set

import numpy as np
import polars as pl

from nextquery.evaluation.ranking.comparison import RankingResult, SystemRanks
from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.cases import CaseSet, Floats
from nextquery.ranking.scoring import BATCH
from nextquery.suggesters.base import UsefulnessJudge

USEFUL = "useful"
"""The form `MODEL:useful` of a score: log P(q and useful | session)."""


def clicked_endings(data: PreparedData, splits: Iterable[str]) -> frozenset[int]:
    """The sessions whose last query was clicked."""
    found: set[int] = set()
    for split in splits:
        last = pl.col("clicks").sort_by("position").last()
        ends = data.session_rows(split).group_by("session").agg(last)
        found.update(ends.filter(pl.col("clicks") > 0).collect()["session"])
    return frozenset(found)


def useful_scores(model: object, cases: CaseSet, log_likelihoods: Floats) -> Floats | None:
    """log P(q and useful | session) of all candidates, flat; None of a model without a head."""
    if not isinstance(model, UsefulnessJudge) or not model.judges_usefulness:
        return None
    found: list[float] = []
    for start in range(0, len(cases), BATCH):
        some = cases.cases[start : start + BATCH]
        judged = model.usefulness_many(
            [case.context for case in some], [case.candidates for case in some]
        )
        found += [each for row in judged for each in row]
    return np.asarray(log_likelihoods + np.log(np.array(found)), dtype=np.float64)


def by_last_click(found: SystemRanks, clicked: Set[int]) -> dict[str, RankingResult]:
    """Every system where the last query was clicked and where it was not; empty without clicks."""
    if not clicked:
        return {}
    marks = np.array([case.session in clicked for case in found.cases.cases], dtype=np.bool_)
    names = [name for name in found.ranks if name.endswith(f":{USEFUL}")]
    pairs = [(name, name.removesuffix(f":{USEFUL}")) for name in names]
    return {
        "clicked": found.select(marks).summary(pairs),
        "not_clicked": found.select(~marks).summary(pairs),
    }
