"""How long a list takes with a beam of 50 (the paper's Table 2), one context at a time.

The only result of an experiment that depends on the machine: it is measured once and kept with the
finished steps. Knows any model that decodes.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from nextquery.records import Session
from nextquery.suggesters.base import Decoding

BEAM = 50
CONTEXTS = 20


@dataclass(frozen=True)
class DecodingTime:
    """The median time of one list."""

    beam: int
    contexts: int
    median_ms: float


def decoding_time(model: Decoding, sessions: Sequence[Session]) -> DecodingTime:
    """The median of some test contexts, the first of which is not counted."""
    config = model.config.model_copy(update={"beam": BEAM})
    seconds = []
    for session in sessions[: CONTEXTS + 1]:
        begin = time.perf_counter()
        model.suggest_many([session.queries[:-1]], BEAM, config=config)
        seconds.append(time.perf_counter() - begin)
    counted = seconds[1:] or seconds
    return DecodingTime(BEAM, len(counted), 1000 * statistics.median(counted))
