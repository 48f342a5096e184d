"""How a suggestion relates to the query before it: does it add terms, drop, replace, or start anew.

The paper finds that suggestions "tend to be horizontal": they add or drop a term. Words are
compared as near-copies are (`folding.py`): stop words and plurals do not count. Knows two texts;
knows no model.
"""

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Literal

from nextquery.inference.lists.folding import folding_key
from nextquery.normalise import normalise_query

Group = Literal["refine", "related", "next step"]


class Relation(StrEnum):
    """What a suggestion does to the terms of the last query."""

    SAME = "same"
    ADDS = "adds"
    DROPS = "drops"
    REPLACES = "replaces"
    NEW = "new"

    @property
    def horizontal(self) -> bool:
        """Whether terms are only added or only dropped."""
        return self in (Relation.ADDS, Relation.DROPS)


GROUPS: dict[Relation, Group] = {
    Relation.ADDS: "refine",
    Relation.SAME: "related",
    Relation.DROPS: "related",
    Relation.REPLACES: "related",
    Relation.NEW: "next step",
}
"""Under which heading a suggestion is shown."""


def relation(last_query: str, suggestion: str) -> Relation:
    """What a suggestion does to the terms of the last query.

    >>> [str(relation("paris hotels", text)) for text in ("cheap hotel in paris", "paris")]
    ['adds', 'drops']
    >>> [str(relation("paris hotels", text)) for text in ("rome hotels", "louvre", "hotel paris")]
    ['replaces', 'new', 'same']
    """
    before, after = _terms(last_query), _terms(suggestion)
    if not before & after:
        return Relation.NEW
    if before == after:
        return Relation.SAME
    if before < after:
        return Relation.ADDS
    return Relation.DROPS if after < before else Relation.REPLACES


@lru_cache(maxsize=8192)
def _terms(text: str) -> frozenset[str]:
    return frozenset(folding_key(normalise_query(text)))


def group(context: Sequence[str], suggestion: str) -> Group:
    """The heading of a suggestion in a session: `refine`, `related` or `next step`.

    >>> group(["louvre", "paris hotels"], "cheap paris hotels")
    'refine'
    >>> group([], "paris")
    'next step'
    """
    return GROUPS[relation(context[-1] if context else "", suggestion)]
