"""The guard as a decoder asks it: which next words are refused, which finished queries are taken.

Knows guard and vocabulary, one context at a time; knows nothing of scores or beams.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nextquery.guard.blocklist import Blocklist
from nextquery.guard.disguise import Reading, letters, read_many, read_word
from nextquery.guard.fingerprints import Keys
from nextquery.guard.guard import Guard, Reason
from nextquery.inference.session_vocabulary import SessionVocabulary
from nextquery.inference.word_followers import FollowerTable
from nextquery.text.vocabulary import END_OF_QUERY, PADDING, UNKNOWN, Vocabulary

Ids = NDArray[np.int64]
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
        none = np.zeros(len(vocabulary), dtype=np.bool_)
        self._blocked = BlockedWords(Blocklist(), none, none)

    def blocked(self) -> "BlockedWords":
        """What the blocklist in force says of every word."""
        current = self.guard.blocklist
        if self._blocked.blocklist is not current:
            self._blocked = _blocked_words(current, self._readings())
        return self._blocked

    def _readings(self) -> Iterator[Reading]:
        return (Reading(*line.split("\t")) for line in self._lines.split("\n"))

    @cached_property
    def _lines(self) -> str:
        """The readings of all words, one per line; only a blocklist needs them.

        In one string: as objects they would take thirty times the memory.
        """
        return "\n".join(map("\t".join, read_many(list(map(letters, self.vocabulary.words)))))

    def for_context(
        self, queries: Sequence[str], own: SessionVocabulary, *, seen_pairs: bool = False
    ) -> "ContextRules":
        """The rules of one context; with `seen_pairs` words may only stand as they once stood."""
        return ContextRules(self, queries, own, seen_pairs=seen_pairs)


@dataclass(frozen=True, eq=False)
class BlockedWords:
    """What a blocklist says of each word of a vocabulary, or of a vocabulary and a session."""

    blocklist: Blocklist
    alone: Flags
    """(V,): blocked whatever stands before it."""
    may_end: Flags
    """(V,): may be blocked together with what stands before it."""

    @cached_property
    def none(self) -> bool:
        """Whether no word is blocked, whatever stands before it."""
        return not (self.alone.any() or self.may_end.any())

    def with_words(self, words: Sequence[str]) -> "BlockedWords":
        """The same with more words."""
        more = _blocked_words(self.blocklist, map(read_word, words))
        return BlockedWords(
            self.blocklist,
            np.concatenate([self.alone, more.alone]),
            np.concatenate([self.may_end, more.may_end]),
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
        own: SessionVocabulary,
        *,
        seen_pairs: bool = False,
    ) -> None:
        self.shared = rules
        # A log without any pair says nothing about which words go together.
        self.seen_only = seen_pairs and len(rules.followers) > 0
        self.own = own
        self._guard = rules.guard
        self._queries = tuple(queries)
        self.shared_blocked = rules.blocked()
        self._after: dict[int, Ids] = {}

    @cached_property
    def blocked(self) -> BlockedWords:
        """What the blocklist says of the vocabulary and of the session's other words."""
        return self.shared_blocked.with_words(self.own.outside)

    @cached_property
    def outside_keys(self) -> Keys:
        """The keys of the session's words outside the vocabulary."""
        return self._guard.word_keys(self.own.outside)

    @cached_property
    def own_pairs(self) -> tuple[tuple[int, int], ...]:
        """The words that stand side by side in the session's own queries, as ids, ascending."""
        pairs = {
            pair
            for query in self._queries
            for pair in pairwise(map(self.own.id, query.split()))
            if UNKNOWN not in pair
        }
        return tuple(sorted(pairs))

    @cached_property
    def _never(self) -> Flags:
        others = np.zeros(len(self.own.outside), dtype=np.bool_)
        return np.concatenate([self.shared.never, others])

    @cached_property
    def _keys(self) -> Keys:
        return np.concatenate([self.shared.keys, self.outside_keys])

    @cached_property
    def _own_pair_keys(self) -> Keys:
        return self._guard.session_pairs(self._queries)

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
            own = np.arange(len(self.shared.keys), len(self._keys))
            other = self._guard.seen_pairs(self._keys[[last]], self._keys[own], self._own_pair_keys)
            seen = (
                self.shared.followers.of(last)
                if last < len(self.shared.keys)
                else self.shared.followers.behind(self._keys[[last]])
            )
            every = [seen, own[other], np.array([*session, END_OF_QUERY])]
            self._after[last] = np.unique(np.concatenate(every))
        return self._after[last]

    def text(self, words: Sequence[int]) -> str:
        """The words of a prefix, joined."""
        return self.own.text(words)

    def takes(self, text: str) -> bool:
        """Whether a finished query may be shown in this session."""
        return text not in self._queries and bool(self._guard.allows(text, self._queries))

    def is_blocked(self, words: Sequence[int]) -> bool:
        """Whether the last of some words completes something blocked; counted if so."""
        blocked = self.blocked.blocklist.blocks_last([self.own.word(word) for word in words])
        self._guard.count(Reason.BLOCKLIST, int(blocked))
        return blocked

    def _blocked(self, prefixes: Sequence[tuple[int, ...]], rows: Ids, words: Ids) -> Flags:
        """Which words are blocked, alone or together with what stands before them; counted."""
        if self.shared_blocked.none and self.blocked.none:
            return np.zeros(len(words), dtype=np.bool_)
        found = self.blocked.alone[words]
        self._guard.count(Reason.BLOCKLIST, int(found.sum()))
        if prefixes[0]:
            for place in (self.blocked.may_end[words] & ~found).nonzero()[0].tolist():
                found[place] = self.is_blocked((*prefixes[rows[place]], int(words[place])))
        return found

    def _rare(self, prefixes: Sequence[tuple[int, ...]], rows: Ids, words: Ids) -> Flags:
        if self._guard.tables.min_users <= 1 or not prefixes[0]:
            return np.zeros(len(words), dtype=np.bool_)
        last = self._last_keys(prefixes, rows)
        rare = self._guard.refused_pairs(last, self._keys[words], self._own_pair_keys)
        return np.asarray(rare & (words != END_OF_QUERY))

    def _unseen(self, prefixes: Sequence[tuple[int, ...]], rows: Ids, words: Ids) -> Flags:
        """Which words neither K users nor the session's own typed after the prefix's last word."""
        if not self.seen_only or not prefixes[0]:
            return np.zeros(len(words), dtype=np.bool_)
        last = self._last_keys(prefixes, rows)
        seen = self._guard.seen_pairs(last, self._keys[words], self._own_pair_keys)
        return np.asarray(~seen & (words != END_OF_QUERY))

    def _last_keys(self, prefixes: Sequence[tuple[int, ...]], rows: Ids) -> Keys:
        """The key of the last word of the prefix in each row."""
        return np.asarray(self._keys[np.array([prefix[-1] for prefix in prefixes])[rows]])
