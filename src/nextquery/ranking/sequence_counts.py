"""What QVMM's tree says without one user's own sessions: probabilities, and plain counts.

A user's own sequences are taken away from the tree's counts while it is walked, so that one tree
serves every user. Which sequences the tree keeps (its pruning) was decided with everybody's
sessions; what it counts along them is other users' alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import log
from typing import NamedTuple

import numpy as np

from nextquery.ranking.cases import CaseSet, Floats, Integers
from nextquery.ranking.scoring import Track
from nextquery.ranking.user_history import RarestTexts, UserHistory
from nextquery.suggesters.background import known_beginning
from nextquery.suggesters.qvmm import QVMM

NOBODY = UserHistory(())
NO_TEXTS = RarestTexts(frozenset(), frozenset())


class _Level(NamedTuple):
    """What followed one part of the context: the candidates' counts, and that of everything."""

    counts: Integers
    total: int


class SequenceCounts:
    """A QVMM as other users than one would have made it."""

    def __init__(self, qvmm: QVMM, history: UserHistory = NOBODY, rarest: RarestTexts = NO_TEXTS):
        self._qvmm = qvmm
        self._background = qvmm.background
        self._history = history
        self._lost = rarest.queries & history.frequencies.keys()
        self._lost_words = rarest.words & history.words.keys()

    def log_probabilities(self, context: Sequence[str], candidates: Sequence[str]) -> list[float]:
        """QVMM's smoothed log-probability of each candidate; see `suggesters/qvmm.py`."""
        ids = self._ids(candidates)
        known = np.array([query for query in ids if query is not None], np.int64)
        escape = self._qvmm.settings.escape
        found = self._frequencies(known) / (self._total + 1)
        escaped = 0.0
        for level in self._levels(context, known):
            found = (level.counts + escape * found) / (level.total + escape)
            escaped += log(escape / (level.total + escape))
        values = iter(found.tolist())
        return [
            escaped + self._log_prior(text) if query is None else log(next(values))
            for text, query in zip(candidates, ids, strict=True)
        ]

    def suffix_counts(self, context: Sequence[str], candidates: Sequence[str]) -> list[int]:
        """How often each candidate followed the longest known part of the context.

        The QVMM feature of the authors' code: a raw count, zero where nothing is known.
        """
        ids = self._ids(candidates)
        known = np.array([-1 if query is None else query for query in ids], np.int64)
        levels = [level for level in self._levels(context, known) if level.total > 0]
        return levels[-1].counts.tolist() if levels else [0] * len(candidates)

    def _levels(self, context: Sequence[str], known: Integers) -> list[_Level]:
        newest = self._newest_known(context)
        followers = self._qvmm.tree.followers
        levels = []
        for length, node in enumerate(self._qvmm.tree.match(newest), start=1):
            own = self._own_sequences.get(tuple(newest[:length]), Counter())
            counts = followers.count(node, known)
            counts -= np.array([own.get(query, 0) for query in known.tolist()], np.int64)
            lost = followers.count(node, self._lost_ids).sum() - sum(
                own.get(query, 0) for query in self._lost_ids.tolist()
            )
            total = followers.total(node) - own.total() - int(lost)
            levels.append(_Level(counts, total))
        return levels

    def _newest_known(self, context: Sequence[str]) -> list[int]:
        """The last queries up to the first that other users do not know, newest first."""
        found: list[int] = []
        for text in reversed(context[-self._qvmm.settings.depth :]):
            query = self._id(text)
            if query is None and not found and self._qvmm.settings.shorten:
                query = self._id(known_beginning(text, lambda part: self._id(part) is not None))
            if query is None:
                break
            found.append(query)
        return found

    def _id(self, text: str) -> int | None:
        return None if text in self._lost else self._background.id(text)

    def _ids(self, texts: Sequence[str]) -> list[int | None]:
        return [self._id(text) for text in texts]

    def _frequencies(self, known: Integers) -> Floats:
        counts = self._background.counts[known].astype(np.float64)
        return np.asarray(counts - [self._own_frequencies.get(q, 0) for q in known.tolist()])

    @cached_property
    def _own_frequencies(self) -> dict[int, int]:
        pairs = ((self._background.id(text), n) for text, n in self._history.frequencies.items())
        return {query: count for query, count in pairs if query is not None}

    @cached_property
    def _lost_ids(self) -> Integers:
        found = (self._background.id(text) for text in sorted(self._lost))
        return np.array([query for query in found if query is not None], np.int64)

    @cached_property
    def _total(self) -> float:
        own = sum(self._own_frequencies.values())
        return self._background.total - own - float(self._frequencies(self._lost_ids).sum())

    @cached_property
    def _own_sequences(self) -> Mapping[tuple[int, ...], Counter[int]]:
        """What followed each sequence of the user's own, newest query first, as the tree counts."""
        found: dict[tuple[int, ...], Counter[int]] = {}
        for session in self._history.sessions:
            ids = [self._background.id(query) for query in session]
            for place, query in enumerate(ids):
                sequence: tuple[int, ...] = ()
                for before in ids[max(place - self._qvmm.settings.depth, 0) : place][::-1]:
                    if query is None or before is None:
                        break
                    sequence = (*sequence, before)
                    found.setdefault(sequence, Counter())[query] += 1
        return found

    def _log_prior(self, text: str) -> float:
        """The log-probability of a text unknown to others; see `Background.log_prior`."""
        spelt = sum(log(self._word_count(word) / self._symbols) for word in text.split())
        total = max(self._total, 1.0)
        return spelt + log(total / self._symbols) - log(self._total + 1)

    def _word_count(self, word: str) -> int:
        place = self._background.words.get(word)
        if place is None or word in self._lost_words:
            return 1
        return int(self._background.word_counts[place]) - self._history.words.get(word, 0)

    @cached_property
    def _symbols(self) -> float:
        words = self._background.words
        own = sum(count for word, count in self._history.words.items() if word in words)
        lost = sum(
            int(self._background.word_counts[words[word]]) - self._history.words[word]
            for word in self._lost_words
        )
        return float(self._background.word_counts.sum()) - own - lost + self._total + 1


def log_probabilities_without_own(
    qvmm: QVMM, cases: CaseSet, histories: Mapping[str, UserHistory], rarest: RarestTexts
) -> Floats:
    """QVMM's log-probability of all candidates, each user's own sessions left out, flat."""
    models = _by_user(qvmm, cases, histories, rarest)
    rows = (models[c.user].log_probabilities(c.context, c.candidates) for c in cases.cases)
    return np.array([value for row in rows for value in row], dtype=np.float64)


def suffix_counts(
    qvmm: QVMM,
    cases: CaseSet,
    histories: Mapping[str, UserHistory],
    rarest: RarestTexts,
    track: Track = iter,
) -> Floats:
    """The authors' QVMM feature of all candidates, flat; `qvmm` should not be pruned."""
    models = _by_user(qvmm, cases, histories, rarest)
    rows = [
        models[cases.cases[n].user].suffix_counts(cases.cases[n].context, cases.cases[n].candidates)
        for n in track(range(len(cases)))
    ]
    return np.array([value for row in rows for value in row], dtype=np.float64)


def _by_user(
    qvmm: QVMM, cases: CaseSet, histories: Mapping[str, UserHistory], rarest: RarestTexts
) -> dict[str, SequenceCounts]:
    users = {case.user for case in cases.cases}
    return {user: SequenceCounts(qvmm, histories.get(user, NOBODY), rarest) for user in users}
