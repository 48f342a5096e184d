"""Trials of the synthetic visitors, drawn at once: what `made_up.run` gives, without its events.

Every list is one that the simulated service made, for one of `HANDS` visitors in each session; so
a list is served once and not once for everybody who sees it. What visitors take is drawn place by
place as `SimulatedVisitors.accepted_position` does, for a whole trial in one array.
"""

from datetime import datetime
from functools import cache

import numpy as np
from tests.simulated_visitors import Lister, SimulatedService, Visit
from tests.unit.feedback.made_up import SESSIONS, VISITORS

from nextquery.feedback.events import ServedList
from nextquery.feedback.impressions import Feedback, Impression

HANDS = 256
"""Visitors whose coins, or arms, are drawn; the next visitor has those of the first again."""
NOTHING = len(VISITORS.examination)
TAKEN = [frozenset({position}) for position in range(NOTHING)] + [frozenset[int]()]


class DrawnTrials:
    """Trials of the same models, one per seed."""

    def __init__(self, models: dict[str, Lister], kind: str) -> None:
        service = SimulatedService(models, kind)
        self._served = [[_served(service, hand, s) for s in SESSIONS] for hand in range(HANDS)]
        # (hands, sessions, places): how likely a place is looked at and its suggestion attracts.
        self._chances = np.array([[_chances(item) for item in row] for row in self._served])

    def run(self, visitors: int, seed: int) -> Feedback:
        """The feedback of N visitors."""
        draw = np.random.default_rng(seed)
        who = np.repeat(np.arange(visitors), VISITORS.lists)
        sessions = draw.integers(len(SESSIONS), size=len(who))
        chances = self._chances[who % HANDS, sessions]
        takes = draw.random(chances.shape) < chances
        positions = np.where(takes.any(axis=1), takes.argmax(axis=1), NOTHING)
        rows = zip(
            who.tolist(), _times(visitors), sessions.tolist(), positions.tolist(), strict=True
        )
        return Feedback(tuple(self._impression(*row) for row in rows))

    def _impression(self, who: int, time: datetime, session: int, slot: int) -> Impression:
        served = self._served[who % HANDS][session]
        return Impression(
            list_id="",
            visitor=f"visitor-{who}",
            time=time,
            context=(),
            query=served.query,
            suggestions=served.suggestions,
            taken=TAKEN[slot],
            dismissed=False,
            model=served.model,
            trial=served.trial,
        )


def _served(service: SimulatedService, hand: int, session: tuple[str, ...]) -> ServedList:
    return service.serve(Visit(f"visitor-{hand}", "", _times(1)[0], session))


def _chances(served: ServedList) -> list[float]:
    session = (served.query,)
    positions = zip(VISITORS.examination, served.suggestions, strict=True)
    return [looked * VISITORS.attraction(session, item.text) for looked, item in positions]


@cache
def _times(visitors: int) -> list[datetime]:
    """When N visitors come, as `SimulatedVisitors.visits` says."""
    return [visit.time for visit in VISITORS.visits(visitors, np.random.default_rng(0))]
