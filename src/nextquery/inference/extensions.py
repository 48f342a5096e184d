"""The next words that the rules allow: what a step of the search asks for, in NumPy.

The compiled kernels answer the same (`native/kernels/extension.h`) and are held to this by tests.
Where only words that have stood side by side are gone on with, these are looked up
(`word_followers.py`) instead of refusing all others one by one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nextquery.inference.rules import ContextRules, Ids
from nextquery.text.vocabulary import END_OF_QUERY

Totals = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LivePrefixes:
    """The unfinished prefixes of all contexts of a batch, best first in each context."""

    words: Ids
    """(rows, length): their words."""
    totals: Totals
    """(rows,): their log-likelihoods."""
    contexts: Ids
    """(rows,): the context of each, ascending."""

    @classmethod
    def start(cls, contexts: int) -> "LivePrefixes":
        """The empty prefix of every context."""
        words = np.zeros((contexts, 0), dtype=np.int64)
        return cls(words, np.zeros(contexts), np.arange(contexts))

    def __len__(self) -> int:
        return len(self.contexts)

    @property
    def length(self) -> int:
        """How many words each has."""
        return int(self.words.shape[1])

    @property
    def last(self) -> Ids | None:
        """(rows,): the last word of each; None if all are empty."""
        return np.ascontiguousarray(self.words[:, -1]) if self.length else None

    def parts(self) -> Iterator[tuple[int, slice]]:
        """The contexts that have any, and their rows."""
        present = np.unique(self.contexts)
        stops = np.searchsorted(self.contexts, present, side="right").tolist()
        start = 0
        for context, stop in zip(present.tolist(), stops, strict=True):
            yield context, slice(start, stop)
            start = stop


@dataclass(frozen=True, eq=False)
class Extensions:
    """Allowed extensions, those of one context together, best first, ties by row and word.

    Of each context as many as go on with it and are certain, and those that end above the last.
    """

    first: Ids
    """(contexts + 1,): where those of each context begin."""
    rows: Ids
    """(found,): which prefix."""
    words: Ids
    """(found,): which word."""
    totals: Totals
    """(found,): the prefix's log-likelihood and the word's."""

    @classmethod
    def joined(
        cls, contexts: int, parts: Sequence[tuple[int, tuple[Ids, Ids, Totals]]]
    ) -> "Extensions":
        """Those of some contexts, ascending, one behind the other."""
        counts = np.zeros(contexts + 1, dtype=np.int64)
        for context, (rows, _, _) in parts:
            counts[context + 1] = len(rows)
        none = np.zeros(0, dtype=np.int64)
        rows, words, totals = (
            np.concatenate([none if kind < 2 else np.zeros(0), *(part[kind] for _, part in parts)])
            for kind in range(3)
        )
        return cls(np.cumsum(counts), rows, words, totals)


class WordSource(Protocol):
    """What is asked of a prediction."""

    def best(self, rows: slice, before: Totals, count: int) -> Any:
        """Extensions among which are the `count` best, best first."""
        ...

    def of(self, words: Ids, rows: slice) -> NDArray[np.float32]:
        """The log-probability of given words (rows, words)."""
        ...


def allowed_extensions(
    prediction: WordSource, live: LivePrefixes, beam: int, rules: Sequence[ContextRules]
) -> Extensions:
    """The best allowed extensions of every context: `beam` that go on."""
    parts = []
    for context, rows in live.parts():
        prefixes = [tuple(words) for words in live.words[rows].tolist()]
        before, allowed = live.totals[rows], rules[context]
        if allowed.seen_only and live.length:
            following = [allowed.words_after(prefix[-1]) for prefix in prefixes]
            found = among(prediction, rows, before, following)
            refused = allowed.refused_seen(prefixes, found[0], found[1])
            kept = _cut(tuple(part[~refused] for part in found), beam, -np.inf)  # type: ignore[arg-type]
        else:
            kept = _best(prediction, rows, before, prefixes, beam, allowed)
        assert kept is not None
        parts.append((context, (kept[0] + rows.start, kept[1], kept[2])))
    return Extensions.joined(len(rules), parts)


def among(
    prediction: WordSource, rows: slice, before: Totals, following: Sequence[Ids]
) -> tuple[Ids, Ids, Totals]:
    """Given words behind given prefixes: rows counted from the first, words and totals, in order.

    `following` are the words of each row.
    """
    counts = np.array([len(words) for words in following])
    places = np.repeat(np.arange(len(following)), counts)
    columns = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
    words = np.concatenate(following)
    grid = np.full((len(following), max(1, int(counts.max()))), END_OF_QUERY, dtype=np.int64)
    grid[places, columns] = words
    totals = (prediction.of(grid, rows) + before[:, None])[places, columns]
    order = np.lexsort((words, places, -totals))
    order = order[totals[order] > -np.inf]
    return places[order], words[order], totals[order]


def _best(
    prediction: WordSource,
    rows: slice,
    before: Totals,
    prefixes: Sequence[tuple[int, ...]],
    beam: int,
    rules: ContextRules,
) -> tuple[Ids, Ids, Totals]:
    """The best of all words; where many are refused, many more are looked at."""
    count, kept = 2 * beam, None
    while kept is None:
        best = prediction.best(rows, before, count)
        free = ~rules.refused(prefixes, best.rows, best.words)
        kept = _cut((best.rows[free], best.words[free], best.totals[free]), beam, best.rest)
        count *= 4
    return kept


def _cut(found: tuple[Ids, Ids, Totals], beam: int, rest: float) -> tuple[Ids, Ids, Totals] | None:
    """All up to the last of `beam` that go on; None if one that is not listed may be better."""
    going = np.flatnonzero(found[1] != END_OF_QUERY)
    full = len(going) >= beam
    stop = int(going[beam - 1]) + 1 if full else len(found[1])
    if rest > (float(found[2][stop - 1]) if full else -np.inf):
        return None
    return found[0][:stop], found[1][:stop], found[2][:stop]
