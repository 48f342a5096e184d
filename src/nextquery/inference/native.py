"""The compiled library `nextquery-native`: its C interface and its one loader; memory of a process.

Decoding is the only user. Training has no kernels of its own: they made `small` 1.1 times as fast.
The memory settings at the end are for entry points, never for the library itself.
"""

import ctypes
import mmap
import os
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

ABI = 6
"""The version of the C interface (`NEXTQUERY_ABI` in native/kernels/decoder.h)."""
INSTALL = "`pip install ./native` in a checkout"

_INTEGER, _POINTER = ctypes.c_int64, ctypes.c_void_p
_ALIGNED = 64


def _record(name: str, *fields: tuple[Any, str]) -> type[ctypes.Structure]:
    """A C record from types and names; names of one type are separated by spaces."""
    pairs = [(name, kind) for kind, names in fields for name in names.split()]
    return type(name, (ctypes.Structure,), {"_fields_": pairs})


DecoderRecord = _record(
    "DecoderRecord",
    (_INTEGER, "words width word_size state_size"),
    (_POINTER, "word_vectors word_inputs input_table previous_table gate_bias"),
    (_POINTER, "gates candidate output_state output_start output_vectors added"),
    (_POINTER, "exact_vectors rough_vectors rough_scale rough_sums"),
    (_POINTER, "attention_query attention_output copy_gate"),
)
ContextsRecord = _record(
    "ContextsRecord",
    (_INTEGER, "contexts"),
    (_POINTER, "step_inputs output_inputs first_source source_states source_keys source_scores"),
    (_POINTER, "source_columns first_copied copied_words"),
    (_INTEGER, "most_copied"),
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
    (_INTEGER, "capacity"),
    (_POINTER, "first extension_rows extension_words extension_totals extension_doubtful"),
    (_INTEGER, "blocked rare"),
    (_POINTER, "refused ended_contexts ended_words ended_totals"),
)
BlockRecord = _record(
    "BlockRecord",
    (_POINTER, "attention_norm attention_input attention_output"),
    (_POINTER, "feed_norm feed_input feed_input_bias feed_output feed_output_bias"),
)
TransformerRecord = _record(
    "TransformerRecord",
    (_INTEGER, "layers heads word_size state_size"),
    (_POINTER, "word_vectors input norm cosines sines blocks"),
)
SessionsRecord = _record("SessionsRecord", (_POINTER, "caches symbols"))
SymbolsRecord = _record(
    "SymbolsRecord",
    (_INTEGER, "rows"),
    (_POINTER, "words contexts own_first own_count cache hidden previous"),
)


class Library:
    """The functions of the shared library."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        abi = self._function("abi", "", _INTEGER)()
        if abi != ABI:
            raise OSError(f"its ABI number is {abi}, this version of nextquery needs {ABI}")
        self.instructions = self._function("instructions", "", ctypes.c_char_p)
        self._use = self._function("use", "p", _INTEGER)
        self._threads = self._function("threads", "i")
        self._pack_matrix = self._function("pack_matrix", "piip")
        self._pack_matrix_8 = self._function("pack_matrix_8", "piippp")
        self.product = self._function("product", "pipiipp")
        self.advance = self._function("advance", "ppipppppp")
        self.predict = self._function("predict", "ppippp")
        self.score = self._function("score", "pppippp")
        self.step = self._function("step", "ppipp", _INTEGER)
        self.ended = self._function("ended", "pi")
        self.run_symbols = self._function("run_symbols", "ppp")
        self.pairs_open = self._function("pairs_open", "pipi", _POINTER)
        self.pairs_close = self._function("pairs_close", "p")
        self.followers = self._function("followers", "pi", ctypes.POINTER(ctypes.c_int32))
        self.best = self._function("best", "ppipiipipppip", _INTEGER)

    def _function(self, name: str, arguments: str, result: Any = None) -> Any:
        """A function that takes pointers (`p`) and integers (`i`)."""
        function = getattr(self._library, f"nextquery_{name}")
        function.argtypes = [_POINTER if kind == "p" else _INTEGER for kind in arguments]
        function.restype = result
        return function

    def use(self, instructions: str | None) -> bool:
        """For tests: the kernels of another instruction set, if possible; None: the best."""
        name = None if instructions is None else instructions.encode()
        return bool(self._use(name))

    def use_threads(self, count: int) -> None:
        """Threads that share a step of a large model, at most."""
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

    def packed_8(self, matrix: Floats, outputs: int) -> "tuple[NDArray[Any], Floats, NDArray[Any]]":
        """The same in 8-bit integers, with the scale and the sum of every row."""
        rows, inputs = matrix.shape
        packed = aligned(outputs * (inputs + -inputs % 4), np.int8)
        packed[rows // 16 * 16 * (inputs + -inputs % 4) :] = 0
        scale, sums = np.zeros(outputs, dtype=np.float32), np.zeros(outputs, dtype=np.int32)
        matrix = np.ascontiguousarray(matrix)
        arrays = (address(array) for array in (packed, scale, sums))
        self._pack_matrix_8(address(matrix), rows, inputs, *arrays)
        return packed, scale, sums


def aligned(size: int, kind: Any) -> NDArray[Any]:
    """An array whose memory begins at a cache line."""
    numbers = np.empty(size * np.dtype(kind).itemsize + _ALIGNED, dtype=np.int8)
    start = -address(numbers) % _ALIGNED
    return numbers[start : start + size * np.dtype(kind).itemsize].view(kind)


def address(array: NDArray[Any]) -> int:
    """The address of an array's first number."""
    first: int = array.__array_interface__["data"][0]
    return first


class Native(NamedTuple):
    """The compiled library, or why NumPy is used instead."""

    library: Library | None
    problem: str = ""


@cache
def load_native() -> Native:
    """Open the installed library, once per process. Nothing else opens it."""
    try:
        path: str = import_module("nextquery_native").library_path()
    except ImportError:
        return Native(None, f"not installed; NumPy computes instead. Install it: {INSTALL}")
    try:
        library = Library(path)
    except (OSError, AttributeError) as error:
        return Native(None, f"cannot be used ({error}); NumPy computes instead. Fix: {INSTALL}")
    library.use_threads(usual_threads())
    return Native(library)


def native_library() -> Library | None:
    """The compiled library; None where it is not installed or has another ABI number."""
    return load_native().library


def usual_threads() -> int:
    """The number that OpenMP uses: OMP_NUM_THREADS, otherwise every core of this process."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if first.isdecimal():
        return int(first)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_MADV_DONTNEED = 4
_MADV_PAGEOUT = 21
_CODE = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) r-xp \S+ \S+ [1-9]\d* +/.*\n((?:\w+:.*\n)+)", re.MULTILINE
)
_LARGEST_BLOCK = 32 << 20
_LARGEST_FREE = 128 << 20


@cache
def keep_freed_memory() -> bool:
    """Have the allocator keep up to 128 MB of freed memory; False where it has no such setting.

    Each decoding step frees tens of megabytes and allocates them again. glibc returns such blocks
    to the system at once, and a new one costs a page fault per 4 KB: 12 to 20% of the time of a
    suggestion at the paper's size.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK) and mallopt(_M_TRIM_THRESHOLD, _LARGEST_FREE)
    )


def give_back() -> None:
    """Return the memory that only starting up needed: freed blocks and pages of code.

    Importing PyTorch runs 60 MB of code that is not run again. The kernel reads such a page from
    the file again, in microseconds, when it is needed.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
        mappings = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    except (OSError, AttributeError):
        return
    for mapping in _CODE.finditer(mappings):
        if "\nAnonymous:             0 kB\n" in mapping[3]:  # a file's code and nothing else
            start, stop = int(mapping[1], 16), int(mapping[2], 16)
            advise(start, stop - start, _MADV_DONTNEED)


def page_out(array: NDArray[Any]) -> bool:
    """Let the system take an array's pages back; those of a mapped file return when read.

    For matrices that were packed and are seldom read after. Linux only; no data is ever lost.
    """
    start = int(array.__array_interface__["data"][0])
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (start + array.nbytes - first) // mmap.PAGESIZE * mmap.PAGESIZE
    return size > 0 and advise(first, size, _MADV_PAGEOUT)


def advise(first: int, size: int, advice: int) -> bool:
    """Tell the system what to do with `size` bytes from `first` on; whether it took the advice."""
    try:
        madvise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return False
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return bool(madvise(first, size, advice) == 0)
