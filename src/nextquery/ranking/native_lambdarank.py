"""The gradients of LambdaRank by the compiled kernels of `nextquery-native`, if they are installed.

The same numbers as `lambdarank.py` computes with NumPy, to the last bit, in half the time.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.inference.kernels.library import address
from nextquery.ranking.cases import CaseSet, Floats, Integers

_FUNCTION = "nextquery_lambdarank"
_ARRAY, _NUMBER, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
_ARGUMENTS = (
    *(_ARRAY, _ARRAY, _ARRAY, _ARRAY, _NUMBER),  # scores, starts, sizes, places, cases
    *(_ARRAY, _ARRAY, _NUMBER, _FLOAT),  # discounts; the table, its bins and reach
    *(_FLOAT, _NUMBER, _ARRAY, _ARRAY, _ARRAY),  # smallest distance, truncation, order, gradients
)


@cache
def native_function() -> Callable[..., None] | None:
    """The kernel, None where it is not installed."""
    try:
        path: str = import_module("nextquery_native").library_path()
        function: Any = getattr(ctypes.CDLL(path), _FUNCTION)
    except (ImportError, OSError, AttributeError):
        return None
    function.argtypes, function.restype = _ARGUMENTS, None
    found: Callable[..., None] = function
    return found


class NativeLambdaRank:
    """The kernel with what it is told at every call; one thread at a time."""

    def __init__(
        self, function: Callable[..., None], cases: CaseSet, discounts: Floats, table: Floats
    ) -> None:
        self._function = function
        self._layout: tuple[Integers, ...] = tuple(
            np.ascontiguousarray(each)
            for each in (cases.starts, cases.sizes, cases.targets - cases.starts)
        )
        self._discounts, self._table = discounts, table
        self._cases, self._rows = len(cases), cases.rows
        # Sorted in place: after one more tree the order is nearly the same.
        self._order = (np.arange(cases.rows) - cases.starts[cases.owners]).astype(np.uint16)

    def __call__(
        self, scores: Floats, reach: float, smallest: float, truncation: int
    ) -> NDArray[np.float32]:
        """First and second derivatives: (2, candidates)."""
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        found = np.empty((2, self._rows), dtype=np.float32)
        self._function(
            *(address(each) for each in (scores, *self._layout)),
            self._cases,
            *(address(self._discounts), address(self._table), len(self._table), reach),
            *(smallest, truncation, address(self._order), address(found[0]), address(found[1])),
        )
        return found
