"""How well systems finish a half-typed query, and which word they expect next.

For each of a sample of test contexts the next query is completed after 1, 2, 3, ... of its
characters: is it among the completions, and how many keystrokes would it have saved? Once with the
session before it and once without. The same for words: after each whole word,
is the next one among the next words of the completions? The usual baseline, the most popular
completion, is the popularity model's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nextquery.evaluation.comparison import bootstrap_interval, paired_t_test
from nextquery.evaluation.lists import GenerationCase, rank_in
from nextquery.evaluation.steps import Steps
from nextquery.suggesters.base import Completer

LENGTHS = (1, 2, 3, 4, 6, 8, 12)
"""The numbers of typed characters after which completions are asked for."""
LISTED = 10
SHOWN = 5
"""A completion saves keystrokes when it is one of this many that a person sees."""

Ranks = NDArray[np.float64]


@dataclass(frozen=True)
class PrefixQuality:
    """Completions after one number of characters: means over the queries that are longer.

    `mrr` is of ten completions with its 95% bootstrap interval, `hit_5` the share with the query
    among the first five, `saved` the share of its characters that such a hit saves, 0 without.
    """

    characters: int
    cases: int
    mrr: float
    mrr_low: float
    mrr_high: float
    hit_5: float
    saved: float


@dataclass(frozen=True)
class NextWordQuality:
    """How often the next word is that of the first completion, or of one of the first five."""

    cases: int
    first: float
    of_five: float


@dataclass(frozen=True)
class CompletionQuality:
    """The completions of one system, with or without the session."""

    by_length: tuple[PrefixQuality, ...]
    mrr: float
    """The mean over queries of their mean over lengths."""
    saved: float
    """The share of characters saved by who takes the query at the first length that shows it."""
    next_word: NextWordQuality


@dataclass(frozen=True)
class SystemCompletions:
    """One system with the session and without it; `p` is the paired t-test's of their MRRs."""

    with_session: CompletionQuality
    without_session: CompletionQuality
    p: float


@dataclass(frozen=True)
class CompletionResult:
    """The completions of every system for the same queries."""

    queries: int
    listed: int
    shown: int
    systems: Mapping[str, SystemCompletions]


def run_completion(
    systems: Mapping[str, object], cases: Sequence[GenerationCase], steps: Steps
) -> CompletionResult:
    """The completions of every system that completes; queries of the session are left out.

    A query that the session holds already is never offered again, so it cannot be a hit.
    """
    new = [case for case in cases if case.next_query not in case.context]
    results = {
        name: _system(system, new, steps, name)
        for name, system in systems.items()
        if isinstance(system, Completer) and new
    }
    return CompletionResult(len(new), LISTED, SHOWN, results)


def _system(
    system: Completer, cases: Sequence[GenerationCase], steps: Steps, name: str
) -> SystemCompletions:
    ranks: list[list[Ranks]] = [[], []]  # with the session, without it
    words: list[list[float]] = [[], []]
    for index in steps.track(name)(range(len(cases))):
        case = cases[index]
        for view, context in enumerate((case.context, ())):
            ranks[view].append(typed_ranks(system, context, case.next_query))
            words[view] += next_word_ranks(system, context, case.next_query)
    targets = [case.next_query for case in cases]
    within, without = map(np.array, ranks)
    return SystemCompletions(
        _quality(within, words[0], targets),
        _quality(without, words[1], targets),
        paired_t_test(_mean_reciprocal(within), _mean_reciprocal(without)),
    )


def typed_ranks(system: Completer, context: Sequence[str], query: str) -> Ranks:
    """The query's rank after each of `LENGTHS` characters: infinite if absent, NaN if too long."""
    ranks = np.full(len(LENGTHS), np.nan)
    for index, length in enumerate(LENGTHS):
        if length < len(query):
            texts = [
                completion.text for completion in system.complete(context, query[:length], LISTED)
            ]
            ranks[index] = rank_in(texts, query)
    return ranks


def next_word_ranks(system: Completer, context: Sequence[str], query: str) -> list[float]:
    """For every word but the first: its rank among the next words of the completions."""
    words = query.split()
    ranks = []
    for known in range(1, len(words)):
        typed = " ".join(words[:known]) + " "
        completions = system.complete(context, typed, LISTED)
        later = (completion.text.split()[known:] for completion in completions)
        following = list(dict.fromkeys(rest[0] for rest in later if rest))
        ranks.append(rank_in(following, words[known]))
    return ranks


def saved_characters(ranks: Ranks, query: str) -> float:
    """The share of a query's characters saved by who takes it as soon as it is shown.

    >>> saved_characters(np.array([np.inf, 7.0, 2.0, 1.0, 1.0, 1.0, np.nan]), "paris hotels")
    0.75
    """
    seen = np.flatnonzero(ranks <= SHOWN)
    return 1.0 - LENGTHS[seen[0]] / len(query) if len(seen) else 0.0


def _quality(ranks: Ranks, words: Sequence[float], queries: Sequence[str]) -> CompletionQuality:
    """`ranks` is (queries, lengths)."""
    sizes = np.array([len(query) for query in queries], dtype=np.float64)
    return CompletionQuality(
        by_length=tuple(
            _at_length(length, ranks[asked, index], sizes[asked])
            for index, length in enumerate(LENGTHS)
            if (asked := ~np.isnan(ranks[:, index])).any()
        ),
        mrr=float(_mean_reciprocal(ranks).mean()),
        saved=float(
            np.mean([saved_characters(*case) for case in zip(ranks, queries, strict=True)])
        ),
        next_word=NextWordQuality(
            len(words),
            float(np.mean([rank == 1 for rank in words])) if words else 0.0,
            float(np.mean([rank <= SHOWN for rank in words])) if words else 0.0,
        ),
    )


def _at_length(length: int, ranks: Ranks, sizes: Ranks) -> PrefixQuality:
    reciprocal = 1.0 / ranks
    saved = np.where(ranks <= SHOWN, 1.0 - length / sizes, 0.0)
    return PrefixQuality(
        length,
        len(ranks),
        float(reciprocal.mean()),
        *bootstrap_interval(reciprocal),
        hit_5=float((ranks <= SHOWN).mean()),
        saved=float(saved.mean()),
    )


def _mean_reciprocal(ranks: Ranks) -> Ranks:
    """Of each query, over the lengths at which it was asked for; 0 for a query of one character."""
    asked = ~np.isnan(ranks)
    reciprocal = np.where(asked, 1.0 / np.where(asked, ranks, 1.0), 0.0)
    return np.asarray(reciprocal.sum(axis=1) / np.maximum(asked.sum(axis=1), 1))
