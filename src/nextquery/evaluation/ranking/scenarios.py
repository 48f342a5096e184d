"""The scenarios: which sessions become ranking cases, with which context and candidates.

Knows sessions and the background's counts, which may leave a session's own user out; does not know
models or features. In every scenario the last query of a session is to be predicted from the ones
before it.

    next_query     the paper's 4.4: the candidates are the 20 most frequent followers of the anchor
    robust         4.5: the same cases with a frequent query inserted somewhere in the context
    long_tail      4.6: the anchor is unknown; words are dropped from its end until it is known
    every_context  ours: every session counts; the distractors are next queries of other sessions
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from nextquery.evaluation.ranking.distractors import DistractorPool
from nextquery.evaluation.ranking.noise import Noise
from nextquery.ranking.candidates import CANDIDATES, BackgroundCounts, Backgrounds
from nextquery.ranking.cases import CaseSet, RankingCase, canonical_order
from nextquery.records import Session


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
    pairs = ((session, backgrounds.of(session.user)) for session in sessions)
    found = (
        _follower_case(session, session.queries[-2], background, rules.min_followers)
        for session, background in pairs
        if session.queries[-2] in background
    )
    return CaseSet(tuple(case for case in found if case is not None))


def long_tail_cases(sessions: Iterable[Session], backgrounds: Backgrounds, rules: Rules) -> CaseSet:
    """Sessions with an unknown anchor whose known beginning has followers."""
    pairs = ((session, backgrounds.of(session.user)) for session in sessions)
    found = (
        _follower_case(
            session,
            background.known_beginning(session.queries[-2]),
            background,
            rules.min_followers,
        )
        for session, background in pairs
        if session.queries[-2] not in background
    )
    return CaseSet(tuple(case for case in found if case is not None))


def robust_cases(sessions: Iterable[Session], backgrounds: Backgrounds, rules: Rules) -> CaseSet:
    """The next-query cases, each with a noisy query inserted; candidates and target stay."""
    noise = Noise(backgrounds.whole, rules.seed)
    corrupted = []
    for case in next_query_cases(sessions, backgrounds, rules).cases:
        context = noise.insert(case.context, case.session).queries
        anchor = backgrounds.of(case.user).known_beginning(context[-1])
        corrupted.append(replace(case, context=context, anchor=anchor))
    return CaseSet(tuple(corrupted))


def every_context_cases(
    sessions: Sequence[Session], backgrounds: Backgrounds, rules: Rules
) -> CaseSet:
    """Every session, its target among next queries of other sessions of the same split."""
    pool = DistractorPool(sessions)
    cases = []
    for session in sessions:
        *context, target = session.queries
        distractors = pool.draw(session, CANDIDATES - 1, rules.seed)
        background = backgrounds.of(session.user)
        cases.append(_case(session, tuple(context), (target, *distractors), background))
    return CaseSet(tuple(cases))


SCENARIOS: dict[str, Scenario] = {
    "next_query": Scenario("Next-query prediction", next_query_cases),
    "robust": Scenario("Robust prediction", robust_cases),
    "long_tail": Scenario("Long-tail prediction", long_tail_cases),
    "every_context": Scenario("Every context", every_context_cases),
}
"""Every scenario by name; a further one is one more function and one more row here."""


def _follower_case(
    session: Session, anchor: str, background: BackgroundCounts, min_followers: int
) -> RankingCase | None:
    followers = background.followers(anchor)
    if len(followers) < min_followers or session.queries[-1] not in followers:
        return None
    candidates = background.candidates(anchor)
    if session.queries[-1] not in candidates:
        return None
    *context, target = session.queries
    others = [text for text in candidates if text != target]
    return _case(session, tuple(context), (target, *others), background)


def _case(
    session: Session, context: tuple[str, ...], texts: tuple[str, ...], background: BackgroundCounts
) -> RankingCase:
    """A case whose candidates are `texts`, the true next query first, in canonical order."""
    ordered = canonical_order(texts, [background.frequency(text) for text in texts])
    return RankingCase(
        session=session.id,
        context=context,
        anchor=background.known_beginning(context[-1]),
        candidates=ordered,
        target=ordered.index(texts[0]),
        length=len(session.queries),
        user=session.user,
    )
