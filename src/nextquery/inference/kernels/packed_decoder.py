"""Eq. 8 and 10 with packed matrices: what the decoder of the model computes, faster on a CPU.

Knows the decoder's weights; `model.hred` says what they mean, and a test holds the two together.
"""

import torch
from torch import Tensor

from nextquery.inference.kernels.memory import page_out
from nextquery.inference.kernels.packed_matrix import PackedMatrix
from nextquery.model.hred import HRED, SessionInputs, WordProjection


class PackedDecoder:
    """The decoder's recurrence and omega for one model."""

    def __init__(self, model: HRED) -> None:
        self._model = model
        self._size = model.config.query_size
        self._input = _packed_projection(model.decoder_input)
        biases = _biases(model)
        self._gates = PackedMatrix(model.decoder.gates.detach(), biases[0])
        self._candidate = PackedMatrix(model.decoder.candidate.detach(), biases[1])
        self._output_state = PackedMatrix(
            model.output_state.weight.detach(), model.output_state.bias.detach()
        )
        self._output_word = _packed_projection(model.output_word)
        packed = (model.decoder, model.output_state, model.decoder_input, model.output_word)
        for weights in (weights for part in packed for weights in part.parameters()):
            page_out(weights)  # not read again

    def advance(self, hidden: Tensor, words: Tensor, session: SessionInputs) -> Tensor:
        """Eq. 8: `d_n` from `d_{n-1}` (rows, d_h), `w_n` (rows,) and the session's inputs."""
        d = self._size
        projected = self._project(self._input, self._model.decoder_input, words)  # (rows, 3 d)
        if session.step is not None:
            projected = projected + session.step
        gates = self._gates.product(hidden).add_(projected[:, : 2 * d]).sigmoid_()
        reset, update = gates[:, :d], gates[:, d:]
        candidate = self._candidate.product(reset * hidden).add_(projected[:, 2 * d :]).tanh_()
        return torch.lerp(hidden, candidate, update)

    def previous_words(self, words: Tensor) -> Tensor:
        """`E_o w_{n-1}` of Eq. 10: (rows, d_e)."""
        return self._project(self._output_word, self._model.output_word, words)

    def omega(self, hidden: Tensor, previous: Tensor | None, session: SessionInputs) -> Tensor:
        """Eq. 10 from `d_{n-1}`, `E_o w_{n-1}` (None: `w_0 = 0`) and the session's inputs."""
        product = self._output_state.product(hidden)
        if session.output is not None:
            product = product + session.output
        return product if previous is None else product.add_(previous)

    def _project(self, packed: PackedMatrix | None, full: WordProjection, words: Tensor) -> Tensor:
        inputs = self._model.word_inputs(words)
        return full(inputs) if packed is None else packed.product(inputs)


def _biases(model: HRED) -> tuple[Tensor | None, Tensor | None]:
    """The decoder's biases: those of the gates and that of the candidate."""
    if model.decoder.bias is None:
        return None, None
    bias, d = model.decoder.bias.detach(), model.config.query_size
    return bias[: 2 * d].clone(), bias[2 * d :].clone()


def _packed_projection(projection: WordProjection) -> PackedMatrix | None:
    """The packed matrix of a factored projection; one over all of V is looked up as it is."""
    matrix = projection.matrix
    return PackedMatrix(matrix.weight.detach()) if isinstance(matrix, torch.nn.Linear) else None
