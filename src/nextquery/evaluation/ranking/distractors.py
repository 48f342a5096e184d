"""Distractors for the scenario in which every context counts.

Knows the sessions of one split. Distractors are next queries of other sessions of the same split,
drawn as often as they occur there: drawn from the background instead, a candidate's frequency
alone would give the answer away, because every distractor would be known and many targets not.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from nextquery.records import Session

SHARING = 11
"""At most this many distractors share a word with the last two queries of the context."""


class DistractorPool:
    """The next queries of a split, and which of them hold a word."""

    def __init__(self, sessions: Sequence[Session]) -> None:
        self._texts: list[str] = []
        self._sessions: list[int] = []
        for session in sessions:
            self._texts += session.queries[1:]
            self._sessions += [session.id] * (len(session.queries) - 1)
        by_word: dict[str, list[int]] = defaultdict(list)
        for place, text in enumerate(self._texts):
            for word in dict.fromkeys(text.split()):
                by_word[word].append(place)
        self._by_word = {word: np.array(places, np.int64) for word, places in by_word.items()}

    def draw(self, session: Session, n: int, seed: int) -> tuple[str, ...]:
        """Up to `n` different queries that are not the session's target; fewer if there are none.

        The draw depends on the session and the seed only, not on the order of sessions.
        """
        generator = np.random.default_rng([seed, session.id])
        chosen: dict[str, None] = {}
        sharing = self._sharing(session)
        self._take(chosen, generator.permutation(sharing), session, min(SHARING, n))
        # Most draws suffice with a few times n places; the whole pool only if they do not.
        tries = generator.integers(0, len(self._texts), size=4 * n)
        self._take(chosen, tries, session, n)
        if len(chosen) < n:
            self._take(chosen, generator.permutation(len(self._texts)), session, n)
        return tuple(chosen)

    def _sharing(self, session: Session) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        words = {word for query in session.queries[:-1][-2:] for word in query.split()}
        found = [self._by_word[word] for word in words if word in self._by_word]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def _take(
        self,
        chosen: dict[str, None],
        places: np.ndarray[tuple[int], np.dtype[np.int64]],
        session: Session,
        limit: int,
    ) -> None:
        for place in places.tolist():
            if len(chosen) >= limit:
                return
            text = self._texts[place]
            if self._sessions[place] != session.id and text != session.queries[-1]:
                chosen[text] = None
