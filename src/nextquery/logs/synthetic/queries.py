"""What synthetic users search for: the lexicon and random walks with a hidden intent."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from nextquery.errors import InputError

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Draws:
    """A stream of random integers that depends on the seed alone."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def below(self, limit: int, size: int, at: Integers | None = None) -> Integers:
        """Uniform integers from 0 to `limit` - 1; only those `at` these places, if given."""
        raw = np.asarray(self._bits.random_raw(size), dtype=np.uint64)
        if at is not None:
            raw = raw[at]
        divisor = np.uint64(limit)
        return (raw - raw // divisor * divisor).view(np.int64)  # quicker than a remainder

    def weighted(self, weights: Integers, size: int, at: Integers | None = None) -> Integers:
        """Indices drawn in proportion to integer weights."""
        bounds = np.cumsum(weights)
        return np.searchsorted(bounds, self.below(int(bounds[-1]), size, at), side="right")

    def weighted_rows(
        self, weights: Integers, rows: Integers, size: int, at: Integers | None = None
    ) -> Integers:
        """For each of `rows`, a column of that row of `weights` (every row with the same sum)."""
        columns = np.arange(weights.shape[1])
        table = np.stack([np.repeat(columns, row) for row in weights])  # (kinds, total)
        drawn: Integers = table[rows, self.below(table.shape[1], size, at)]
        return drawn

    def chance(self, percent: int, size: int, at: Integers | None = None) -> Flags:
        """True in `percent` of a hundred cases."""
        return self.below(100, size, at) < percent

    def permutation(self, size: int) -> Integers:
        """A random order of `size` things."""
        return np.argsort(self.below(2**62, size), kind="stable")


def zipf(count: int, flatness: int) -> Integers:
    """Integer weights that fall with the rank; a larger `flatness` makes them fall more slowly."""
    return 10_000_000 // (np.arange(count, dtype=np.int64) + flatness)


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
def load_lexicon(extra_words: int = 0, domains: tuple[str, ...] = ()) -> Lexicon:
    """The lexicon of the package: all domains or the named ones, and `extra_words` invented words.

    >>> load_lexicon().members, load_lexicon(1000).members  # 64 families
    (5, 21)
    >>> load_lexicon(domains=("home", "pets")).domains
    ('home', 'pets')
    """
    file = resources.files("nextquery.logs.synthetic").joinpath("words.toml")
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    names = [name for name, part in document.items() if isinstance(part, dict)]
    unknown = [name for name in domains if name not in names]
    if unknown:
        raise InputError(f"`domains` {', '.join(unknown)}: choose from {', '.join(names)}")
    left_out = set(names) - set(domains or names)
    return parse_lexicon({k: v for k, v in document.items() if k not in left_out}, extra_words)


def parse_lexicon(document: dict[str, Any], extra_words: int = 0) -> Lexicon:
    """Check a lexicon document and lay its phrases out in one list.

    `extra_words` more words are names of entities, shared out over all families, each less
    frequent than those of the document.
    """
    domains = {name: part for name, part in document.items() if isinstance(part, dict)}
    kinds: dict[str, list[str]] = {"navigational": list(document["navigational"])}
    words_per_family = -(-extra_words // (FAMILIES * len(domains)))  # of each family
    names = made_up_names()
    for name, domain in domains.items():
        phrases = _phrase_lists(domain)
        _check(name, phrases)
        phrases["entities"] += islice(names, words_per_family * FAMILIES)
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
        members=MEMBERS + words_per_family,
    )


def made_up_names() -> Iterator[str]:
    """Words of four syllables, each once, always in the same order.

    >>> list(islice(made_up_names(), 3))
    ['zujoware', 'zosirago', 'zibelexa']
    """
    for number in range(1, _NAMES):
        index, name = number * _STRIDE % _NAMES, ""
        for _ in range(4):
            index, syllable = divmod(index, len(_CONSONANTS) * len(_VOWELS))
            name += _CONSONANTS[syllable // len(_VOWELS)] + _VOWELS[syllable % len(_VOWELS)]
        yield name


def _phrase_lists(domain: dict[str, Any]) -> dict[str, list[str]]:
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
    """Refuse another shape, and a word whose string alone reveals signal and outcome."""
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


class Role(IntEnum):
    """What a query is in its session."""

    SIGNAL = 0
    """`backpacking rome`: an entity with words of an intent."""
    ENTITY = 1
    """`paris`: the same under every intent."""
    DETAIL = 2
    """`paris hidden courtyards`: typed once, as good as never again."""
    OUTCOME = 3
    """`paris hostels`: what the intent leads to."""
    FACET = 4
    """`paris map`: neutral."""
    FAMILY = 5
    """`european city breaks`: general."""
    NAVIGATION = 6
    """`google`: nothing to do with the session."""


# The first query, and the next given the last: percentages in the order of Role.
_START = np.array([60, 12, 3, 6, 8, 11, 0])
_NEXT = np.array(
    [
        [34, 22, 8, 24, 7, 5, 0],  # after a signal
        [20, 12, 6, 52, 7, 3, 0],  # after an entity
        [20, 22, 12, 38, 5, 3, 0],  # after a detail
        [24, 34, 8, 24, 8, 2, 0],  # after an outcome
        [25, 28, 10, 15, 18, 4, 0],  # after a facet
        [48, 32, 5, 5, 10, 0, 0],  # after a family
        [0, 0, 0, 0, 0, 0, 100],  # sessions that only navigate
    ]
)
# Percentage of moves to another entity of the family (a parallel move), by the next query's role.
_PARALLEL = np.array([60, 70, 25, 5, 50, 0, 0])
# Queries in a session before noise and slips: sessions of 1 to 9.
_LENGTHS = np.array([0, 8, 20, 19, 15, 12, 10, 7, 5, 4])
# How a session of two or more ends: an outcome after a bare entity, after a detail, or anyhow.
_ENDINGS = np.array([47, 43, 10])

_OWN_SIGNAL, _OWN_OUTCOME = 85, 94  # percentages; the rest belongs to any intent of the domain
_NAVIGATES_ONLY, _NAVIGATES_BEFORE, _NAVIGATES_AFTER, _SLIPS = 10, 11, 3, 3


Columns = dict[str, npt.NDArray[np.integer]]
_TYPES = {
    "session": np.int32,
    "role": np.int8,
    "first": np.int32,
    "second": np.int32,
    "third": np.int32,
    "entity": np.int32,
    "intent": np.int16,
}


@dataclass(frozen=True)
class Hidden:
    """What the log does not say: each session's user, domain and intent."""

    user: Integers
    domain: Integers
    intent: Integers


@dataclass
class _OpenSessions:
    """The sessions that have not ended, and what their last query was about."""

    index: Integers
    """The number of each session."""
    length: Integers
    ending: Integers
    domain: Integers
    intent: Integers
    role: Integers
    entity: Integers
    facet: Integers
    outcome: Integers

    def select(self, chosen: Flags) -> "_OpenSessions":
        """Some of them."""
        return _OpenSessions(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


def draw_sessions(draws: Draws, domains: int, count: int) -> Hidden:
    """Users with three interests each, a favourite intent in each, and their sessions."""
    users = max(3, count // 6)
    interests = draws.weighted(zipf(domains, 2), users * 3).reshape(users, 3)
    favourites = draws.below(INTENTS, users * 3).reshape(users, 3)
    user = draws.weighted(zipf(users, users // 4 + 1), count)
    interest = draws.weighted(np.array([50, 28, 12, 10]), count)  # the last: anything
    level = np.minimum(interest, 2)
    domain = np.where(interest < 3, interests[user, level], draws.weighted(zipf(domains, 2), count))
    faithful = (interest < 3) & draws.chance(60, count)
    intent = np.where(faithful, favourites[user, level], draws.below(INTENTS, count))
    return Hidden(user, domain, intent)


def draw_queries(draws: Draws, lexicon: Lexicon, hidden: Hidden) -> pl.DataFrame:
    """The queries of all sessions, in order.

    Columns: session, role, the three phrases that make the text, entity (over all domains), intent
    of the words (over all domains, -1 where there is none), and whether it is a spelling slip.
    """
    count = len(hidden.user)
    length = draws.weighted(_LENGTHS, count)
    ending = draws.weighted(_ENDINGS, count)
    role = np.where(draws.chance(_NAVIGATES_ONLY, count), Role.NAVIGATION, -1)
    length[role == Role.NAVIGATION] = 1
    member = draws.weighted(zipf(lexicon.members, 1), count)
    entity = member * FAMILIES + draws.weighted(zipf(FAMILIES, 3), count)
    open_sessions = _OpenSessions(
        index=np.arange(count),
        length=length,
        ending=ending,
        domain=hidden.domain,
        intent=hidden.intent,
        role=role,
        entity=entity,
        facet=draws.weighted(zipf(FACETS, 2), count),
        outcome=np.full(count, -1),
    )
    starts = np.cumsum(length) - length
    columns: Columns = {name: np.empty(length.sum(), kind) for name, kind in _TYPES.items()}
    # All steps draw, so that a session does not change with the length of the others.
    for step in range(len(_LENGTHS) - 1):
        open_sessions = open_sessions.select(open_sessions.length > step)
        _move(draws, count, open_sessions, step, lexicon.members)
        rows = starts[open_sessions.index] + step
        columns["session"][rows] = open_sessions.index
        for name, values in _phrases(draws, count, lexicon, open_sessions).items():
            columns[name][rows] = values
    return _with_noise_and_slips(draws, lexicon, columns)


def _move(draws: Draws, count: int, open_sessions: _OpenSessions, step: int, members: int) -> None:
    """What the next query of every session is about."""
    at, last_role = open_sessions.index, open_sessions.role
    role = _next_role(draws, count, open_sessions, step)
    repeats = (role == Role.ENTITY) & (last_role == Role.ENTITY)
    moves = ((draws.below(100, count, at) < _PARALLEL[role]) & (step > 0)) | repeats
    # Another entity of the same family.
    member, family = open_sessions.entity // FAMILIES, open_sessions.entity % FAMILIES
    other = draws.weighted(zipf(members, 1), count, at)
    other = np.where(other == member, (other + 1) % members, other)
    open_sessions.entity = np.where(moves, other * FAMILIES + family, open_sessions.entity)
    # A parallel move between facets keeps the facet: "paris map", "rome map".
    keeps = moves & (last_role == Role.FACET)
    facet = draws.weighted(zipf(FACETS, 2), count, at)
    open_sessions.facet = np.where(keeps, open_sessions.facet, facet)
    # Nobody asks the same twice in a row: another outcome than the last one.
    drawn = draws.weighted(zipf(OUTCOMES, 1), count, at)
    drawn = np.where(drawn == open_sessions.outcome, (drawn + 1) % OUTCOMES, drawn)
    open_sessions.outcome = np.where(role == Role.OUTCOME, drawn, open_sessions.outcome)
    open_sessions.role = role


def _next_role(draws: Draws, count: int, open_sessions: _OpenSessions, step: int) -> Integers:
    """Draw the role of the next query; the last two follow the session's ending."""
    role, remaining = open_sessions.role, open_sessions.length - step
    # Role -1, before the first query, is the last row.
    drawn = draws.weighted_rows(np.vstack([_NEXT, _START]), role, count, open_sessions.index)
    anchor = np.where(open_sessions.ending == 0, Role.ENTITY, Role.DETAIL)
    scripted = (open_sessions.ending < 2) & (role != Role.NAVIGATION)
    drawn = np.where(scripted & (remaining == 2), anchor, drawn)
    has_anchor = (role == Role.ENTITY) | (role == Role.DETAIL)
    return np.where(scripted & (remaining == 1) & has_anchor, Role.OUTCOME, drawn)


def _phrases(draws: Draws, count: int, lexicon: Lexicon, open_sessions: _OpenSessions) -> Columns:
    """The phrases of one query per session: `first`, `second`, `third` index the lexicon."""
    role, domain, at = open_sessions.role, open_sessions.domain, open_sessions.index
    starts, entity = lexicon.starts, domain * lexicon.entities + open_sessions.entity
    percent = np.where(role == Role.SIGNAL, _OWN_SIGNAL, _OWN_OUTCOME)
    has_own = draws.below(100, count, at) < percent
    drawn = draws.below(INTENTS, count, at)
    intent = domain * INTENTS + np.where(has_own, open_sessions.intent, drawn)
    site = starts["navigational"] + draws.weighted(zipf(lexicon.navigational, 2), count, at)
    name = starts["entities"] + entity
    family = starts["families"] + domain * FAMILIES + open_sessions.entity % FAMILIES
    signal = starts["signals"] + intent * SIGNALS + draws.weighted(zipf(SIGNALS, 1), count, at)
    outcome = starts["outcomes"] + intent * OUTCOMES + open_sessions.outcome
    neutral = starts["facets"] + domain * FACETS + open_sessions.facet
    quality = starts["qualities"] + domain * QUALITIES + draws.below(QUALITIES, count, at)
    detail = starts["details"] + domain * DETAILS + draws.below(DETAILS, count, at)
    leads = draws.chance(60, count, at)  # "backpacking rome" or "rome backpacking"
    nothing = np.zeros(len(role), dtype=np.int64)
    # By role, in the order of Role.
    first = np.choose(role, [np.where(leads, signal, name), name, name, name, name, family, site])
    seconds = [np.where(leads, name, signal), nothing, quality, outcome, neutral, nothing, nothing]
    is_topical = (role == Role.SIGNAL) | (role == Role.OUTCOME)
    return {
        "role": role,
        "first": first,
        "second": np.choose(role, seconds),
        "third": np.where(role == Role.DETAIL, detail, 0),
        "entity": np.where(role == Role.NAVIGATION, -1, entity),
        "intent": np.where(is_topical, intent, -1),
    }


def _with_noise_and_slips(draws: Draws, lexicon: Lexicon, steps: Columns) -> pl.DataFrame:
    """Put navigational queries between, and before some queries the same with a slip."""
    count = len(steps["session"])
    session = steps["session"]
    topical = steps["role"] != Role.NAVIGATION
    ends = np.append(session[1:] != session[:-1], True)
    before = topical & draws.chance(_NAVIGATES_BEFORE, count)
    slips = topical & draws.chance(_SLIPS, count)
    after = topical & ends & draws.chance(_NAVIGATES_AFTER, count)
    copies = 1 + before.astype(np.int8) + slips + after
    step = np.repeat(np.arange(count), copies)
    start = np.cumsum(copies, dtype=np.int64) - copies  # of the first copy of each step
    rank = np.arange(len(step)) - start[step]
    noise = (before[step] & (rank == 0)) | (after[step] & (rank == copies[step] - 1))
    site = draws.weighted(zipf(lexicon.navigational, 2), len(step))
    columns = {name: values[step] for name, values in steps.items()}
    columns["role"][noise] = Role.NAVIGATION
    columns["first"][noise] = lexicon.starts["navigational"] + site[noise]
    columns["second"][noise] = columns["third"][noise] = 0
    columns["entity"][noise] = columns["intent"][noise] = -1
    return pl.DataFrame({**columns, "slip": slips[step] & (rank == before[step])})
