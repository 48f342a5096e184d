"""The guard of a re-ranker: switched off when visitors take less than from its base model.

It looks at the trials in which this very version took part beside another model. The evidence is
valid however often one looks (`sequential.py`), so that it can be asked every few minutes; today
counts, too.
"""

from dataclasses import dataclass
from pathlib import Path

from nextquery.artifacts import MANIFEST, sha256
from nextquery.errors import InputError
from nextquery.feedback.compare import TrialResult, compare
from nextquery.feedback.impressions import Feedback
from nextquery.feedback.reranking.reranker import Reranker
from nextquery.feedback.settings import CompareSettings
from nextquery.suggesters.loading import load

NO_END = "9999-12-31"
VERSION_DIGITS = 12
"""Of the manifest's SHA-256, as the service names versions."""


@dataclass(frozen=True)
class GuardVerdict:
    """What the guard found and did."""

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
        raise InputError(f"{folder}: holds {model.kind!r}, not a re-ranker")
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
    mine = tuple(
        each
        for each in feedback.impressions
        if each.trial and any(arm.version == version for arm in each.trial.arms)
    )
    if not mine:
        return []
    found = compare(Feedback(mine), settings, NO_END).trials
    return [trial for trial in found if version in (trial.first.version, trial.second.version)]


def _lost(trial: TrialResult, version: str) -> bool:
    winner = trial.first if trial.winner == trial.first.name else trial.second
    return trial.winner is not None and winner.version != version
