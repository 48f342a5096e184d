"""The paper's own examples asked of our models: Table 1's two contexts, and the gates of Figure 7.

Only of models whose vocabulary has all of an example's words. Knows suggesters and their
vocabularies; the paper's texts are public.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nextquery.evaluation.paper import FIGURE_7, TABLE_1
from nextquery.evaluation.probes.gates import GateExample
from nextquery.suggesters.base import Embedder, Gated, Suggester

SUGGESTIONS = 5


@dataclass(frozen=True)
class PaperContext:
    """One of Table 1's contexts, with what a model suggests after it."""

    context: tuple[str, ...]
    suggestions: tuple[str, ...]
    missing_words: tuple[str, ...]
    """Words that the model's vocabulary lacks; nothing is asked where there is one."""


@dataclass(frozen=True)
class PaperExamples:
    """What one model makes of the paper's examples."""

    table_1: tuple[PaperContext, ...]
    figure_7: GateExample | None
    """The update gates; None where a word is missing."""


def paper_examples(systems: Mapping[str, object]) -> dict[str, PaperExamples]:
    """The examples of every model that has gates, and a vocabulary to look the words up in."""
    return {
        name: PaperExamples(
            tuple(_suggestions(system, system, context) for context in TABLE_1),
            _gates(system, system),
        )
        for name, system in systems.items()
        if isinstance(system, Gated)
        and isinstance(system, Embedder)
        and isinstance(system, Suggester)
    }


def missing_words(model: Embedder, context: Sequence[str]) -> tuple[str, ...]:
    """The words of a context that a model's vocabulary lacks, in their order."""
    words = dict.fromkeys(word for query in context for word in query.split())
    return tuple(word for word in words if word not in model.model.vocabulary)


def _suggestions(
    suggester: Suggester, embedder: Embedder, context: tuple[str, ...]
) -> PaperContext:
    missing = missing_words(embedder, context)
    found = [] if missing else suggester.suggest(context, SUGGESTIONS)
    return PaperContext(context, tuple(each.text for each in found), missing)


def _gates(gated: Gated, embedder: Embedder) -> GateExample | None:
    if missing_words(embedder, FIGURE_7):
        return None
    gates = gated.update_gates_many([FIGURE_7])[0].round(3).astype(np.float64)
    return GateExample(FIGURE_7, tuple(map(tuple, gates.tolist())))
