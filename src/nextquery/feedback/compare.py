"""Comparison of two models in a trial, with always-valid p-values and intervals."""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln
from scipy.stats import norm

from nextquery.artifacts import MANIFEST, sha256
from nextquery.errors import InputError
from nextquery.feedback.events import Arm
from nextquery.feedback.impressions import Feedback, Impression
from nextquery.feedback.report import ShadowResult, compare_shadows
from nextquery.feedback.reranker import Reranker
from nextquery.feedback.settings import CompareSettings
from nextquery.suggesters.loading import load

Floats = NDArray[np.float64]
MOST = 10**9
"""No trial is planned to be longer."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What all looks so far say."""

    p: float
    """Valid however often one looked."""
    estimate: float
    low: float
    high: float
    crossed: float
    """The estimate when the evidence first sufficed; not a number if it never did."""


@dataclass(frozen=True)
class VoteTest:
    """Whether visitors who prefer one of two prefer the second more or less often than the first.

    `effect` is the distance from 1/2 of the preference that the test shall detect.

    >>> test = VoteTest(effect=0.05, alpha=0.05)
    >>> round(test.evidence(np.ones(60)).p, 3), round(test.evidence(np.tile([0.0, 1.0], 30)).p, 3)
    (0.0, 1.0)
    """

    effect: float
    alpha: float

    @property
    def _weight(self) -> float:
        """The parameter of the Beta mixture, whose standard deviation is the effect."""
        return max((1 / (4 * self.effect**2) - 1) / 2, 0.5)

    def _log_evidence(self, wins: Floats, losses: Floats) -> Floats:
        """Against a preference of 1/2."""
        weight = self._weight
        mixture = betaln(weight + wins, weight + losses) - betaln(weight, weight)
        evidence: Floats = mixture + (wins + losses) * math.log(2)
        return evidence

    def evidence(self, votes: Floats) -> Evidence:
        """The evidence of votes in their order: 1 for the second, 0 for the first."""
        if not len(votes):
            return Evidence(1.0, 0.5, 0.0, 1.0, math.nan)
        wins = np.cumsum(votes)
        losses = np.arange(1, len(votes) + 1) - wins
        interval = self._interval(float(wins[-1]), float(losses[-1]))
        logs = self._log_evidence(wins, losses)
        return _all_looks(wins / (wins + losses), logs, self.alpha, interval)

    def _interval(self, wins: float, losses: float) -> tuple[float, float]:
        """All preferences that the evidence does not exclude."""
        shares = np.linspace(0.0005, 0.9995, 2000)
        mixture = betaln(self._weight + wins, self._weight + losses)
        under = wins * np.log(shares) + losses * np.log1p(-shares)
        logs = mixture - betaln(self._weight, self._weight) - under
        plausible = shares[logs < -math.log(self.alpha)]
        return (float(plausible[0]), float(plausible[-1])) if len(plausible) else (0.0, 1.0)

    def votes_needed(self, preference: float, power: float) -> int:
        """After how many votes such a preference is found with probability `power`."""
        distance = abs(preference - 0.5)
        if distance == 0.0:
            return MOST
        spread = float(norm.ppf(power)) * math.sqrt(preference * (1 - preference))

        def enough(votes: int) -> bool:
            wins = votes * (0.5 + distance) - spread * math.sqrt(votes)
            if wins <= votes / 2:
                return False
            logs = self._log_evidence(np.array(wins), np.array(votes - wins))
            return bool(logs >= -math.log(self.alpha))

        return _smallest(enough)


@dataclass(frozen=True)
class DifferenceTest:
    """Whether two shares differ; `effect` is the difference that the test is made for.

    >>> test = DifferenceTest(effect=0.02, alpha=0.05)
    >>> test.evidence(np.array([0.04]), np.array([0.0001])).p < 0.05
    True
    """

    effect: float
    alpha: float

    def evidence(self, differences: Floats, variances: Floats) -> Evidence:
        """The evidence of a difference as it was estimated, look by look."""
        if not len(differences):
            return Evidence(1.0, 0.0, -1.0, 1.0, math.nan)
        last, reach = float(differences[-1]), self._reach(float(variances[-1]))
        interval = max(-1.0, last - reach), min(1.0, last + reach)
        logs = self._log_evidence(differences, variances)
        return _all_looks(differences, logs, self.alpha, interval)

    def _log_evidence(self, differences: Floats, variances: Floats) -> Floats:
        mixed = variances + self.effect**2
        evidence: Floats = 0.5 * np.log(variances / mixed) + (
            self.effect**2 * differences**2 / (2 * variances * mixed)
        )
        return evidence

    def _reach(self, variance: float) -> float:
        """Half the width of the interval that is valid at any time."""
        mixed = variance + self.effect**2
        logs = math.log(mixed / variance) + 2 * math.log(1 / self.alpha)
        return math.sqrt(variance * mixed / self.effect**2 * logs)

    def growth_needed(self, difference: float, variance: float, power: float) -> float:
        """How many times as many visitors find such a difference with probability `power`."""
        if difference == 0.0 or variance <= 0.0:
            return float(MOST)
        spread = float(norm.ppf(power))

        def enough(hundredths: int) -> bool:
            smaller = variance * 100 / hundredths
            return abs(difference) - spread * math.sqrt(smaller) >= self._reach(smaller)

        return _smallest(enough) / 100


def _all_looks(
    estimates: Floats, logs: Floats, alpha: float, interval: tuple[float, float]
) -> Evidence:
    """The evidence of an estimate and the logarithm of its evidence at every look."""
    reached = np.flatnonzero(logs >= -math.log(alpha))
    crossed = float(estimates[reached[0]]) if len(reached) else math.nan
    p = min(1.0, math.exp(-float(logs.max())))
    return Evidence(p, float(estimates[-1]), *interval, crossed)


def _smallest(enough: Callable[[int], bool]) -> int:
    """The smallest number that satisfies `enough`; all larger numbers must satisfy it, too."""
    return 1 + bisect_left(range(1, MOST), True, key=enough)


LOOKS = 50
"""Number of points of time at which a split is evaluated."""
MIN_VISITORS = 100
"""Visitors in each arm from which the normal approximation is used."""


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
    """The state of a trial between two models. `estimate` is about the second.

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
    over = [impression for impression in feedback.impressions if impression.day < today]
    groups: defaultdict[tuple[str, tuple[str, ...]], list[Impression]] = defaultdict(list)
    for impression in over:
        if impression.trial is not None:
            names = tuple(arm.name for arm in impression.trial.arms)
            groups[impression.trial.kind, names].append(impression)
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
    current = [
        impression
        for impression in shown
        if impression.trial and impression.trial.arms == trial.arms
    ]
    earlier = len(shown) - len(current)
    strict = replace(settings, alpha=settings.alpha / (len(trial.arms) - 1))
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
    votes = np.array(_votes(shown, arms), dtype=np.float64)
    # Taken 1 : (1 + r) times, a preference is (1 + r) / (2 + r).
    smallest_share = (1 + settings.smallest_effect) / (2 + settings.smallest_effect)
    test = VoteTest(smallest_share - 0.5, settings.alpha)
    evidence = test.evidence(votes)
    per_vote = len(shown) / max(len(votes), 1)
    horizon = test.votes_needed(smallest_share, settings.power)
    likely = test.votes_needed(evidence.estimate, settings.power)
    results = [_placed(shown, arm, int((votes == n).sum())) for n, arm in enumerate(arms)]
    return _result(
        "interleave", results, len(shown), evidence, evidence.crossed - 0.5,
        (horizon - len(votes)) * per_vote,
        None if likely >= MOST else (likely - len(votes)) * per_vote, earlier,
    )  # fmt: skip


def _votes(shown: Sequence[Impression], arms: tuple[Arm, Arm]) -> list[int]:
    """Each visitor's preference, 1 for the second, on the first day that they have one."""
    credit: defaultdict[tuple[str, str], int] = defaultdict(int)
    for impression in shown:
        for position in impression.taken:
            team = impression.suggestions[position].model
            credit[impression.day, impression.visitor] += (team == arms[1].name) - (
                team == arms[0].name
            )
    first: dict[str, int] = {}
    for (_, visitor), more in sorted(credit.items(), key=lambda item: item[0][0]):
        if more:
            first.setdefault(visitor, int(more > 0))
    return list(first.values())


def _placed(shown: Sequence[Impression], arm: Arm, visitors: int) -> ArmResult:
    accepted = [
        position in impression.taken
        for impression in shown
        for position, suggestion in enumerate(impression.suggestions)
        if suggestion.model == arm.name
    ]
    return ArmResult(arm.name, arm.version, visitors, len(accepted), sum(accepted))


@dataclass(frozen=True)
class _Visitors:
    """One row per visitor in the order of time: which arm, lists taken from, lists shown."""

    arm: NDArray[np.int64]
    taken: Floats
    shown: Floats

    def difference(self, end: int) -> tuple[float, float]:
        """The second arm minus the first among the first `end` visitors, and its variance."""
        values = []
        for arm in (0, 1):
            of_arm = np.flatnonzero(self.arm[:end] == arm)
            taken, shown = self.taken[of_arm], self.shown[of_arm]
            share = taken.sum() / shown.sum()
            errors = taken - share * shown
            size = len(of_arm)
            values.append((share, (errors**2).sum() * size / (size - 1) / shown.sum() ** 2))
        (first, first_variance), (second, second_variance) = values
        return float(second - first), float(first_variance + second_variance)

    def looks(self) -> Sequence[int]:
        """The numbers of visitors after which the difference is looked at."""
        enough = [np.flatnonzero(np.cumsum(self.arm == arm) >= MIN_VISITORS) for arm in (0, 1)]
        if not all(map(len, enough)):
            return []
        start = 1 + max(int(indices[0]) for indices in enough)
        return sorted({int(n) for n in np.geomspace(start, len(self.arm), LOOKS)})


def _split(
    shown: Sequence[Impression],
    arms: tuple[Arm, Arm],
    settings: CompareSettings,
    earlier: int,
) -> TrialResult:
    names = [arm.name for arm in arms]
    of_arms = [impression for impression in shown if _arm(impression) in names]
    visitors = _split_visitors(of_arms, names)
    differences = np.array([visitors.difference(end) for end in visitors.looks()]).reshape(-1, 2)
    nonzero = differences[differences[:, 1] > 0]
    share = sum(bool(impression.taken) for impression in of_arms) / max(len(of_arms), 1)
    effect = max(settings.smallest_effect * share, 1e-6)
    test = DifferenceTest(effect, settings.alpha)
    evidence = test.evidence(nonzero[:, 0], nonzero[:, 1])
    results = [_seen(of_arms, arm, int((visitors.arm == n).sum())) for n, arm in enumerate(arms)]

    def left(difference: float) -> float | None:
        if not len(nonzero):
            return None
        growth = test.growth_needed(difference, float(nonzero[-1, 1]), settings.power)
        return None if growth >= MOST / 100 else (growth - 1) * len(of_arms)

    return _result(
        "split", results, len(of_arms), evidence, evidence.crossed, left(effect),
        left(evidence.estimate), earlier,
    )  # fmt: skip


def _split_visitors(shown: Sequence[Impression], names: Sequence[str]) -> _Visitors:
    """What each visitor did on their first day."""
    first: dict[str, list[Impression]] = {}
    for impression in shown:
        impressions = first.setdefault(impression.visitor, [impression])
        if impressions[0] is not impression and impressions[0].day == impression.day:
            impressions.append(impression)
    rows = [
        (
            names.index(_arm(lists[0])),
            sum(bool(impression.taken) for impression in lists),
            len(lists),
        )
        for lists in first.values()
    ]
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return _Visitors(table[:, 0], table[:, 1].astype(float), table[:, 2].astype(float))


def _arm(shown: Impression) -> str:
    """The arm of a session, whoever answered for it."""
    return shown.trial.arm if shown.trial else ""


def _seen(shown: Sequence[Impression], arm: Arm, visitors: int) -> ArmResult:
    of_arm = [impression for impression in shown if _arm(impression) == arm.name]
    return ArmResult(
        arm.name, arm.version, visitors, len(of_arm), sum(bool(e.taken) for e in of_arm)
    )


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
        decision = "continue: nothing can be said yet"
    else:
        decision = "no winner: a difference of the stated size would have been found"
    return TrialResult(
        kind, arms[0], arms[1], impressions, evidence.estimate, evidence.low, evidence.high,
        evidence.p, winner, decision, _whole(needed) or 0 if open_still else 0,
        _whole(needed_as_now) if winner is None else 0, earlier,
    )  # fmt: skip


def _whole(number: float | None) -> int | None:
    return None if number is None else max(0, math.ceil(number))


NO_END = "9999-12-31"
VERSION_DIGITS = 12
"""Of the manifest's SHA-256, as the service names versions."""


@dataclass(frozen=True)
class GuardVerdict:
    """Whether the re-ranker stays enabled, and why."""

    version: str
    enabled: bool
    """Whether lists are re-ranked from now on."""
    switched_off: bool
    """Whether this call switched it off."""
    reason: str
    trials: tuple[TrialResult, ...]


def guard_reranker(feedback: Feedback, folder: Path, settings: CompareSettings) -> GuardVerdict:
    """Switch the re-ranker in `folder` off if it loses a trial; the service must then reload."""
    model = load(folder)
    if not isinstance(model, Reranker):
        raise InputError(f"{folder}: is a {model.kind!r} model, not a re-ranker")
    version = sha256(folder / MANIFEST)[:VERSION_DIGITS]
    if not model.enabled:
        return GuardVerdict(version, False, False, "it was switched off before", ())
    trials = _trials_of(feedback, version, settings)
    lost = [trial for trial in trials if _lost(trial, version)]
    if not lost:
        reason = "no trial has shown it to be worse" if trials else "it took part in no trial yet"
        return GuardVerdict(version, True, False, reason, tuple(trials))
    reason = f"worse than {lost[0].winner} (p {lost[0].p:.2g}, {lost[0].impressions} impressions)"
    model.save_switched(folder, enabled=False, reason=reason)
    return GuardVerdict(version, False, True, reason, tuple(trials))


def _trials_of(feedback: Feedback, version: str, settings: CompareSettings) -> list[TrialResult]:
    impressions = tuple(
        impression
        for impression in feedback.impressions
        if impression.trial and any(arm.version == version for arm in impression.trial.arms)
    )
    if not impressions:
        return []
    trials = compare(Feedback(impressions), settings, NO_END).trials
    return [trial for trial in trials if version in (trial.first.version, trial.second.version)]


def _lost(trial: TrialResult, version: str) -> bool:
    winner = trial.first if trial.winner == trial.first.name else trial.second
    return trial.winner is not None and winner.version != version
