"""The guard: decides whether a query may be shown, and which words may follow a prefix.

A query is refused when
- it holds a blocked word or phrase, or looks like personal data;
- fewer than K users typed one of its words, a pair of its adjacent words, or, from two words on,
  the whole of it. What nobody typed cannot be traced to anybody and passes; words and pairs of
  the session at hand come from the person who will see them and pass too;
- a hits check is set and says that it finds nothing.

Knows text and tables; knows no model. Safe to use from several threads.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts import Artifact
from nextquery.guard.blocklist import Blocklist, read_blocklist
from nextquery.guard.fingerprints import Keys, in_sorted, pair_keys, text_keys
from nextquery.guard.guard_tables import Tables, open_tables
from nextquery.guard.hits import HitsCheck
from nextquery.logs.stages.privacy import looks_personal
from nextquery.normalise import normalise_query

_REMEMBERED = 1 << 14
"""Texts whose verdict is kept: the same suggestions come up in session after session."""

_personal = lru_cache(_REMEMBERED)(looks_personal)


class Reason(StrEnum):
    """Why a query is refused."""

    BLOCKLIST = "blocklist"
    PERSONAL_DATA = "personal data"
    RARE_WORD = "a word of fewer than K users"
    RARE_PAIR = "a pair of words of fewer than K users"
    RARE_QUERY = "a query of fewer than K users"
    NO_HITS = "no hits"


@dataclass(frozen=True, slots=True)
class Verdict:
    """True when a query may be shown; otherwise `reason` says why not."""

    reason: Reason | None = None

    def __bool__(self) -> bool:
        return self.reason is None


class Guard:
    """Everything that stands between a model's output and a person's screen."""

    def __init__(
        self,
        tables: Tables | None = None,
        blocklist: Path | None = None,
        hits: HitsCheck | None = None,
        *,
        enforced: bool = True,
    ) -> None:
        self.tables = tables or Tables()
        self._enforced = enforced
        if not enforced:
            self.tables = replace(self.tables, min_users=1)
        self._blocklist_path = blocklist
        self.blocklist = Blocklist()
        self._stamp: tuple[int, int] | None = None
        self._hits = hits
        self._lock = threading.Lock()
        self._blocked: Counter[Reason] = Counter()
        self._rarity_anywhere = lru_cache(_REMEMBERED)(self._rarity)
        self.reload()

    @classmethod
    def open(
        cls,
        model: Path | Artifact,
        blocklist: Path | None = None,
        hits: HitsCheck | None = None,
        *,
        enforced: bool = True,
    ) -> "Guard":
        """The guard of a model folder, with the site's blocklist and hits check if it has them.

        One that is not `enforced` knows where suggestions come from and refuses nothing.
        """
        return cls(open_tables(model), blocklist, hits, enforced=enforced)

    def reload(self) -> bool:
        """Read the blocklist again if its file changed; a bad file raises and the old list stays.

        Returns whether there is a new list; `self.blocklist` is then another object.
        """
        if self._blocklist_path is None or not self._enforced:
            return False
        stamp = _stamp(self._blocklist_path)
        if stamp is not None and stamp == self._stamp:
            return False
        self.blocklist = read_blocklist(self._blocklist_path)
        self._stamp = stamp
        return True

    def allows(self, text: str, context: Sequence[str] = ()) -> Verdict:
        """Whether a normalised query may be shown in a session; a refusal is counted."""
        verdict = Verdict(self.refusal(text, context))
        if verdict.reason is not None:
            self.count(verdict.reason)
        return verdict

    def refusal(self, text: str, context: Sequence[str] = ()) -> Reason | None:
        """Why a normalised query may not be shown in a session, if so; nothing is counted."""
        if not self._enforced:
            return None
        if self.blocklist.blocks(text):
            return Reason.BLOCKLIST
        if _personal(text):
            return Reason.PERSONAL_DATA
        # What is not too rare in any session is not too rare in this one.
        rarity = self._rarity_anywhere(text)
        if rarity is not None:
            rarity = self._rarity(text, context)
        if rarity is not None:
            return rarity
        if self._hits is not None and not self._hits(text):
            return Reason.NO_HITS
        return None

    def _rarity(self, text: str, context: Sequence[str] = ()) -> Reason | None:
        """Which part of the k-user rule refuses `text`, if any."""
        if self.tables.min_users <= 1 or text in self.tables.queries:
            return None
        context = [normalise_query(query) for query in context]
        if text in context:
            return None
        own = {word for query in context for word in query.split()}
        words = text.split()
        if any(word not in own and word not in self.tables.words for word in words):
            return Reason.RARE_WORD
        keys = self.word_keys(words)
        own_pairs = self.session_pairs(context)
        if self.refused_pairs(keys[:-1], keys[1:], own_pairs).any():
            return Reason.RARE_PAIR
        if len(words) > 1 and self.refused_queries([text])[0]:
            return Reason.RARE_QUERY
        return None

    # The same rules in the form that a decoder asks them: many words at once, as keys.

    def word_keys(self, words: Iterable[str]) -> Keys:
        """The fingerprint of each word; compute it once for a vocabulary."""
        return text_keys(words, self.tables.secret)

    def session_pairs(self, context: Sequence[str]) -> Keys:
        """The sorted keys of the adjacent word pairs of a session's own queries."""
        found = [np.empty(0, dtype=np.uint64)]
        for query in context:
            keys = self.word_keys(query.split())
            found.append(pair_keys(keys[:-1], keys[1:]))
        return np.unique(np.concatenate(found))

    def refused_pairs(self, first: Keys, second: Keys, own_pairs: Keys) -> NDArray[np.bool_]:
        """Whether `second` may not follow `first`, elementwise with broadcasting."""
        keys = pair_keys(first, second)
        refused = self.tables.rare_pairs.contains(keys)
        if refused.any():
            doubtful = keys[refused]
            refused[refused] = ~(
                in_sorted(doubtful, self.tables.common_pairs) | in_sorted(doubtful, own_pairs)
            )
        return refused

    def seen_pairs(self, first: Keys, second: Keys, own_pairs: Keys) -> NDArray[np.bool_]:
        """Whether K users, or the session's own, typed `second` after `first`, elementwise."""
        keys = pair_keys(first, second)
        return in_sorted(keys, self.tables.common_pairs) | in_sorted(keys, own_pairs)

    def refused_queries(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each whole query of two or more words is one that fewer than K users typed."""
        rare = self.tables.rare_queries.contains(text_keys(texts, self.tables.secret))
        known = [text in self.tables.queries or " " not in text for text in texts]
        return np.asarray(rare & ~np.asarray(known, dtype=np.bool_))

    def source(self, text: str) -> str:
        """Where a suggestion comes from: `seen in the log (n times)` or `synthetic`."""
        count = self.tables.count(text)
        if count == 0:
            return "synthetic"
        return f"seen in the log ({count} time{'' if count == 1 else 's'})"

    def count(self, reason: Reason, times: int = 1) -> None:
        """Add to the counter of what was refused."""
        if times:
            with self._lock:
                self._blocked[reason] += times

    def blocked(self) -> dict[Reason, int]:
        """How often each reason refused something since the guard was opened."""
        with self._lock:
            return dict(self._blocked)


def _stamp(path: Path) -> tuple[int, int] | None:
    """What changes when a file is written anew; None where it cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
