from dataclasses import replace
from pathlib import Path

import pytest

from nextquery.evaluation.learning_curve import (
    SHARES,
    CurveSettings,
    LearningCurve,
    keep_share,
    learning_curve,
)
from nextquery.evaluation.scenario_run import RankingSettings
from nextquery.evaluation.scenarios import Rules
from nextquery.evaluation.steps import show_steps
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.base import Scorer


def test_it_pays_from_where_every_larger_size_gains(curve: LearningCurve) -> None:
    assert curve.begins_to_pay("hred") == 2000
    assert curve.begins_to_pay("hred", level=0.0005) == 4000
    worse = replace(curve.points[-1], comparisons=())
    assert replace(curve, points=(*curve.points, worse)).begins_to_pay("hred") is None


def test_smaller_shares_of_the_users_are_part_of_larger_ones() -> None:
    users = [f"user {number}" for number in range(3000)]
    kept = [{user for user in users if keep_share(share)(user)} for share in SHARES]

    assert kept[-1] == set(users)
    for share, smaller, larger in zip(SHARES, kept, kept[1:], strict=False):
        assert smaller < larger
        assert len(smaller) == pytest.approx(share * 3000, rel=0.2)


@pytest.mark.slow
@pytest.mark.slow
def test_count_systems_are_fitted_anew_and_a_given_one_is_not(
    small_data: PreparedData, shared_words: Scorer, tmp_path: Path
) -> None:
    settings = CurveSettings(RankingSettings(Rules(), 1, 200), contexts=40, config=None)
    with show_steps() as steps:
        found = learning_curve(small_data, tmp_path, {"mine": shared_words}, settings, steps)

    sessions = [point.sessions for point in found.points]
    assert sessions == sorted(sessions)
    assert sessions[-1] == len(list(small_data.sessions("background")))
    assert "mine" not in found.refitted
    mine = [point.ranking["mine"].mrr for point in found.points]
    # the same cases and system at every size, but for ties, which go by frequency
    assert max(mine) - min(mine) < 0.02
    assert found.points[0].ranking["adj"].mrr < found.points[-1].ranking["adj"].mrr
    coverage = [point.alone["adj"].coverage for point in found.points]
    assert coverage[0] is not None
    assert coverage[-1] is not None
    assert coverage[0] < coverage[-1]
    perplexity = [point.alone["qvmm"].perplexity for point in found.points]
    assert perplexity[0] is not None
    assert perplexity[-1] is not None
    assert perplexity[0] > perplexity[-1]
    assert found.points[0].alone["mine"].coverage is None
    assert not list(tmp_path.iterdir())
