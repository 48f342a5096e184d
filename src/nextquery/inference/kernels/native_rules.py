"""The guard's rules as the compiled kernels take them: flags of words, pairs, the session's own.

Knows the layout of the records; what is refused is decided in `rules.py` and the guard.
"""

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary, finalize

import numpy as np
from numpy.typing import NDArray

from nextquery.inference.kernels.library import Library, RulesRecord, address
from nextquery.inference.rules import BlockedWords, ContextRules, Flags, VocabularyRules

NEVER, BLOCKED, DOUBTFUL = 1, 2, 4


class NativeVocabularyRules:
    """What holds for every context of a model: pairs, opened once, and flags of words."""

    def __init__(self, library: Library, rules: VocabularyRules) -> None:
        tables = rules.guard.tables
        self._kept = (rules.keys, np.ascontiguousarray(tables.common_pairs), tables.rare_pairs.bits)
        keys, common, rare = self._kept
        self.pairs = library.pairs_open(address(keys), len(keys), address(common), len(common))
        if not self.pairs:
            raise MemoryError("no memory for the pairs of words")
        finalize(self, library.pairs_close, self.pairs)
        self._rare = (address(rare), len(rare)) if tables.min_users > 1 else (0, 0)
        self._never = rules.never
        self._blocked: BlockedWords | None = None
        self._flags = np.zeros(0, dtype=np.uint8)

    def record(self, rules: Sequence[ContextRules]) -> "tuple[ctypes.Structure, list[Any]]":
        """The rules of a batch, and the arrays that the record points to."""
        outside = [each.outside_keys for each in rules]
        pairs = [[first << 32 | second for first, second in each.own_pairs] for each in rules]
        arrays: list[NDArray[Any]] = [
            self._flags_of(rules[0]),
            _starts(map(len, outside)),
            np.concatenate(outside),
            np.concatenate([_outside_flags(each) for each in rules]),
            _starts(map(len, pairs)),
            np.array([pair for some in pairs for pair in some], dtype=np.uint64),
        ]
        record = RulesRecord(
            self.pairs, int(rules[0].seen_only), *self._rare, *(address(each) for each in arrays)
        )
        return record, arrays

    def _flags_of(self, rules: ContextRules) -> NDArray[np.uint8]:
        blocked = rules.shared_blocked
        if self._blocked is not blocked:
            self._flags = _flags(self._never, blocked.alone, blocked.may_end)
            self._blocked = blocked
        return self._flags


class RulesCache:
    """The native side of every `VocabularyRules` that a decoder was asked with."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._known: WeakKeyDictionary[VocabularyRules, NativeVocabularyRules] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._known)

    def of(self, rules: VocabularyRules) -> NativeVocabularyRules:
        """The one of these rules, made when first asked for; at worst twice."""
        found = self._known.get(rules)
        if found is None:
            found = self._known[rules] = NativeVocabularyRules(self._library, rules)
        return found


def _flags(never: Flags, alone: Flags, may_end: Flags) -> NDArray[np.uint8]:
    return np.asarray(NEVER * never + BLOCKED * alone + DOUBTFUL * may_end, dtype=np.uint8)


def _outside_flags(rules: ContextRules) -> NDArray[np.uint8]:
    words = len(rules.shared.keys)
    if not rules.own.outside or len(rules.shared_blocked.blocklist) == 0:
        return np.zeros(len(rules.own.outside), dtype=np.uint8)
    alone, may_end = rules.blocked.alone[words:], rules.blocked.may_end[words:]
    return _flags(np.zeros(len(alone), dtype=np.bool_), alone, may_end)


def _starts(counts: Iterable[int]) -> NDArray[np.int64]:
    return np.cumsum([0, *counts])
