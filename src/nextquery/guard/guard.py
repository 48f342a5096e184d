"""The guard: which queries may be shown, and which words may follow a prefix."""

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts import Artifact
from nextquery.artifacts.files import FileStamp, file_stamp, read_plain_text
from nextquery.errors import InputError
from nextquery.guard.blocklist import Blocklist, read_blocklist
from nextquery.guard.fingerprints import (
    Keys,
    in_sorted,
    pair_key,
    pair_keys,
    text_key,
    text_keys,
)
from nextquery.guard.quality import Flaw
from nextquery.guard.tables import Tables, open_tables
from nextquery.logs.privacy import LONGEST_QUERY, SUSPECT, looks_personal
from nextquery.normalise import normalise_query

HitsCheck = Callable[[str], bool]


class TitleHits:
    """A query has hits when one title holds all of its words."""

    def __init__(self, titles: Iterable[str]) -> None:
        self._titles_of: dict[str, set[int]] = defaultdict(set)
        for number, title in enumerate(titles):
            for word in normalise_query(title).split():
                self._titles_of[word].add(number)

    def __call__(self, query: str) -> bool:
        """Whether a title holds every word of `query`."""
        title_sets = sorted((self._titles_of.get(w, set()) for w in query.split()), key=len)
        return bool(title_sets) and bool(title_sets[0].intersection(*title_sets[1:]))


def read_hits(path: Path) -> TitleHits:
    """Read a file of known queries or titles, one a line."""
    try:
        lines = read_plain_text(path, "utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({error})") from None
    if not any(normalise_query(line) for line in lines):
        raise InputError(f"{path}: names no query or title, so nothing would ever be suggested")
    return TitleHits(lines)


_SUSPECT = re.compile(SUSPECT)


def _personal(text: str) -> bool:
    """Whether a normalised query looks like personal data; most need only the quick pattern."""
    suspect = len(text) > LONGEST_QUERY or _SUSPECT.search(text) is not None
    return suspect and looks_personal(text)


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


MOST_TYPED_WORDS = 10
MOST_TYPED_CHARACTERS = 100
"""A longer query is pasted or made by a program: 99 in 100 queries of a log are shorter."""


def looks_typed(query: str) -> bool:
    """Whether a normalised query is short enough to have been typed by a person.

    >>> looks_typed("cheap hotels in paris"), looks_typed("a b c d e f g h i j k")
    (True, False)
    """
    return len(query) <= MOST_TYPED_CHARACTERS and query.count(" ") < MOST_TYPED_WORDS


@dataclass(frozen=True, eq=False, slots=True)
class OwnText:
    """What a visitor typed in the session: the K-user rule does not hold it back from them.

    Made once per list with `Guard.own_text`.
    """

    queries: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    pairs: Keys = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    """The keys of adjacent words, ascending."""


NOTHING_TYPED = OwnText()


class Guard:
    """The rules that a model's output must pass before it is shown."""

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
        self._stamp: FileStamp | None = None
        self._hits = hits
        self._lock = threading.Lock()
        self._blocked: Counter[Reason] = Counter()
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

        One that is not `enforced` labels the source of suggestions and refuses nothing.
        """
        return cls(open_tables(model), blocklist, hits, enforced=enforced)

    def reload(self) -> bool:
        """Read the blocklist again if its file changed; a bad file raises and the old list stays.

        Returns whether there is a new list; `self.blocklist` is then another object.
        """
        if self._blocklist_path is None or not self._enforced:
            return False
        stamp = file_stamp(self._blocklist_path)
        if stamp is not None and stamp == self._stamp:
            return False
        self.blocklist = read_blocklist(self._blocklist_path, self.blocklist)
        self._stamp = stamp
        return True

    def allows(self, text: str, own_text: OwnText = NOTHING_TYPED) -> Verdict:
        """Whether a normalised query may be shown to a visitor; a refusal is counted."""
        verdict = Verdict(self.refusal(text, own_text))
        if verdict.reason is not None:
            self.count(verdict.reason)
        return verdict

    def refusal(self, text: str, own_text: OwnText = NOTHING_TYPED) -> Reason | None:
        """Why a normalised query may not be shown to a visitor, if so; nothing is counted."""
        if not self._enforced:
            return None
        if self.blocklist.blocks(text):
            return Reason.BLOCKLIST
        if _personal(text):
            return Reason.PERSONAL_DATA
        rarity = self._rarity(text, own_text)
        if rarity is not None:
            return rarity
        if self._hits is not None and not self._hits(text):
            return Reason.NO_HITS
        return None

    def _rarity(self, text: str, own_text: OwnText) -> Reason | None:
        """Which part of the k-user rule refuses `text`, if any.

        No verdict is kept: a list that came sooner than others would tell that somebody has just
        had it.
        """
        if self.tables.min_users <= 1 or text in self.tables.queries or text in own_text.queries:
            return None
        if text in self.tables.titles:
            return None  # published by the site
        words = text.split()
        if any(word not in own_text.words and word not in self.tables.words for word in words):
            return Reason.RARE_WORD
        if len(words) < 2:
            return None
        secret = self.tables.secret
        for first, second in pairwise(text_key(word, secret) for word in words):
            if self.tables.rare_pairs.has(pair := pair_key(first, second)):
                key = np.array([pair], dtype=np.uint64)
                common = in_sorted(key, self.tables.common_pairs) | in_sorted(key, own_text.pairs)
                if not common[0]:
                    return Reason.RARE_PAIR
        return Reason.RARE_QUERY if self.tables.rare_queries.has(text_key(text, secret)) else None

    def flaw(self, text: str, own_text: OwnText = NOTHING_TYPED) -> Flaw | None:
        """Why a normalised query does not read like a typed one; known ones do."""
        typed = self.tables.typed_text
        if typed is None or not self._enforced or text in self.tables.queries:
            return None
        if text in self.tables.titles:
            return None
        return typed.flaw(text, own_text.words, own_text.pairs)

    @property
    def judges_text(self) -> bool:
        """Whether it can recognise texts that read like typed queries."""
        return self._enforced and self.tables.typed_text is not None

    # The same rules in the form that a decoder asks them: many words at once, as keys.

    def word_keys(self, words: Iterable[str]) -> Keys:
        """The fingerprint of each word; compute it once for a vocabulary."""
        return text_keys(words, self.tables.secret)

    def own_text(self, queries: Sequence[str]) -> OwnText:
        """What may be shown to a visitor because it is in normalised queries of their own.

        Give only the queries that the model reads; of these, such as do not look typed are ignored.
        """
        typed = [query for query in dict.fromkeys(queries) if looks_typed(query)]
        words = [query.split() for query in typed]
        pairs = [np.empty(0, dtype=np.uint64)]
        for keys in map(self.word_keys, words):
            pairs.append(pair_keys(keys[:-1], keys[1:]))
        return OwnText(
            frozenset(typed),
            frozenset(word for words_of_query in words for word in words_of_query),
            np.unique(np.concatenate(pairs)),
        )

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

    def source(self, text: str) -> str:
        """Where a suggestion comes from: `seen in the log (n times)`, `title` or `synthetic`."""
        count = self.tables.count(text)
        if count == 0:
            return "title" if text in self.tables.titles else "synthetic"
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
