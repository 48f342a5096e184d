"""The guard as a decoder asks it: which next words are refused, which finished queries are taken.

Knows guard and vocabulary, one context at a time; knows nothing of scores or beams.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nextquery.guard.blocklist import Blocklist
from nextquery.guard.disguise import undisguise
from nextquery.guard.fingerprints import Keys
from nextquery.guard.guard import Guard, Reason
from nextquery.inference.session_vocabulary import SessionVocabulary
from nextquery.text.vocabulary import END_OF_QUERY, PADDING, UNKNOWN, Vocabulary

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]


class VocabularyRules:
    """What the guard says of a vocabulary, computed once and again when the blocklist changes."""

    def __init__(self, guard: Guard, vocabulary: Vocabulary) -> None:
        self.guard = guard
        self.vocabulary = vocabulary
        self.keys: Keys = guard.word_keys(vocabulary.words)
        self.never = np.zeros(len(vocabulary), dtype=np.bool_)
        self.never[[PADDING, UNKNOWN]] = True
        self._blocked = (Blocklist(), np.zeros(len(vocabulary), dtype=np.bool_))

    @cached_property
    def _undisguised(self) -> str:
        """Every word as it reads to the eye, a line a word; only a blocklist needs it.

        In one string: as objects they would take thirty times the memory.
        """
        return "\n".join(" ".join(undisguise(word).split()) for word in self.vocabulary.words)

    def blocked(self) -> tuple[Blocklist, Flags]:
        """The blocklist in force and which words (V,) it blocks by themselves."""
        current = self.guard.blocklist
        if self._blocked[0] is not current:
            self._blocked = (current, self._flags(current))
        return self._blocked

    def _flags(self, blocklist: Blocklist) -> Flags:
        if not blocklist.words:
            return np.zeros(len(self.vocabulary), dtype=np.bool_)
        lines = self._undisguised.split("\n")
        blocks = (not blocklist.words.isdisjoint(line.split(" ")) for line in lines)
        return np.fromiter(blocks, dtype=np.bool_, count=len(self.vocabulary))

    def for_context(self, queries: Sequence[str], own: SessionVocabulary) -> "ContextRules":
        """The rules of one context."""
        return ContextRules(self, queries, own)


class ContextRules:
    """The rules for the next query of one session."""

    def __init__(
        self, rules: VocabularyRules, queries: Sequence[str], own: SessionVocabulary
    ) -> None:
        self._guard = rules.guard
        self._own = own
        self._queries = tuple(queries)
        self._blocklist, self._blocked = rules.blocked()
        self._never, self._keys = rules.never, rules.keys
        self._own_pairs = rules.guard.session_pairs(self._queries)
        if own.outside:
            blocked = [self._blocklist.blocks_word(word) for word in own.outside]
            self._blocked = np.concatenate([self._blocked, np.array(blocked)])
            self._never = np.concatenate([self._never, np.zeros(len(blocked), dtype=np.bool_)])
            self._keys = np.concatenate([self._keys, rules.guard.word_keys(own.outside)])

    def refused(self, prefixes: Sequence[tuple[int, ...]], rows: Ids, words: Ids) -> Flags:
        """Which of `words` may not follow the prefix of its row; what the guard refuses counts."""
        blocked = self._blocked[words] | self._completes_phrase(prefixes, rows, words)
        rare = self._rare(prefixes, rows, words) & ~blocked
        self._guard.count(Reason.BLOCKLIST, int(blocked.sum()))
        self._guard.count(Reason.RARE_PAIR, int(rare.sum()))
        return np.asarray(self._never[words] | blocked | rare)

    def text(self, words: Sequence[int]) -> str:
        """The words of a prefix, joined."""
        return " ".join(map(self._own.word, words))

    def takes(self, text: str) -> bool:
        """Whether a finished query may be shown in this session."""
        return text not in self._queries and bool(self._guard.allows(text, self._queries))

    def _completes_phrase(
        self, prefixes: Sequence[tuple[int, ...]], rows: Ids, words: Ids
    ) -> Flags:
        found = np.zeros(len(words), dtype=np.bool_)
        if not self._blocklist.has_phrases:
            return found
        for place, (row, word) in enumerate(zip(rows.tolist(), words.tolist(), strict=True)):
            if word != END_OF_QUERY and self._blocklist.ends_phrase(self._own.word(word)):
                text = [*map(self._own.word, prefixes[row]), self._own.word(word)]
                found[place] = self._blocklist.blocks_last(text)
        return found

    def _rare(self, prefixes: Sequence[tuple[int, ...]], rows: Ids, words: Ids) -> Flags:
        if self._guard.tables.min_users <= 1 or not prefixes[0]:
            return np.zeros(len(words), dtype=np.bool_)
        last = np.array([prefix[-1] for prefix in prefixes])[rows]
        rare = self._guard.refused_pairs(self._keys[last], self._keys[words], self._own_pairs)
        return np.asarray(rare & (words != END_OF_QUERY))
