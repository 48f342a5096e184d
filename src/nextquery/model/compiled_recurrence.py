"""The recurrence by the compiled kernels of `nextquery-native`, if installed (see native/).

One call takes all steps of packed sequences: what a step's few rows cost is then their arithmetic,
not the dozens of tensor operations around it. Every row is summed in one order, whatever the
number of threads, so that the results do not depend on it. The record mirrors that of
`native/kernels/decoder.h`; `ABI` must be the number that stands there.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import NamedTuple

import torch
from torch import Tensor

ABI = 1
_PANEL = 16
_INTEGER, _POINTER = ctypes.c_int64, ctypes.c_void_p


class _Run(ctypes.Structure):
    _fields_ = (
        *((name, _INTEGER) for name in ("size", "steps", "parts")),
        *((name, _POINTER) for name in ("rows", "gate_matrix", "candidate_matrix", "projected")),
        *((name, _POINTER) for name in ("start", "before", "gates", "kept", "candidates")),
        *((name, _POINTER) for name in ("states", "state_slopes", "input_slopes")),
        ("start_slopes", _POINTER),
    )


class Steps(NamedTuple):
    """What the gradient needs of all steps, packed (total, d)."""

    before: Tensor
    """The state before each step."""
    kept: Tensor
    """What the reset gate kept of it."""
    candidates: Tensor
    gates: Tensor
    """(total, 2 d): `r_n` beside `u_n`."""


class RecurrenceKernels:
    """The functions of the shared library that training uses."""

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        self.abi = library.nextquery_training_abi
        self._recur, self._recur_back = library.nextquery_recur, library.nextquery_recur_back
        self._pack, self._pack_transposed = (
            library.nextquery_pack_matrix,
            library.nextquery_pack_transposed,
        )
        self.abi.restype, self.abi.argtypes = _INTEGER, ()
        for function in (self._recur, self._recur_back):
            function.restype, function.argtypes = None, (ctypes.POINTER(_Run),)
        for function in (self._pack, self._pack_transposed):
            function.restype, function.argtypes = None, (_POINTER, _INTEGER, _INTEGER, _POINTER)
        library.nextquery_threads.argtypes = (_INTEGER,)
        library.nextquery_threads(torch.get_num_threads())

    def forward(
        self,
        projected: Tensor,
        start: Tensor,
        matrices: tuple[Tensor, Tensor],
        sizes: Sequence[int],
    ) -> tuple[Tensor, ...]:
        """All steps from `projected` (total, 3 d) and `start` (sequences, d): `Steps`, the states.

        `matrices` are `H_r` above `H_u` (2 d, d), and `H` (d, d).
        """
        total, d = len(projected), start.shape[1]
        projected, start = projected.contiguous(), start.contiguous()
        before, kept, candidates = (start.new_empty((total, d)) for _ in range(3))
        made = Steps(before, kept, candidates, start.new_empty((total, 2 * d)))
        states = start.new_empty((total, d))
        packed = [self._packed(matrix) for matrix in matrices]
        run, rows = _run(d, sizes, packed)
        run.projected, run.start = projected.data_ptr(), start.data_ptr()
        run.states = states.data_ptr()
        _point(run, made)
        self._recur(run)
        del rows
        return (*made, states)

    def backward(
        self,
        slopes: Tensor,
        made: Steps,
        matrices: tuple[Tensor, Tensor],
        sizes: Sequence[int],
        sequences: int,
    ) -> tuple[Tensor, Tensor]:
        """The gradients of `projected` (total, 3 d) and `start`, from that of the states."""
        total, d = slopes.shape
        slopes = slopes.contiguous()
        inputs, start = slopes.new_empty((total, 3 * d)), slopes.new_zeros((sequences, d))
        packed = [self._packed_transpose(matrix) for matrix in matrices]
        run, rows = _run(d, sizes, packed)
        run.state_slopes, run.input_slopes = slopes.data_ptr(), inputs.data_ptr()
        run.start_slopes = start.data_ptr()
        _point(run, made)
        self._recur_back(run)
        del rows
        return inputs, start

    def _packed(self, matrix: Tensor) -> Tensor:
        outputs, inputs = matrix.shape
        packed = matrix.new_empty(-(-outputs // _PANEL) * _PANEL * inputs)
        self._pack(matrix.contiguous().data_ptr(), outputs, inputs, packed.data_ptr())
        return packed

    def _packed_transpose(self, matrix: Tensor) -> Tensor:
        inputs, outputs = matrix.shape
        packed = matrix.new_empty(-(-outputs // _PANEL) * _PANEL * inputs)
        self._pack_transposed(matrix.contiguous().data_ptr(), outputs, inputs, packed.data_ptr())
        return packed


def _run(d: int, sizes: Sequence[int], packed: list[Tensor]) -> tuple[_Run, object]:
    rows = (_INTEGER * len(sizes))(*sizes)
    parts = max(1, min(torch.get_num_threads(), sizes[0] if sizes else 1))
    gates, candidate = packed
    address = ctypes.addressof(rows)
    return _Run(d, len(sizes), parts, address, gates.data_ptr(), candidate.data_ptr()), rows


def _point(run: _Run, made: Steps) -> None:
    for name, tensor in made._asdict().items():
        setattr(run, name, tensor.data_ptr())


@cache
def recurrence_kernels() -> RecurrenceKernels | None:
    """The kernels, None where they are not installed or belong to another version."""
    try:
        kernels = RecurrenceKernels(import_module("nextquery_native").library_path())
    except (ImportError, OSError, AttributeError):
        return None
    return kernels if kernels.abi() == ABI else None
