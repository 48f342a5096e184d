import numpy as np
import pytest

from nextquery.study.results import compare, holm


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


def test_a_clear_difference_is_significant_and_no_difference_is_not() -> None:
    draw = np.random.default_rng(1)
    base = draw.uniform(0, 0.5, 30)
    first, second, *_ = compare({"a": base + 0.3, "b": base, "c": base}, seed=1)
    assert first.p_corrected < 0.01
    assert second.p_corrected < 0.01
    assert compare({"a": base, "b": base}, seed=1)[0].p == 1
