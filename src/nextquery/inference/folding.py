"""Near-copies among suggestions: the same words reordered, a plural, a stop word more or less.

Knows English plurals and stop words, as far as folding needs them; knows no model.
"""

from collections.abc import Iterable
from functools import lru_cache

_STOP_WORDS = frozenset(
    word
    for line in (
        "a an and are at by can do does for from how i in is it my of on or the to was what when",
        "where which who why with you your",
    )
    for word in line.split()
)


def fold(texts: Iterable[str]) -> list[int]:
    """The places of those texts that are not near-copies of an earlier one."""
    seen: set[tuple[str, ...]] = set()
    kept = []
    for place, text in enumerate(texts):
        key = folding_key(text)
        if key not in seen:
            seen.add(key)
            kept.append(place)
    return kept


@lru_cache(maxsize=65536)
def folding_key(text: str) -> tuple[str, ...]:
    """What near-copies have in common: the singular of the words that carry meaning, in order."""
    words = text.split()
    carrying = [word for word in words if word not in _STOP_WORDS] or words
    return tuple(sorted({_singular(word) for word in carrying}))


def _singular(word: str) -> str:
    """A crude singular: equal for the forms of most English nouns, which is all it is for."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
