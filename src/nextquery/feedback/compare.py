"""Which of two models is better, by what visitors took in a trial.

Every visitor counts once, by the first day on which they tell something: in an interleaved list by
whose suggestions they took more of, in a split by how many of their lists they took from. A day is
counted when it is over. The tests may be looked at every day (`sequential.py`); a trial ends with a
winner, or without one at the horizon, where a difference of the stated size would have been found.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InputError
from nextquery.feedback.events import Arm
from nextquery.feedback.impressions import Feedback, Impression
from nextquery.feedback.sequential import MOST, DifferenceTest, Evidence, VoteTest
from nextquery.feedback.settings import CompareSettings
from nextquery.feedback.shadows import ShadowResult, compare_shadows

Floats = NDArray[np.float64]
LOOKS = 50
"""At so many points of time a split is looked at."""
MIN_VISITORS = 100
"""The normal approximation begins with so many visitors in each arm."""


@dataclass(frozen=True)
class ArmResult:
    """What became of a model's suggestions in a trial."""

    name: str
    version: str
    visitors: int
    """Interleaving: who preferred it. Split: who saw it."""
    shown: int
    """Interleaving: its suggestions. Split: its lists."""
    taken: int


@dataclass(frozen=True)
class TrialResult:
    """The state of a trial between two models. `estimate` speaks of the second.

    Interleaving: which share of those who prefer one prefer the second; 1/2 is equality. Split: the
    difference of the shares of lists taken from, second less first; 0 is equality.
    """

    kind: str
    first: ArmResult
    second: ArmResult
    impressions: int
    estimate: float
    low: float
    high: float
    p: float
    winner: str | None
    decision: str
    needed: int
    """Impressions until the horizon; 0 when the trial is over."""
    needed_as_now: int | None
    """Impressions until a winner, if the difference is as it seems now; None if there is none."""
    earlier_versions: int
    """Impressions of other versions of these models, which do not count."""


@dataclass(frozen=True)
class CompareResults:
    """All trials and shadows of a feedback folder."""

    trials: tuple[TrialResult, ...]
    shadows: tuple[ShadowResult, ...]
    settings: CompareSettings
    today: str
    """This day and later ones do not count yet."""


def compare(feedback: Feedback, settings: CompareSettings, today: str) -> CompareResults:
    """The state of every trial in the feedback, days from `today` on left out."""
    over = [each for each in feedback.impressions if each.day < today]
    groups: defaultdict[tuple[str, tuple[str, ...]], list[Impression]] = defaultdict(list)
    for each in over:
        if each.trial is not None:
            names = tuple(arm.name for arm in each.trial.arms)
            groups[each.trial.kind, names].append(each)
    trials = [trial for group in groups.values() for trial in _compare_group(group, settings)]
    shadows = compare_shadows(over)
    if not trials and not shadows:
        raise InputError(
            f"no trial has a day before {today}; serve with `interleave`, `split` or `shadow`"
        )
    return CompareResults(tuple(trials), shadows, settings, today)


def _compare_group(shown: Sequence[Impression], settings: CompareSettings) -> Iterable[TrialResult]:
    """The comparisons of one trial: of all arms with the first, in the newest versions."""
    trial = shown[-1].trial
    assert trial is not None
    current = [each for each in shown if each.trial and each.trial.arms == trial.arms]
    earlier = len(shown) - len(current)
    strict = CompareSettings(
        settings.alpha / (len(trial.arms) - 1), settings.power, settings.smallest_effect
    )
    for second in trial.arms[1:]:
        arms = trial.arms[0], second
        if trial.kind == "interleave":
            yield _interleaved(current, arms, strict, earlier)
        else:
            yield _split(current, arms, strict, earlier)


def _interleaved(
    shown: Sequence[Impression],
    arms: tuple[Arm, Arm],
    settings: CompareSettings,
    earlier: int,
) -> TrialResult:
    votes = np.array([vote for _, vote in _votes(shown, arms)], dtype=np.float64)
    # Taken 1 : (1 + r) times, a preference is (1 + r) / (2 + r).
    wanted = (1 + settings.smallest_effect) / (2 + settings.smallest_effect)
    test = VoteTest(wanted - 0.5, settings.alpha)
    evidence = test.evidence(votes)
    per_vote = len(shown) / max(len(votes), 1)
    horizon = test.votes_needed(wanted, settings.power)
    likely = test.votes_needed(evidence.estimate, settings.power)
    results = [_placed(shown, arm, int((votes == n).sum())) for n, arm in enumerate(arms)]
    return _result(
        "interleave", results, len(shown), evidence, evidence.crossed - 0.5,
        (horizon - len(votes)) * per_vote,
        None if likely >= MOST else (likely - len(votes)) * per_vote, earlier,
    )  # fmt: skip


def _votes(shown: Sequence[Impression], arms: tuple[Arm, Arm]) -> list[tuple[str, int]]:
    """Each visitor's preference, 1 for the second, on the first day that they have one."""
    credit: defaultdict[tuple[str, str], int] = defaultdict(int)
    for each in shown:
        for place in each.taken:
            team = each.suggestions[place].model
            credit[each.day, each.visitor] += (team == arms[1].name) - (team == arms[0].name)
    return _once(((day, who, int(more > 0)) for (day, who), more in credit.items() if more))


def _once(found: Iterable[tuple[str, str, int]]) -> list[tuple[str, int]]:
    """Each visitor's first value, in the order of days."""
    first: dict[str, int] = {}
    for _, visitor, value in sorted(found, key=lambda each: each[0]):
        first.setdefault(visitor, value)
    return list(first.items())


def _placed(shown: Sequence[Impression], arm: Arm, visitors: int) -> ArmResult:
    places = [
        place in each.taken
        for each in shown
        for place, suggestion in enumerate(each.suggestions)
        if suggestion.model == arm.name
    ]
    return ArmResult(arm.name, arm.version, visitors, len(places), sum(places))


@dataclass(frozen=True)
class _Visitors:
    """One row per visitor in the order of time: which arm, lists taken from, lists shown."""

    arm: NDArray[np.int64]
    taken: Floats
    shown: Floats

    def difference(self, end: int) -> tuple[float, float]:
        """Second less first among the first `end` visitors, and its variance."""
        values = []
        for arm in (0, 1):
            mine = np.flatnonzero(self.arm[:end] == arm)
            taken, shown = self.taken[mine], self.shown[mine]
            share = taken.sum() / shown.sum()
            errors = taken - share * shown
            size = len(mine)
            values.append((share, (errors**2).sum() * size / (size - 1) / shown.sum() ** 2))
        (first, first_variance), (second, second_variance) = values
        return float(second - first), float(first_variance + second_variance)

    def looks(self) -> Sequence[int]:
        """The numbers of visitors after which the difference is looked at."""
        enough = [np.flatnonzero(np.cumsum(self.arm == arm) >= MIN_VISITORS) for arm in (0, 1)]
        if not all(map(len, enough)):
            return []
        start = 1 + max(int(found[0]) for found in enough)
        return sorted({int(n) for n in np.geomspace(start, len(self.arm), LOOKS)})


def _split(
    shown: Sequence[Impression],
    arms: tuple[Arm, Arm],
    settings: CompareSettings,
    earlier: int,
) -> TrialResult:
    names = [arm.name for arm in arms]
    mine = [each for each in shown if _arm(each) in names]
    visitors = _split_visitors(mine, names)
    found = np.array([visitors.difference(end) for end in visitors.looks()]).reshape(-1, 2)
    kept = found[found[:, 1] > 0]
    share = sum(bool(each.taken) for each in mine) / max(len(mine), 1)
    effect = max(settings.smallest_effect * share, 1e-6)
    test = DifferenceTest(effect, settings.alpha)
    evidence = test.evidence(kept[:, 0], kept[:, 1])
    results = [_seen(mine, arm, int((visitors.arm == n).sum())) for n, arm in enumerate(arms)]

    def left(difference: float) -> float | None:
        if not len(kept):
            return None
        growth = test.growth_needed(difference, float(kept[-1, 1]), settings.power)
        return None if growth >= MOST / 100 else (growth - 1) * len(mine)

    return _result(
        "split", results, len(mine), evidence, evidence.crossed, left(effect),
        left(evidence.estimate), earlier,
    )  # fmt: skip


def _split_visitors(shown: Sequence[Impression], names: Sequence[str]) -> _Visitors:
    """What each visitor did on their first day."""
    first: dict[str, list[Impression]] = {}
    for each in shown:
        mine = first.setdefault(each.visitor, [each])
        if mine[0] is not each and mine[0].day == each.day:
            mine.append(each)
    rows = [
        (names.index(_arm(lists[0])), sum(bool(each.taken) for each in lists), len(lists))
        for lists in first.values()
    ]
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return _Visitors(table[:, 0], table[:, 1].astype(float), table[:, 2].astype(float))


def _arm(shown: Impression) -> str:
    """The arm of a session, whoever answered for it."""
    return shown.trial.arm if shown.trial else ""


def _seen(shown: Sequence[Impression], arm: Arm, visitors: int) -> ArmResult:
    mine = [each for each in shown if _arm(each) == arm.name]
    return ArmResult(arm.name, arm.version, visitors, len(mine), sum(bool(e.taken) for e in mine))


def _result(
    kind: str,
    arms: Sequence[ArmResult],
    impressions: int,
    evidence: Evidence,
    direction: float,
    needed: float | None,
    needed_as_now: float | None,
    earlier: int,
) -> TrialResult:
    winner = None if math.isnan(direction) else arms[1 if direction > 0 else 0].name
    open_still = winner is None and (needed is None or needed > 0)
    if winner is not None:
        decision = f"{winner} is better; the trial can end"
    elif open_still:
        decision = "go on: nothing can be said yet"
    else:
        decision = "no winner: a difference of the stated size would have been found"
    return TrialResult(
        kind, arms[0], arms[1], impressions, evidence.estimate, evidence.low, evidence.high,
        evidence.p, winner, decision, _whole(needed) or 0 if open_still else 0,
        _whole(needed_as_now) if winner is None else 0, earlier,
    )  # fmt: skip


def _whole(number: float | None) -> int | None:
    return None if number is None else max(0, math.ceil(number))
