"""WeightProducts of rows with the weight matrices of a model, by name.

NumPy's products wake threads of their own as soon as a matrix is not tiny, and these wait for the
next product by spinning: beside a search, whose steps are kernels on one core, that doubled the
processor time of a list. So few rows go to the compiled kernel, where it is installed; many rows,
as when a whole log is encoded, are worth NumPy's threads.
"""

import numpy as np

from nextquery.inference.kernels.library import Library, address, native_library
from nextquery.inference.network.weights import Floats, Weights

MOST_ROWS = 256
"""More rows than a search of several contexts has go to NumPy."""


class WeightProducts:
    """Multiplies rows with weights; a matrix is packed for the kernel when it is first needed."""

    def __init__(self, weights: Weights, library: Library | None = None) -> None:
        """Without a `library`, the installed one is taken."""
        self._weights = weights
        self._library = library or native_library()
        self._packed: dict[str, Floats] = {}

    def times(self, name: str, rows: Floats) -> Floats:
        """`rows` (rows, inputs) times the transpose of the matrix `name` (outputs, inputs)."""
        matrix = self._weights[name]
        if self._library is None or len(rows) > MOST_ROWS:
            return np.asarray(rows @ matrix.T)
        packed = self._packed.get(name)
        if packed is None:
            packed = self._packed[name] = self._library.packed(matrix)
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        outputs, inputs = matrix.shape
        found = np.empty((len(rows), outputs), dtype=np.float32)
        self._library.product(
            *(address(rows), len(rows), address(packed), outputs, inputs, None, address(found))
        )
        return found
