"""Decoding rules: which next words the guard refuses and which finished queries it accepts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nextquery.guard.blocklist import Blocklist, Reading, letters, read_many, read_word
from nextquery.guard.fingerprints import Keys, in_sorted, pair_keys
from nextquery.guard.guard import Guard, OwnText, Reason
from nextquery.guard.quality import Flaw
from nextquery.inference.context import SessionVocabulary
from nextquery.text.vocabulary import END_OF_QUERY, PADDING, UNKNOWN, Vocabulary

Ids = NDArray[np.int64]


class FollowerTable:
    """The followers of every word of a vocabulary.

    >>> keys = np.array([5, 6, 7], dtype=np.uint64)
    >>> FollowerTable(keys, np.sort(pair_keys(keys[:1], keys[1:]))).of(0)
    array([1, 2])
    """

    def __init__(self, keys: Keys, common: Keys) -> None:
        """`keys` are those of the words; `common` the sorted keys of the pairs."""
        self.keys, self.common = keys, common
        self._known: dict[int, Ids] = {}

    def __len__(self) -> int:
        return len(self.common)

    def of(self, word: int) -> Ids:
        """The ids of the words seen after a word of the vocabulary, ascending."""
        followers = self._known.get(word)
        if followers is None:
            followers = self._known[word] = self.after_key(self.keys[[word]])
        return followers

    def after_key(self, key: Keys) -> Ids:
        """The same after any word, whose key is (1,)."""
        return np.flatnonzero(in_sorted(pair_keys(key, self.keys), self.common))


MOST_WORDS = 20
"""Longer queries are left out."""

_PREFIXES_REMEMBERED = 4096


class KnownQueries:
    """The known queries of a model.

    >>> known = KnownQueries(["paris hotels", "paris map", "rome"], Vocabulary(["paris", "map"]))
    >>> len(known)
    1
    """

    def __init__(self, queries: Iterable[str], vocabulary: Vocabulary) -> None:
        rows = [
            ids
            for words in (query.split() for query in queries)
            if 0 < len(words) <= MOST_WORDS and all(word in vocabulary for word in words)
            for ids in [[*map(vocabulary.id, words), END_OF_QUERY]]
        ]
        table = np.full((len(rows), MOST_WORDS + 1), PADDING, dtype=np.int32)
        for row, ids in enumerate(rows):
            table[row, : len(ids)] = ids
        order = np.lexsort(table.T[::-1])
        self._columns = np.ascontiguousarray(table[order].T)  # (words, queries)
        self.next_words = lru_cache(_PREFIXES_REMEMBERED)(self._next_words)

    def __len__(self) -> int:
        return int(self._columns.shape[1])

    def _next_words(self, prefix: Sequence[int]) -> Ids:
        """The words, or the end, that follow a beginning in any known query, ascending."""
        if len(prefix) > MOST_WORDS:
            return np.empty(0, dtype=np.int64)
        start, stop = 0, len(self)
        for column, word in zip(self._columns, prefix, strict=False):
            bounds = np.searchsorted(column[start:stop], [word, word + 1])
            start, stop = start + int(bounds[0]), start + int(bounds[1])
        next_words = self._columns[len(prefix), start:stop]
        return np.unique(next_words).astype(np.int64)


Flags = NDArray[np.bool_]


class VocabularyRules:
    """What the guard says of a vocabulary, computed once and again when the blocklist changes."""

    def __init__(self, guard: Guard, vocabulary: Vocabulary) -> None:
        self.guard = guard
        self.vocabulary = vocabulary
        self.keys: Keys = guard.word_keys(vocabulary.words)
        self.followers = FollowerTable(self.keys, guard.tables.common_pairs)
        self.never = np.zeros(len(vocabulary), dtype=np.bool_)
        self.never[[PADDING, UNKNOWN]] = True
        no_words = np.zeros(len(vocabulary), dtype=np.bool_)
        self._blocked = BlockedWords(Blocklist(), no_words, no_words)

    def blocked(self) -> "BlockedWords":
        """What the blocklist in force says of every word."""
        current = self.guard.blocklist
        if self._blocked.blocklist is not current:
            readings = (Reading(*line.split("\t")) for line in self._lines.split("\n"))
            self._blocked = _blocked_words(current, readings)
        return self._blocked

    @cached_property
    def _lines(self) -> str:
        """The readings of all words, one per line; only a blocklist needs them.

        In one string: as objects they would take thirty times the memory.
        """
        return "\n".join(map("\t".join, read_many(list(map(letters, self.vocabulary.words)))))


@dataclass(frozen=True, eq=False)
class BlockedWords:
    """What a blocklist says of each word of a vocabulary, or of a vocabulary and a session."""

    blocklist: Blocklist
    alone: Flags
    """(V,): blocked whatever comes before it."""
    may_end: Flags
    """(V,): may be blocked together with what comes before it."""

    @cached_property
    def none(self) -> bool:
        """Whether no word is blocked, whatever comes before it."""
        return not (self.alone.any() or self.may_end.any())

    def with_words(self, words: Sequence[str]) -> "BlockedWords":
        """The same with more words."""
        newly_blocked = _blocked_words(self.blocklist, map(read_word, words))
        return BlockedWords(
            self.blocklist,
            np.concatenate([self.alone, newly_blocked.alone]),
            np.concatenate([self.may_end, newly_blocked.may_end]),
        )


def _blocked_words(blocklist: Blocklist, words: Iterable[Reading]) -> BlockedWords:
    judged = [(blocklist.is_entry(word), blocklist.may_end(word)) for word in words]
    flags = np.array(judged, dtype=np.bool_).reshape(-1, 2)
    return BlockedWords(blocklist, flags[:, 0].copy(), flags[:, 1].copy())


class ContextRules:
    """The rules for the next query of one session."""

    def __init__(
        self,
        rules: VocabularyRules,
        queries: Sequence[str],
        session_words: SessionVocabulary,
        *,
        read: Sequence[str] | None = None,
        seen_pairs: bool = False,
        quality: bool = False,
        completes: bool = False,
    ) -> None:
        """`read` is what the model reads of the queries, all of them if left out.

        With `seen_pairs` only known pairs of words are allowed. With `quality`, finished queries
        must pass the text-quality gate; when the rules are for what `completes` a typed beginning,
        one word of the session will do.
        """
        self.shared = rules
        # A log without any pair says nothing about which words go together.
        self.seen_only = seen_pairs and len(rules.followers) > 0
        self.session_words = session_words
        self._guard = rules.guard
        self._queries = frozenset(queries)
        self._read = tuple(queries if read is None else read)
        self.shared_blocked = rules.blocked()
        self._after: dict[int, Ids] = {}
        self._quality, self._completes = quality, completes

    @cached_property
    def blocked(self) -> BlockedWords:
        """What the blocklist says of the vocabulary and of the session's other words."""
        return self.shared_blocked.with_words(self.session_words.outside)

    @cached_property
    def outside_keys(self) -> Keys:
        """The keys of the session's words outside the vocabulary."""
        return self._guard.word_keys(self.session_words.outside)

    @cached_property
    def own_pairs(self) -> tuple[tuple[int, int], ...]:
        """The words that stand side by side in the session's own queries, as ids, ascending."""
        pairs = {
            pair
            for query in self._own_text.queries
            for pair in pairwise(map(self.session_words.id, query.split()))
            if UNKNOWN not in pair
        }
        return tuple(sorted(pairs))

    @cached_property
    def _never(self) -> Flags:
        outside = np.zeros(len(self.session_words.outside), dtype=np.bool_)
        return np.concatenate([self.shared.never, outside])

    @cached_property
    def _keys(self) -> Keys:
        return np.concatenate([self.shared.keys, self.outside_keys])

    @cached_property
    def _own_text(self) -> OwnText:
        return self._guard.own_text(self._read)

    def refused(self, prefixes: Sequence[tuple[int, ...]], rows: Ids, words: Ids) -> Flags:
        """Which of `words` may not follow the prefix of its row; what the guard refuses counts."""
        blocked = self._blocked(prefixes, rows, words)
        rare = self._rare(prefixes, rows, words) & ~blocked
        self._guard.count(Reason.RARE_PAIR, int(rare.sum()))
        unseen = self._unseen(prefixes, rows, words)
        return np.asarray(self._never[words] | blocked | rare | unseen)

    def refused_seen(self, prefixes: Sequence[tuple[int, ...]], rows: Ids, words: Ids) -> Flags:
        """The same for words that `words_after` gave: their pairs are not asked about again."""
        return np.asarray(self._never[words] | self._blocked(prefixes, rows, words))

    def words_after(self, last: int) -> Ids:
        """The words, and the end, that K users or the session's own typed after a word."""
        if last not in self._after:
            session = [second for first, second in self.own_pairs if first == last]
            outside = np.arange(len(self.shared.keys), len(self._keys))
            pairs = self._own_text.pairs
            other = self._guard.seen_pairs(self._keys[[last]], self._keys[outside], pairs)
            seen = (
                self.shared.followers.of(last)
                if last < len(self.shared.keys)
                else self.shared.followers.after_key(self._keys[[last]])
            )
            words = [seen, outside[other], np.array([*session, END_OF_QUERY])]
            self._after[last] = np.unique(np.concatenate(words))
        return self._after[last]

    def allows_text(self, text: str) -> bool:
        """Whether a finished query may be shown in this session."""
        if text in self._queries:
            return False
        flaw = self._guard.flaw(text, self._own_text) if self._quality else None
        if flaw is not None and not (flaw is Flaw.FRAGMENT and self._completes):
            return False
        return bool(self._guard.allows(text, self._own_text))

    def is_blocked(self, words: Sequence[int]) -> bool:
        """Whether the last of some words completes something blocked; counted if so."""
        blocked = self.blocked.blocklist.blocks_last(
            [self.session_words.word(word) for word in words]
        )
        self._guard.count(Reason.BLOCKLIST, int(blocked))
        return blocked

    def _blocked(self, prefixes: Sequence[tuple[int, ...]], rows: Ids, words: Ids) -> Flags:
        """Which words are blocked, alone or together with what comes before them; counted."""
        if self.shared_blocked.none and self.blocked.none:
            return np.zeros(len(words), dtype=np.bool_)
        blocked = self.blocked.alone[words]
        self._guard.count(Reason.BLOCKLIST, int(blocked.sum()))
        if prefixes[0]:
            for index in (self.blocked.may_end[words] & ~blocked).nonzero()[0].tolist():
                blocked[index] = self.is_blocked((*prefixes[rows[index]], int(words[index])))
        return blocked

    def _rare(self, prefixes: Sequence[tuple[int, ...]], rows: Ids, words: Ids) -> Flags:
        if self._guard.tables.min_users <= 1 or not prefixes[0]:
            return np.zeros(len(words), dtype=np.bool_)
        last = self._last_keys(prefixes, rows)
        rare = self._guard.refused_pairs(last, self._keys[words], self._own_text.pairs)
        return np.asarray(rare & (words != END_OF_QUERY))

    def _unseen(self, prefixes: Sequence[tuple[int, ...]], rows: Ids, words: Ids) -> Flags:
        """Which words neither K users nor the session's own typed after the prefix's last word."""
        if not self.seen_only or not prefixes[0]:
            return np.zeros(len(words), dtype=np.bool_)
        last = self._last_keys(prefixes, rows)
        seen = self._guard.seen_pairs(last, self._keys[words], self._own_text.pairs)
        return np.asarray(~seen & (words != END_OF_QUERY))

    def _last_keys(self, prefixes: Sequence[tuple[int, ...]], rows: Ids) -> Keys:
        """The key of the last word of the prefix in each row."""
        return np.asarray(self._keys[np.array([prefix[-1] for prefix in prefixes])[rows]])


Totals = NDArray[np.float64]


def rows_by_context(contexts: Ids) -> Iterator[tuple[int, slice]]:
    """The contexts (rows,), ascending, that have rows, and the rows of each.

    >>> list(rows_by_context(np.array([0, 0, 2])))
    [(0, slice(0, 2, None)), (2, slice(2, 3, None))]
    """
    different, starts = np.unique(contexts, return_index=True)
    bounds = pairwise([*starts.tolist(), len(contexts)])
    yield from zip(different.tolist(), (slice(start, stop) for start, stop in bounds), strict=True)


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
