"""Contexts that are decoded together, and what can be copied from each, as flat arrays.

Knows session states and their words; knows nothing of prefixes. The words of all contexts stand one
behind the other, so that time and memory are linear in them.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nextquery.inference.contexts import ContextState
from nextquery.inference.network.network import Ids, Network
from nextquery.inference.network.weights import AGES, Floats
from nextquery.inference.session_vocabulary import CopyTable, SessionVocabulary


@dataclass(frozen=True, eq=False)
class CopySources:
    """The words of all contexts that can be copied; end-of-query symbols are left out."""

    first: Ids
    """(contexts + 1,): where the sources of each context begin."""
    states: Floats
    """(sources, d_h): `h_j`."""
    keys: Floats
    """(sources, d_h): `A_k h_j / sqrt(d_h)`."""
    age_scores: Floats
    """(sources,): `r_age(j)`."""
    places: Ids
    """(sources,): the place of each among the own words of its context."""
    own: CopyTable
    """The distinct words of each context."""

    @classmethod
    def of(
        cls, model: Network, contexts: Sequence[ContextState], own: Sequence[SessionVocabulary]
    ) -> "CopySources | None":
        """Those of some contexts; None if there is nothing to copy."""
        counts = [len(context.copied_words) for context in contexts]
        if not model.config.copying or not any(counts):
            return None
        width = len(model.vocabulary) + max(len(each.outside) for each in own)
        states = np.concatenate([part for each in contexts for part in each.copied_states])
        ages = np.concatenate(
            [len(each.queries) - np.array(each.copied_from, dtype=np.int64) for each in contexts]
        )
        places = [_places(each, words) for each, words in zip(contexts, own, strict=True)]
        scale = np.float32(model.config.query_size**-0.5)
        return cls(
            first=np.cumsum([0, *counts]),
            states=states,
            keys=model.products.times("copying.key.weight", states) * scale,
            age_scores=model.weights["copying.age"][np.clip(ages - 1, 0, AGES - 1)],
            places=np.array([place for some in places for place in some], dtype=np.int64),
            own=CopyTable.of([each.distinct for each in own], width),
        )


def _places(context: ContextState, own: SessionVocabulary) -> list[int]:
    place = {word: n for n, word in enumerate(own.distinct)}
    return [place[own.id(word)] for word in context.copied_words]


class ContextBatch:
    """Contexts that are decoded together."""

    def __init__(
        self, model: Network, contexts: Sequence[ContextState], given: Sequence[str] = ()
    ) -> None:
        """`given` are words of a half-typed query, which the vocabulary may lack."""
        self.contexts = contexts
        self.own = [
            SessionVocabulary(model.vocabulary, context.copied_words, given) for context in contexts
        ]
        self.session_states = np.stack([context.session_state for context in contexts])
        self.session_inputs = model.session_inputs(self.session_states)
        self.sources = CopySources.of(model, contexts, self.own)
        self.record: ctypes.Structure | None = None
        """The same for the compiled kernels, once they ask."""
