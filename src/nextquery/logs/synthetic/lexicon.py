"""The words of the made-up log, as flat tables. They are read from `words.toml`.

Every domain has the same shape, so a phrase has a place that can be calculated: a session is then
a few columns of integers, and its queries are read from one list of phrases.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from nextquery.errors import InputError

# The shape of every domain.
FAMILIES, MEMBERS, FACETS, QUALITIES, DETAILS = 4, 5, 6, 24, 28
INTENTS, SIGNALS, OUTCOMES = 4, 13, 4
ENTITIES = FAMILIES * MEMBERS


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


@cache
def load_lexicon() -> Lexicon:
    """The lexicon that comes with the package."""
    file = resources.files("nextquery.logs.synthetic").joinpath("words.toml")
    return parse_lexicon(tomllib.loads(file.read_text(encoding="utf-8")))


def parse_lexicon(document: dict[str, Any]) -> Lexicon:
    """Check a lexicon document and lay its phrases out in one list."""
    domains = {name: part for name, part in document.items() if isinstance(part, dict)}
    kinds: dict[str, list[str]] = {"navigational": list(document["navigational"])}
    for name, domain in domains.items():
        phrases = _phrases(domain)
        _check(name, phrases)
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
    )


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
