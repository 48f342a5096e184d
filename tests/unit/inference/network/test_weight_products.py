"""WeightProducts with weights: the same numbers by either way, and no threads for few rows."""

import subprocess
import sys

import numpy as np
import pytest

from nextquery.inference.hred_network import MOST_ROWS, WeightProducts
from nextquery.inference.native import native_library

WEIGHTS = {
    "wide": np.random.default_rng(1).normal(size=(77, 130)).astype(np.float32),
    "one": np.random.default_rng(2).normal(size=(1, 3)).astype(np.float32),
}


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("count", [0, 1, 5, 6, 7, MOST_ROWS, MOST_ROWS + 1])
def test_the_kernel_gives_what_numpy_gives(name: str, count: int) -> None:
    matrix = WEIGHTS[name]
    rows = np.random.default_rng(3).normal(size=(count, matrix.shape[1])).astype(np.float32)

    found = WeightProducts(WEIGHTS, native_library()).times(name, rows)

    assert found.shape == (count, len(matrix))
    np.testing.assert_allclose(found, rows @ matrix.T, rtol=1e-5, atol=1e-4)


def test_rows_may_lie_anyhow_in_memory() -> None:
    matrix = WEIGHTS["wide"]
    rows = np.asfortranarray(np.random.default_rng(4).normal(size=(9, 260)).astype(np.float32))

    found = WeightProducts(WEIGHTS, native_library()).times("wide", rows[:, ::2])

    np.testing.assert_allclose(found, rows[:, ::2] @ matrix.T, rtol=1e-5, atol=1e-4)


SEARCH = """
import time
import numpy as np
from nextquery.inference.hred_network import WeightProducts
from nextquery.inference.native import native_library
products = WeightProducts({"matrix": np.ones((512, 512), dtype=np.float32)}, native_library())
rows = np.ones((64, 512), dtype=np.float32)
start = time.process_time() - time.thread_time()
for _ in range(200):
    products.times("matrix", rows)
print(time.process_time() - time.thread_time() - start)
"""


@pytest.mark.skipif(native_library() is None, reason="the compiled kernels are not installed")
def test_few_rows_start_no_threads() -> None:
    """Processor time of other threads: NumPy's would spin between two products."""
    run = [sys.executable, "-c", SEARCH]
    ran = subprocess.run(run, capture_output=True, text=True, check=True)

    assert float(ran.stdout) < 0.001
