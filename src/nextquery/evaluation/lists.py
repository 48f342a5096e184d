"""Quality of suggestion lists, and the time that a list takes."""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nextquery.evaluation.comparison import paired_t_test_by_user
from nextquery.evaluation.steps import OPTIONAL, Steps
from nextquery.guard.guard import Guard
from nextquery.guard.quality import Flaw
from nextquery.inference.gate import most_frequent
from nextquery.inference.lists import Relation, relation
from nextquery.ranking.cases import BackgroundCounts
from nextquery.records import Session, Suggestion
from nextquery.suggesters.base import BatchSuggester, Decoding, Guarded

BEAM = 50
CONTEXTS = 20
TIMED_CONTEXTS = 50


class ListMaker(Protocol):
    """Anything that suggests."""

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        """At most `n` suggestions, best first."""
        ...


def list_time(maker: ListMaker, sessions: Sequence[Session]) -> float:
    """The median milliseconds of a list of five, as a visitor asks for it."""
    times = _milliseconds(lambda context: maker.suggest(context, SHOWN), sessions, TIMED_CONTEXTS)
    return statistics.median(times)


def _milliseconds(
    ask: Callable[[tuple[str, ...]], object], sessions: Sequence[Session], most: int
) -> list[float]:
    """How long each answer takes; the first one is not counted."""
    times = []
    for session in sessions[: most + 1]:
        begin = time.perf_counter()
        ask(session.queries[:-1])
        times.append(1000 * (time.perf_counter() - begin))
    return times[1:] or times


@dataclass(frozen=True)
class DecodingTime:
    """The median time of one list."""

    beam: int
    contexts: int
    median_ms: float


def decoding_time(model: Decoding, sessions: Sequence[Session]) -> DecodingTime:
    """The median of some test contexts."""
    config = model.config.model_copy(update={"beam": BEAM})
    times = _milliseconds(
        lambda context: model.suggest_many([context], BEAM, config=config), sessions, CONTEXTS
    )
    return DecodingTime(BEAM, len(times), statistics.median(times))


LISTED = 20
SHOWN = 5
"""Overlap, synthetic share and diversity are of the suggestions that a person would see."""

_BATCH = 16
SIGNIFICANT = 0.05

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GenerationCase:
    """A context, what the user typed next, and whether the background has the anchor."""

    context: tuple[str, ...]
    next_query: str
    known_anchor: bool
    user: str = ""


@dataclass(frozen=True)
class TextQuality:
    """How the texts of lists read: shares of the suggestions in the first five places.

    `unknown`: fewer than K users typed it. `shortened`: it only drops words of the last query.
    `frequent`: one of the log's 100 most frequent queries. The others are flaws of texts that fewer
    than K users typed. `places` is the mean number of suggestions, `full` the share of lists of
    five.
    """

    unknown: float
    shortened: float
    frequent: float
    repeated_word: float
    dangling: float
    fragment: float
    disfluent: float
    misspelt: float
    places: float
    full: float

    @property
    def junk(self) -> float:
        """The share of suggestions with any flaw: each has at most one."""
        flaws = (self.repeated_word, self.dangling, self.fragment, self.disfluent, self.misspelt)
        return sum(flaws)


def text_quality(
    lists: Sequence[Sequence[str]], contexts: Sequence[Sequence[str]], guard: Guard
) -> TextQuality:
    """Measure the first five texts of each list, whoever made it, by the tables of a log."""
    frequent = most_frequent(guard.tables)
    counts: Counter[str] = Counter()
    total = 0
    for texts, context in zip(lists, contexts, strict=True):
        own_text = guard.own_text(context)
        for text in texts[:SHOWN]:
            total += 1
            counts["unknown"] += text not in guard.tables.queries
            counts["shortened"] += relation(context[-1], text) is Relation.DROPS
            counts["frequent"] += text in frequent
            flaw = guard.flaw(text, own_text)
            if flaw is not None:
                counts[flaw.name.lower()] += 1
    sizes = [min(len(texts), SHOWN) for texts in lists]
    names = ("unknown", "shortened", "frequent", *(flaw.name.lower() for flaw in Flaw))
    return TextQuality(
        **{name: counts[name] / max(total, 1) for name in names},
        places=float(np.mean(sizes)) if sizes else 0.0,
        full=float(np.mean([size == SHOWN for size in sizes])) if sizes else 0.0,
    )


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
    informational_mrr: float | None = field(default=None, metadata=OPTIONAL)
    """`mrr` where the next query is not one of the log's 100 most frequent."""


@dataclass(frozen=True)
class SystemLists:
    """The lists of one system; a group without contexts is None."""

    all: GenerationQuality | None = field(default=None, metadata=OPTIONAL)
    known_anchor: GenerationQuality | None = field(default=None, metadata=OPTIONAL)
    unknown_anchor: GenerationQuality | None = field(default=None, metadata=OPTIONAL)
    refused_by_guards: float = 0.0
    """The share of its suggestions that the guards refused."""
    text: TextQuality | None = field(default=None, metadata=OPTIONAL)

    def groups(self) -> dict[str, GenerationQuality]:
        """The groups that have contexts."""
        groups = {
            "all": self.all,
            "known_anchor": self.known_anchor,
            "unknown_anchor": self.unknown_anchor,
        }
        return {name: group for name, group in groups.items() if group is not None}


@dataclass(frozen=True)
class AgainstTrivial:
    """A system compared with the trivial rule that has the highest MRR."""

    system: str
    rule: str
    difference: float
    """MRR of the system less that of the rule."""
    p: float
    """Of the two-sided paired t-test, all contexts of a user taken together."""

    @property
    def better(self) -> bool:
        """Whether the system is better and chance is an unlikely reason."""
        return self.difference > 0 and self.p < SIGNIFICANT


@dataclass(frozen=True)
class GenerationResult:
    """The lists of every system for the same contexts."""

    contexts: int
    listed: int
    shown: int
    systems: Mapping[str, SystemLists]
    against_trivial: tuple[AgainstTrivial, ...] = field(default=(), metadata=OPTIONAL)


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
            sessions[number].user,
        )
        for number in chosen
    ]


def run_generation(
    suggesters: Mapping[str, ListMaker],
    cases: Sequence[GenerationCase],
    background: BackgroundCounts,
    steps: Steps,
    guard: Guard | None = None,
    trivial: Sequence[str] = (),
) -> GenerationResult:
    """The quality of every system's lists for the cases.

    Text quality is judged by `guard`. The systems named `trivial` are those to be beaten.
    """
    frequent = most_frequent(guard.tables) if guard is not None else frozenset[str]()
    reciprocal: dict[str, Floats] = {}
    known = np.array([case.known_anchor for case in cases], dtype=np.bool_)
    groups = {"all": known | True, "known_anchor": known, "unknown_anchor": ~known}
    contexts = [case.context for case in cases]
    systems = {}
    for name, suggester in suggesters.items():
        before = _refused(suggester)
        lists = suggest_all(suggester, contexts, steps.track(name))
        refused = _refused(suggester) - before
        allowed = sum(map(len, lists))
        qualities = {
            group: _quality(lists, cases, marks, background, frequent)
            for group, marks in groups.items()
            if marks.any()
        }
        systems[name] = SystemLists(
            **qualities,
            refused_by_guards=refused / max(refused + allowed, 1),
            text=None if guard is None else text_quality(lists, contexts, guard),
        )
        ranks = [rank_in(texts, case.next_query) for texts, case in zip(lists, cases, strict=True)]
        reciprocal[name] = 1.0 / np.array(ranks)
    users = [case.user for case in cases]
    against = _against_trivial(reciprocal, trivial, users)
    return GenerationResult(len(cases), LISTED, SHOWN, systems, against)


def _against_trivial(
    reciprocal: Mapping[str, Floats], trivial: Sequence[str], users: Sequence[str]
) -> tuple[AgainstTrivial, ...]:
    """Every other system against the best of the trivial rules."""
    if not trivial or not users:
        return ()
    best = max(trivial, key=lambda name: float(reciprocal[name].mean()))
    return tuple(
        AgainstTrivial(
            name,
            best,
            float((values - reciprocal[best]).mean()),
            paired_t_test_by_user(values, reciprocal[best], users),
        )
        for name, values in reciprocal.items()
        if name not in trivial
    )


def suggest_all(
    suggester: ListMaker,
    contexts: Sequence[tuple[str, ...]],
    track: Callable[[range], Iterable[int]],
    n: int = LISTED,
) -> list[list[str]]:
    """The at most `n` texts suggested for each context."""
    lists: list[list[str]] = []
    for start in track(range(0, len(contexts), _BATCH)):
        batch = contexts[start : start + _BATCH]
        if isinstance(suggester, BatchSuggester):
            rows = suggester.suggest_many(batch, n)
        else:
            rows = [suggester.suggest(context, n) for context in batch]
        lists += [[suggestion.text for suggestion in row] for row in rows]
    return lists


def rank_in(texts: Sequence[str], query: str) -> float:
    """The position of a query in a list, from 1; infinite if it is not there.

    >>> rank_in(["rome", "oslo"], "oslo"), rank_in([], "oslo")
    (2, inf)
    """
    return texts.index(query) + 1 if query in texts else float("inf")


def word_overlap(suggestion: str, next_query: str) -> float:
    """The F1 of the words of two queries."""
    left, right = set(suggestion.split()), set(next_query.split())
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
    frequent: frozenset[str],
) -> GenerationQuality:
    rows = [
        (texts, case.next_query)
        for texts, case, keep in zip(lists, cases, marks, strict=True)
        if keep
    ]
    ranks = np.array([rank_in(texts, query) for texts, query in rows])
    informational = np.array([query not in frequent for _, query in rows], dtype=np.bool_)
    shown = [texts[:SHOWN] for texts, _ in rows if texts]
    several = [list_diversity(texts) for texts in shown if len(texts) > 1]
    unseen = [text not in background for texts in shown for text in texts]
    overlaps = [[word_overlap(t, query) for t in texts[:SHOWN]] or [0.0] for texts, query in rows]
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
        informational_mrr=float((1.0 / ranks[informational]).mean())
        if frequent and informational.any()
        else None,
    )


def _refused(suggester: ListMaker) -> int:
    """How many suggestions the suggester's guard has refused so far."""
    return sum(suggester.guard.blocked().values()) if isinstance(suggester, Guarded) else 0
