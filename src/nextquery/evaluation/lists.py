"""Quality of suggestion lists, and the time that a list takes."""

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from nextquery.evaluation.steps import OPTIONAL, Steps
from nextquery.ranking.cases import BackgroundCounts
from nextquery.records import Session
from nextquery.suggesters.base import BatchSuggester, Decoding, Guarded, Suggester

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


LISTED = 20
SHOWN = 5
"""Overlap, synthetic share and diversity are of the suggestions that a person would see."""

_BATCH = 16


@dataclass(frozen=True)
class GenerationCase:
    """A context, what the user typed next, and whether the background knows the anchor."""

    context: tuple[str, ...]
    next_query: str
    known_anchor: bool


@dataclass(frozen=True)
class GenerationQuality:
    """Means over contexts; those of lists over the contexts that have one.

    `coverage` is the share with any suggestion, `hit_k` the share with the true next query among
    the first k, `mrr` the mean of 1/rank (0 if absent). `overlap_first` is the word F1 of the first
    suggestion with the true next query, `overlap_best` the best of the first five. `synthetic` is
    the share of suggestions that the background does not hold, `diversity` one less the mean share
    of words that two suggestions have in common.
    """

    contexts: int
    coverage: float
    hit_1: float
    hit_5: float
    hit_20: float
    mrr: float
    overlap_first: float
    overlap_best: float
    synthetic: float | None
    diversity: float | None


@dataclass(frozen=True)
class SystemLists:
    """The lists of one system; a group without contexts is None."""

    all: GenerationQuality | None = field(default=None, metadata=OPTIONAL)
    known_anchor: GenerationQuality | None = field(default=None, metadata=OPTIONAL)
    unknown_anchor: GenerationQuality | None = field(default=None, metadata=OPTIONAL)
    refused_by_guards: float = 0.0
    """The share of its suggestions that the guards refused."""

    def groups(self) -> dict[str, GenerationQuality]:
        """The groups that have contexts."""
        groups = {
            "all": self.all,
            "known_anchor": self.known_anchor,
            "unknown_anchor": self.unknown_anchor,
        }
        return {name: found for name, found in groups.items() if found is not None}


@dataclass(frozen=True)
class GenerationResult:
    """The lists of every system for the same contexts."""

    contexts: int
    listed: int
    shown: int
    systems: Mapping[str, SystemLists]


def sample_contexts(
    sessions: Sequence[Session], background: BackgroundCounts, n: int, seed: int
) -> list[GenerationCase]:
    """The contexts of up to `n` sessions, drawn without replacement, in the sessions' order."""
    generator = np.random.default_rng(seed)
    chosen = np.sort(generator.permutation(len(sessions))[:n])
    return [
        GenerationCase(
            sessions[number].queries[:-1],
            sessions[number].queries[-1],
            sessions[number].queries[-2] in background,
        )
        for number in chosen
    ]


def run_generation(
    suggesters: Mapping[str, Suggester],
    cases: Sequence[GenerationCase],
    background: BackgroundCounts,
    steps: Steps,
) -> GenerationResult:
    """The quality of every system's lists for the cases."""
    known = np.array([case.known_anchor for case in cases], dtype=np.bool_)
    groups = {"all": known | True, "known_anchor": known, "unknown_anchor": ~known}
    systems = {}
    for name, suggester in suggesters.items():
        steps.begin("generation")
        before = _refused(suggester)
        lists = suggest_all(suggester, [case.context for case in cases], steps.track(name))
        refused = _refused(suggester) - before
        kept = sum(map(len, lists))
        qualities = {
            group: _quality(lists, cases, marks, background)
            for group, marks in groups.items()
            if marks.any()
        }
        systems[name] = SystemLists(**qualities, refused_by_guards=refused / max(refused + kept, 1))
    return GenerationResult(len(cases), LISTED, SHOWN, systems)


def suggest_all(
    suggester: Suggester,
    contexts: Sequence[tuple[str, ...]],
    track: Callable[[range], Iterable[int]],
) -> list[list[str]]:
    """The texts suggested for each context."""
    lists: list[list[str]] = []
    for start in track(range(0, len(contexts), _BATCH)):
        batch = contexts[start : start + _BATCH]
        if isinstance(suggester, BatchSuggester):
            found = suggester.suggest_many(batch, LISTED)
        else:
            found = [suggester.suggest(context, LISTED) for context in batch]
        lists += [[suggestion.text for suggestion in row] for row in found]
    return lists


def word_overlap(suggestion: str, wanted: str) -> float:
    """The F1 of the words of two queries."""
    left, right = set(suggestion.split()), set(wanted.split())
    shared = len(left & right)
    return 2.0 * shared / (len(left) + len(right)) if shared else 0.0


def list_diversity(texts: Sequence[str]) -> float:
    """One less the mean Jaccard overlap of the words of two suggestions."""
    words = [set(text.split()) for text in texts]
    pairs = [len(a & b) / max(len(a | b), 1) for a, b in combinations(words, 2)]
    return 1.0 - float(np.mean(pairs))


def _quality(
    lists: Sequence[Sequence[str]],
    cases: Sequence[GenerationCase],
    marks: Iterable[bool],
    background: BackgroundCounts,
) -> GenerationQuality:
    rows = [
        (texts, case.next_query)
        for texts, case, keep in zip(lists, cases, marks, strict=True)
        if keep
    ]
    ranks = np.array([_rank(texts, wanted) for texts, wanted in rows])
    shown = [texts[:SHOWN] for texts, _ in rows if texts]
    several = [list_diversity(texts) for texts in shown if len(texts) > 1]
    unseen = [text not in background for texts in shown for text in texts]
    overlaps = [[word_overlap(t, wanted) for t in texts[:SHOWN]] or [0.0] for texts, wanted in rows]
    return GenerationQuality(
        contexts=len(rows),
        coverage=float(np.mean([bool(texts) for texts, _ in rows])),
        hit_1=float((ranks <= 1).mean()),
        hit_5=float((ranks <= 5).mean()),
        hit_20=float((ranks <= LISTED).mean()),
        mrr=float((1.0 / ranks).mean()),
        overlap_first=float(np.mean([row[0] for row in overlaps])),
        overlap_best=float(np.mean([max(row) for row in overlaps])),
        synthetic=float(np.mean(unseen)) if unseen else None,
        diversity=float(np.mean(several)) if several else None,
    )


def _rank(texts: Sequence[str], wanted: str) -> float:
    return texts.index(wanted) + 1 if wanted in texts else float("inf")


def _refused(suggester: Suggester) -> int:
    """How many suggestions the suggester's guard has refused so far."""
    return sum(suggester.guard.blocked().values()) if isinstance(suggester, Guarded) else 0
