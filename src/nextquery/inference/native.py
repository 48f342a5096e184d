"""The compiled library `nextquery-native`: loading, version check, calls."""

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.inference.weights import Floats

ABI = 5

_INTEGER, _POINTER = ctypes.c_int64, ctypes.c_void_p
_ALIGNED = 64
_BLOCK = 64


def _record(name: str, *fields: tuple[Any, str]) -> type[ctypes.Structure]:
    """A C record from types and names, several names of one type between spaces."""
    pairs = [(each, kind) for kind, names in fields for each in names.split()]
    return type(name, (ctypes.Structure,), {"_fields_": pairs})


MatrixRecord = _record(
    "MatrixRecord",
    (_POINTER, "packed rounded scale"),
    (_INTEGER, "largest"),
)
DecoderRecord = _record(
    "DecoderRecord",
    (_INTEGER, "words width word_size state_size"),
    (_POINTER, "word_vectors"),
    (MatrixRecord, "word_inputs"),
    (_POINTER, "input_table previous_table gate_bias"),
    (MatrixRecord, "gates candidate output_state"),
    (_POINTER, "output_start output_vectors added exact_vectors rough_vectors"),
    (_POINTER, "rough_scale rough_sums"),
    (MatrixRecord, "attention_query attention_output"),
    (_POINTER, "copy_gate"),
)
ContextsRecord = _record(
    "ContextsRecord",
    (_INTEGER, "contexts"),
    (_POINTER, "step_inputs output_inputs first_source source_states source_keys source_scores"),
    (_POINTER, "source_places first_own own_words"),
    (_INTEGER, "most_own"),
)
PredictionRecord = _record(
    "PredictionRecord",
    (_INTEGER, "rows"),
    (_POINTER, "contexts block_best omega normaliser log_pointer log_softmax_share"),
)
RulesRecord = _record(
    "RulesRecord",
    (_POINTER, "pairs"),
    (_INTEGER, "seen_only"),
    (_POINTER, "rare"),
    (_INTEGER, "rare_bytes"),
    (_POINTER, "flags first_outside outside_keys outside_flags first_pair own_pairs"),
)
SearchRecord = _record(
    "SearchRecord",
    (_INTEGER, "beam longest stage rows length doubtful ended"),
    (_POINTER, "words next_words last read parents contexts totals bounds"),
    (_POINTER, "hidden next_hidden previous"),
    (_INTEGER, "predicted_rows"),
    (_POINTER, "predicted_contexts block_best omega normaliser log_pointer log_softmax_share"),
    (_INTEGER, "room"),
    (_POINTER, "first found_rows found_words found_totals found_doubtful"),
    (_INTEGER, "blocked rare"),
    (_POINTER, "refused ended_contexts ended_words ended_totals"),
)


class Library:
    """The functions of the shared library."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self.abi = self._function("abi", [], _INTEGER)
        self.instructions = self._function("instructions", [], ctypes.c_char_p)
        self._use = self._function("use", [ctypes.c_char_p], _INTEGER)
        self._threads = self._function("threads", [_INTEGER])
        sizes = [_INTEGER, _INTEGER]
        self._pack_matrix = self._function("pack_matrix", [_POINTER, *sizes, _POINTER])
        self._pack_matrix_8 = self._function("pack_matrix_8", [_POINTER, *sizes, *[_POINTER] * 3])
        self._pack_matrix_16 = self._function(
            "pack_matrix_16", [_POINTER, *sizes, *[_POINTER] * 2], _INTEGER
        )
        self._sixteen_bits = self._function("sixteen_bits", [], _INTEGER)
        self.product = self._function(
            "product", [_POINTER, _INTEGER, _POINTER, *sizes, *[_POINTER] * 2]
        )
        self.advance = self._function("advance", [*[_POINTER] * 2, _INTEGER, *[_POINTER] * 6])
        self.predict = self._function("predict", [*[_POINTER] * 2, _INTEGER, *[_POINTER] * 3])
        asked = [*[_POINTER] * 2, _INTEGER, _POINTER, *sizes, _POINTER, _INTEGER]
        self.score = self._function("score", [*[_POINTER] * 3, _INTEGER, *[_POINTER] * 3])
        self.step = self._function("step", [*[_POINTER] * 2, _INTEGER, *[_POINTER] * 2], _INTEGER)
        self.ended = self._function("ended", [_POINTER, _INTEGER])
        self.pairs_open = self._function(
            "pairs_open", [_POINTER, _INTEGER, _POINTER, _INTEGER], _POINTER
        )
        self.pairs_close = self._function("pairs_close", [_POINTER])
        self.followers = self._function(
            "followers", [_POINTER, _INTEGER], ctypes.POINTER(ctypes.c_int32)
        )
        self.best = self._function("best", [*asked, *[_POINTER] * 3, _INTEGER, _POINTER], _INTEGER)

    def _function(self, name: str, arguments: Sequence[Any], result: Any = None) -> Any:
        function = getattr(self._library, f"nextquery_{name}")
        function.argtypes, function.restype = arguments, result
        return function

    def use(self, instructions: str | None) -> bool:
        """For tests: other kernels, if this processor has them; None: the best that it has."""
        name = None if instructions is None else instructions.encode()
        return bool(self._use(name))

    def use_threads(self, count: int) -> None:
        """At most so many work on a step, and only on one of a large model."""
        self._threads(count)

    def packed(self, matrix: Floats, outputs: int = 0) -> Floats:
        """A matrix (outputs, inputs) in panels, with zeros up to `outputs`."""
        rows, inputs = matrix.shape
        panels = -(-max(rows, outputs) // 16)
        packed = aligned(panels * 16 * inputs, np.float32)
        if panels * 16 > rows:
            packed[rows // 16 * 16 * inputs :] = 0.0
        matrix = np.ascontiguousarray(matrix)
        self._pack_matrix(address(matrix), rows, inputs, address(packed))
        return packed

    @property
    def rounds(self) -> bool:
        """Whether products of 16 bits are quicker than of 32 with the chosen kernels."""
        return bool(self._sixteen_bits())

    def packed_16(self, matrix: Floats) -> "tuple[NDArray[Any], Floats, int]":
        """A matrix in whole numbers, the scale of every row, and what rows may be rounded to."""
        rows, inputs = matrix.shape
        outputs = rows + -rows % _BLOCK
        packed = aligned(outputs * (inputs + inputs % 2), np.int16)
        packed[rows // 16 * 16 * (inputs + inputs % 2) :] = 0
        scale = np.zeros(outputs, dtype=np.float32)
        matrix = np.ascontiguousarray(matrix)
        places = address(packed), address(scale)
        return packed, scale, self._pack_matrix_16(address(matrix), rows, inputs, *places)

    def packed_8(self, matrix: Floats, outputs: int) -> "tuple[NDArray[Any], Floats, NDArray[Any]]":
        """The same in 8 bits, with the scale and the sum of every row."""
        rows, inputs = matrix.shape
        packed = aligned(outputs * (inputs + -inputs % 4), np.int8)
        packed[rows // 16 * 16 * (inputs + -inputs % 4) :] = 0
        scale, sums = np.zeros(outputs, dtype=np.float32), np.zeros(outputs, dtype=np.int32)
        matrix = np.ascontiguousarray(matrix)
        arrays = (address(each) for each in (packed, scale, sums))
        self._pack_matrix_8(address(matrix), rows, inputs, *arrays)
        return packed, scale, sums


def aligned(size: int, kind: Any) -> NDArray[Any]:
    """An array whose memory begins at a cache line."""
    numbers = np.empty(size * np.dtype(kind).itemsize + _ALIGNED, dtype=np.int8)
    start = -address(numbers) % _ALIGNED
    return numbers[start : start + size * np.dtype(kind).itemsize].view(kind)


def address(array: NDArray[Any]) -> int:
    """Where the numbers of an array are."""
    place: int = array.__array_interface__["data"][0]
    return place


@cache
def native_library() -> Library | None:
    """The kernels, None where they are not installed or belong to another version."""
    try:
        path: str = import_module("nextquery_native").library_path()
        library = Library(path)
    except (ImportError, OSError, AttributeError):
        return None
    if library.abi() != ABI:
        return None
    library.use_threads(usual_threads())
    return library


def usual_threads() -> int:
    """What OpenMP's programs take: OMP_NUM_THREADS, otherwise every core this process may use."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if first.isdecimal():
        return int(first)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
