"""How likely queries are useful after a session: HRED's second head, on the decoder's last state.

    P(useful | q, session) = sigmoid(w d_N + b)

`d_N` is the decoder's state after the last word of `q` (Eq. 8). The head is asked of finished
queries only: their words go through the decoder once more, without the output layer, which is most
of its work. Knows the network; knows nothing of search.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InputError
from nextquery.inference.beam import FinishedQuery
from nextquery.inference.contexts import ContextState
from nextquery.inference.network.network import Network, sigmoid
from nextquery.inference.network.weights import Floats
from nextquery.normalise import normalise_query

NO_HEAD = (
    "the model has no usefulness head; train one with `train.usefulness_weight` above 0, "
    "on a log with clicks"
)
_LEAST = 1e-6
"""A probability below this counts as this: its logarithm must stay finite."""


class UsefulnessHead:
    """The second head of a network, if it has one."""

    def __init__(self, model: Network) -> None:
        self._model = model

    @property
    def exists(self) -> bool:
        """Whether the model was trained with one."""
        return self._model.config.usefulness

    def require(self) -> None:
        """Refuse a model without one."""
        if not self.exists:
            raise InputError(NO_HEAD)

    def probabilities(
        self, contexts: Sequence[ContextState], texts: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """P(useful | q, session) of each context's queries, in the given order."""
        self.require()
        counts = [len(each) for each in texts]
        if not sum(counts):
            return [[] for _ in contexts]
        vocabulary = self._model.vocabulary
        ids = [vocabulary.encode(normalise_query(text))[:-1] for some in texts for text in some]
        states = np.stack([context.session_state for context in contexts])
        found = self._judge(self._last_states(np.repeat(states, counts, axis=0), ids))
        ends = np.cumsum([0, *counts])
        return [found[a:b].tolist() for a, b in pairwise(ends)]

    def _last_states(self, session_states: Floats, queries: Sequence[Sequence[int]]) -> Floats:
        """`d_N` (queries, d_h): each query's words read by the decoder, longest queries first."""
        lengths = np.array([len(query) for query in queries], dtype=np.int64)
        order = np.argsort(-lengths, kind="stable")
        words = np.zeros((len(queries), int(lengths.max(initial=0))), dtype=np.int64)
        for row, place in enumerate(order.tolist()):
            words[row, : lengths[place]] = queries[place]
        ordered = session_states[order]
        inputs = self._model.session_inputs(ordered)
        states = self._model.start_decoder(ordered, inputs)
        for step in range(words.shape[1]):
            going = np.arange(int((lengths > step).sum()))
            states[going] = self._model.advance_decoder(
                states[going], words[going, step], inputs.take(going)
            )
        last = np.empty_like(states)
        last[order] = states
        return last

    def _judge(self, states: Floats) -> NDArray[np.float32]:
        weights = self._model.weights
        odds = states @ weights["usefulness.weight"][0] + weights["usefulness.bias"]
        return np.maximum(sigmoid(odds), np.float32(_LEAST))

    def rank(
        self,
        contexts: Sequence[ContextState],
        lists: Sequence[Sequence[FinishedQuery]],
        weight: float,
        length_normalised: bool,
    ) -> list[list[FinishedQuery]]:
        """The lists ordered by their value plus `weight` times log P(useful), ties by text."""
        found = self.probabilities(contexts, [[each.text for each in some] for some in lists])
        return [
            rank_by_use(some, useful, weight, length_normalised)
            for some, useful in zip(lists, found, strict=True)
        ]


def rank_by_use(
    found: Sequence[FinishedQuery],
    usefulness: Sequence[float],
    weight: float,
    length_normalised: bool,
) -> list[FinishedQuery]:
    """The queries by their value plus `weight` times log P(useful), highest first, ties by text."""
    weighed = [
        replace(each, usefulness=useful, bonus=each.bonus + weight * math.log(useful))
        for each, useful in zip(found, usefulness, strict=True)
    ]
    return sorted(weighed, key=lambda each: (-each.value(length_normalised), each.text))
