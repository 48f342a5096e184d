"""The scenarios: which sessions become ranking cases, with noise or distractors where asked."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from nextquery.ranking.cases import (
    CANDIDATES,
    BackgroundCounts,
    Backgrounds,
    CaseSet,
    RankingCase,
    canonical_order,
)
from nextquery.records import Session

NOISY_QUERIES = 100
"""The paper labels the 100 most frequent queries of the background as noisy."""


class NoisyContext(NamedTuple):
    """A context with a noisy query in it, and where."""

    queries: tuple[str, ...]
    position: int


class Noise:
    """The noisy queries of a log."""

    def __init__(self, background: BackgroundCounts, seed: int) -> None:
        frequent = background.most_frequent(NOISY_QUERIES)
        self.queries = [text for text, _ in frequent]
        counts = np.array([count for _, count in frequent], dtype=np.float64)
        self._shares = counts / counts.sum()
        self._seed = seed

    def insert(self, context: tuple[str, ...], session: int) -> NoisyContext:
        """Put a noisy query somewhere: before, between or after the queries of a context."""
        generator = np.random.default_rng([self._seed, session])
        position = int(generator.integers(0, len(context) + 1))
        query = self.queries[int(generator.choice(len(self.queries), p=self._shares))]
        return NoisyContext((*context[:position], query, *context[position:]), position)

    def within(self, context: tuple[str, ...]) -> bool:
        """Whether a context holds a noisy query."""
        return not set(self.queries).isdisjoint(context)


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
        for index, text in enumerate(self._texts):
            for word in dict.fromkeys(text.split()):
                by_word[word].append(index)
        self._by_word = {word: np.array(indices, np.int64) for word, indices in by_word.items()}

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
        marks = np.zeros(len(self._texts), np.bool_)
        for word in words & self._by_word.keys():
            marks[self._by_word[word]] = True
        return np.flatnonzero(marks)

    def _take(
        self,
        chosen: dict[str, None],
        indices: np.ndarray[tuple[int], np.dtype[np.int64]],
        session: Session,
        limit: int,
    ) -> None:
        for index in map(int, indices):  # a few of thousands
            if len(chosen) >= limit:
                return
            text = self._texts[index]
            if self._sessions[index] != session.id and text != session.queries[-1]:
                chosen[text] = None


@dataclass(frozen=True)
class Rules:
    """What decides whether a session counts, and the seed of everything drawn."""

    min_followers: int = CANDIDATES
    seed: int = 0


Builder = Callable[[Sequence[Session], Backgrounds, Rules], CaseSet]


@dataclass(frozen=True)
class Scenario:
    """How a scenario is called in the report, and what makes its cases."""

    title: str
    build: Builder


def next_query_cases(
    sessions: Iterable[Session], backgrounds: Backgrounds, rules: Rules
) -> CaseSet:
    """Sessions with a known anchor, enough followers and the target among the candidates."""
    return _follower_cases(sessions, backgrounds, rules, known=True)


def long_tail_cases(sessions: Iterable[Session], backgrounds: Backgrounds, rules: Rules) -> CaseSet:
    """Sessions with an unknown anchor whose known beginning has followers."""
    return _follower_cases(sessions, backgrounds, rules, known=False)


def robust_cases(sessions: Iterable[Session], backgrounds: Backgrounds, rules: Rules) -> CaseSet:
    """The next-query cases, each with a noisy query inserted; candidates and target stay."""
    noise = Noise(backgrounds.whole, rules.seed)
    corrupted = []
    for case in next_query_cases(sessions, backgrounds, rules):
        context = noise.insert(case.context, case.session).queries
        anchor = backgrounds.of(case.user).known_beginning(context[-1])
        corrupted.append(replace(case, context=context, anchor=anchor))
    return CaseSet(corrupted)


def every_context_cases(
    sessions: Sequence[Session], backgrounds: Backgrounds, rules: Rules
) -> CaseSet:
    """Every session, its target among next queries of other sessions of the same split."""
    pool = DistractorPool(sessions)
    cases = []
    for session in sessions:
        distractors = pool.draw(session, CANDIDATES - 1, rules.seed)
        cases.append(_case(session, distractors, backgrounds.of(session.user)))
    return CaseSet(cases)


SCENARIOS: dict[str, Scenario] = {
    "next_query": Scenario("Next-query prediction", next_query_cases),
    "robust": Scenario("Robust prediction", robust_cases),
    "long_tail": Scenario("Long-tail prediction", long_tail_cases),
    "every_context": Scenario("Every context", every_context_cases),
}
"""Every scenario by name; a further one is one more function and one more row here."""


def _follower_cases(
    sessions: Iterable[Session], backgrounds: Backgrounds, rules: Rules, *, known: bool
) -> CaseSet:
    """The cases of sessions whose anchor is known, or of those whose anchor is not."""
    cases = []
    for session in sessions:
        background = backgrounds.of(session.user)
        *_, last, target = session.queries
        if (last in background) != known:
            continue
        anchor = background.known_beginning(last)
        if len(background.followers(anchor)) >= rules.min_followers:
            candidates = background.candidates(anchor)
            if target in candidates:
                distractors = [text for text in candidates if text != target]
                cases.append(_case(session, distractors, background))
    return CaseSet(cases)


def _case(
    session: Session, distractors: Sequence[str], background: BackgroundCounts
) -> RankingCase:
    """A case whose candidates are the true next query and `distractors`, in canonical order."""
    *context, target = session.queries
    texts = (target, *distractors)
    ordered = canonical_order(texts, [background.frequency(text) for text in texts])
    return RankingCase(
        session=session.id,
        context=tuple(context),
        anchor=background.known_beginning(context[-1]),
        candidates=ordered,
        target=ordered.index(target),
        length=len(session.queries),
        user=session.user,
    )
