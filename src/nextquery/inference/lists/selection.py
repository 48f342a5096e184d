"""Which of a ranked list's queries are shown: near-copies folded, the rest diversified if asked."""

from collections.abc import Callable, Sequence

import numpy as np

from nextquery.inference.beam import FinishedQuery
from nextquery.inference.lists.diversity import diversify
from nextquery.inference.lists.folding import fold
from nextquery.inference.network.weights import Floats
from nextquery.inference.settings import DecodeConfig
from nextquery.records import Suggestion


def choose(
    found: Sequence[FinishedQuery],
    n: int,
    config: DecodeConfig,
    source: Callable[[str], str],
    vectors: Callable[[Sequence[str]], Floats],
) -> list[Suggestion]:
    """At most `n` of the ranked queries; `source` says where one comes from, `vectors` (n, d) where
    each lies."""
    if config.fold:
        found = [found[place] for place in fold((each.text for each in found), config.language)]
    if config.diversity == 0.0 or len(found) < 2:
        return [_suggestion(each, config, source(each.text)) for each in found[:n]]
    shown = [_suggestion(each, config, source(each.text)) for each in found]
    values = np.array([each.score for each in shown])
    places = vectors([each.text for each in shown]).astype(np.float64)
    return [shown[place] for place in diversify(values, places, n, config.diversity)]


def _suggestion(found: FinishedQuery, config: DecodeConfig, source: str) -> Suggestion:
    """With its likelihoods where the list was made specific."""
    specific = found.log_prior is not None
    return Suggestion(
        found.text,
        found.value(config.length_normalised),
        source,
        found.log_likelihood if specific else None,
        found.log_prior,
        found.usefulness,
    )
