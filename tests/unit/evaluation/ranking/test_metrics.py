import numpy as np
import pytest

from nextquery.evaluation.comparison import quality


def test_quality_by_hand() -> None:
    ranks = np.array([[1, 2, 10, 4], [1, 4, 10, 2]])
    found = quality(ranks)

    assert found.cases == 4
    assert found.mrr == pytest.approx((1 + 0.375 + 0.1 + 0.375) / 4)
    assert found.hit_1 == pytest.approx(1 / 4)
    assert found.hit_5 == pytest.approx(3 / 4)
    assert found.mrr_by_seed == pytest.approx((1.85 / 4, 1.85 / 4))
    assert found.mrr_low < found.mrr < found.mrr_high
