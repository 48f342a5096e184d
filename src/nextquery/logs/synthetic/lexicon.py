"""The words of the made-up log, as flat tables. They are read from `words.toml`.

Every domain has the same shape, so a phrase has a place that can be calculated: a session is then
a few columns of integers, and its queries are read from one list of phrases.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any

from nextquery.errors import InputError

# The shape of every domain.
FAMILIES, MEMBERS, FACETS, QUALITIES, DETAILS = 4, 5, 6, 24, 28
INTENTS, SIGNALS, OUTCOMES = 4, 13, 4
ENTITIES = FAMILIES * MEMBERS
_CONSONANTS, _VOWELS = "bcdfghjklmnprstvwxyz", "aeiou"
_NAMES = 100**4  # of four syllables
_STRIDE = 61_803_399  # no common factor with `_NAMES`: neighbours in rank look different


@dataclass(frozen=True)
class Lexicon:
    """All phrases in one list, those of a kind together; `starts` says where each kind begins.

    Within a kind the order is by domain, then by intent or family where there is one, then as in
    the file. The empty phrase stands first. Entities are ranked: the first member of every family,
    then the second of every family, and so on.
    """

    phrases: tuple[str, ...]
    starts: dict[str, int]
    domains: tuple[str, ...]
    intents: tuple[str, ...]
    """The name of each intent, by domain."""
    navigational: int
    """How many navigational queries there are."""
    members: int = MEMBERS
    """Entities of each family."""

    @property
    def entities(self) -> int:
        """Entities of each domain."""
        return FAMILIES * self.members


@cache
def load_lexicon(extra_words: int = 0) -> Lexicon:
    """The lexicon that comes with the package, with so many made-up words more.

    >>> load_lexicon().members, load_lexicon(1000).members  # 64 families
    (5, 21)
    """
    file = resources.files("nextquery.logs.synthetic").joinpath("words.toml")
    return parse_lexicon(tomllib.loads(file.read_text(encoding="utf-8")), extra_words)


def parse_lexicon(document: dict[str, Any], extra_words: int = 0) -> Lexicon:
    """Check a lexicon document and lay its phrases out in one list.

    `extra_words` more words are names of entities, shared out over all families, each less
    frequent than those of the document.
    """
    domains = {name: part for name, part in document.items() if isinstance(part, dict)}
    kinds: dict[str, list[str]] = {"navigational": list(document["navigational"])}
    more = -(-extra_words // (FAMILIES * len(domains)))  # of each family
    names = made_up_names()
    for name, domain in domains.items():
        phrases = _phrases(domain)
        _check(name, phrases)
        phrases["entities"] += islice(names, more * FAMILIES)
        for kind, texts in phrases.items():
            kinds.setdefault(kind, []).extend(texts)
    laid_out, starts = [""], {}
    for kind, texts in kinds.items():
        starts[kind] = len(laid_out)
        laid_out += texts
    return Lexicon(
        phrases=tuple(laid_out),
        starts=starts,
        domains=tuple(domains),
        intents=tuple(intent for domain in domains.values() for intent in domain["intents"]),
        navigational=len(document["navigational"]),
        members=MEMBERS + more,
    )


def made_up_names() -> Iterator[str]:
    """Words of four syllables, each once, always in the same order.

    >>> list(islice(made_up_names(), 3))
    ['zujoware', 'zosirago', 'zibelexa']
    """
    for number in range(1, _NAMES):
        place, name = number * _STRIDE % _NAMES, ""
        for _ in range(4):
            place, syllable = divmod(place, len(_CONSONANTS) * len(_VOWELS))
            name += _CONSONANTS[syllable // len(_VOWELS)] + _VOWELS[syllable % len(_VOWELS)]
        yield name


def _phrases(domain: dict[str, Any]) -> dict[str, list[str]]:
    ranked = zip(*domain["families"].values(), strict=True)
    intents = domain["intents"].values()
    return {
        "entities": [entity for members in ranked for entity in members],
        "families": list(domain["families"]),
        "facets": domain["facets"],
        "qualities": domain["qualities"],
        "details": domain["details"],
        "signals": [phrase for intent in intents for phrase in intent["signals"]],
        "outcomes": [phrase for intent in intents for phrase in intent["outcomes"]],
    }


def _check(name: str, phrases: dict[str, list[str]]) -> None:
    """Refuse another shape, and a word by which the strings alone would tell signal and outcome."""
    shape = {
        "entities": ENTITIES,
        "families": FAMILIES,
        "facets": FACETS,
        "qualities": QUALITIES,
        "details": DETAILS,
        "signals": INTENTS * SIGNALS,
        "outcomes": INTENTS * OUTCOMES,
    }
    for kind, expected in shape.items():
        if len(set(phrases[kind])) != expected:
            raise InputError(f"lexicon: {name} needs {expected} different {kind}")
    signals, outcomes = (set(" ".join(phrases[kind]).split()) for kind in ("signals", "outcomes"))
    if shared := sorted(signals & outcomes):
        raise InputError(f"lexicon: {name} has {', '.join(shared)} in a signal and in an outcome")
