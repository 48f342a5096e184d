"""Matrices laid out once for many products on a CPU.

Uses oneDNN through PyTorch where there is one (`torch==2.13.0` is pinned, so its operators are
known), plain PyTorch elsewhere. Knows numbers only.
"""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional


def _has_onednn() -> bool:
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


class PackedMatrix:
    """A matrix (outputs, inputs) for products of 32-bit rows."""

    def __init__(self, matrix: Tensor, bias: Tensor | None = None) -> None:
        self._bias = bias
        self._packed = matrix
        if _has_onednn():
            self._packed = torch.ops.mkldnn._reorder_linear_weight(matrix.contiguous(), None)

    def product(self, rows: Tensor) -> Tensor:
        """`rows @ matrix.T + bias`."""
        if not self._packed.is_mkldnn:
            return functional.linear(rows, self._packed, self._bias)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            _with_more_rows(rows), self._packed, self._bias, "none", [], ""
        )
        return product[: len(rows)]


class QuantisedMatrix:
    """A matrix in 8 bits, a scale for each of its rows, for rough products.

    The rows multiplied with it are brought to 8 bits too; to 7 where the processor lacks 8-bit dot
    products (VNNI), since sums of two 8-bit products overflow there. The matrix (outputs, inputs)
    is given as blocks of rows, so that nobody need hold all of it in 32 bits.
    """

    def __init__(self, blocks: Iterable[Tensor], bias: Tensor) -> None:
        self._bias = bias
        self._scale = torch.empty(len(bias))  # (outputs,)
        whole = _in_8_bits(blocks, self._scale)
        self._zeros = torch.zeros(len(bias), dtype=torch.int32)
        self._levels = 127 if torch.cpu._is_vnni_supported() else 63
        self._packed: Tensor = whole
        self._onednn = _has_onednn()
        if self._onednn:
            self._packed = torch.ops.onednn.qlinear_prepack(whole, None)

    def product(self, rows: Tensor) -> Tensor:
        """About `rows @ matrix.T + bias`."""
        step = max(float(rows.abs().max()) / self._levels, 1e-30)
        if not self._onednn:
            rounded = (rows / step).round_() * step
            whole = self._packed.to(rows.dtype) * self._scale[:, None]
            return functional.linear(rounded, whole, self._bias)
        zero = self._levels + 1
        rounded = (_with_more_rows(rows) / step).round_().add_(zero).to(torch.uint8)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            *(rounded, step, zero, self._packed, self._scale, self._zeros, self._bias),
            *(1.0, 0, torch.float32, "none", [], ""),
        )
        return product[: len(rows)]


def _with_more_rows(rows: Tensor) -> Tensor:
    """The rows, and zeros up to one of a few numbers of rows.

    oneDNN makes a program of .3 to .7 MB for every number of rows that it meets, and keeps it. The
    usual beams are among the few: 1 to 5, multiples of 5 up to 50, of 25 beyond.
    """
    count = len(rows)
    unit = 1 if count <= 5 else 5 if count <= 50 else 25
    return functional.pad(rows, (0, 0, 0, -count % unit)) if count % unit else rows


def _in_8_bits(blocks: Iterable[Tensor], scale: Tensor) -> Tensor:
    """All blocks in one matrix of 8-bit numbers; `scale` (outputs,) is filled."""
    rows, start = [], 0
    for block in blocks:
        part = scale[start : start + len(block)]
        part.copy_(block.abs().amax(dim=1).clamp_(min=1e-8) / 127.0)
        rows.append((block / part[:, None]).round_().to(torch.int8))
        start += len(block)
    return torch.cat(rows)
