import numpy as np
import pytest

from nextquery.ranking.cases import CaseSet, RankingCase
from nextquery.ranking.lambdarank import LambdaRank
from nextquery.ranking.native_lambdarank import native_function


@pytest.mark.parametrize("sizes", [[20] * 300, [2, 7, 20, 1, 13] * 60, [40, 35] * 60])
def test_the_kernel_gives_numpys_numbers_to_the_last_bit(sizes: list[int]) -> None:
    if native_function() is None:
        pytest.skip("nextquery-native is not installed, or too old")
    generator = np.random.default_rng(1)
    cases = CaseSet(
        tuple(
            RankingCase(number, ("a",), "a", ("q",) * size, int(generator.integers(size)), 2)
            for number, size in enumerate(sizes)
        )
    )
    native, numpy = LambdaRank(cases), LambdaRank(cases, native=False)
    rounded = np.round(generator.normal(size=cases.rows), 1)  # with ties
    far = 100 * generator.normal(size=cases.rows)
    for scores in (np.zeros(cases.rows), rounded, far, generator.normal(size=cases.rows)):
        for one, other in zip(native(scores), numpy(scores), strict=True):
            assert np.array_equal(one, other)
