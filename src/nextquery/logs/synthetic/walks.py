"""What made-up users search for: a walk through queries with a hidden intent. No times or files.

A session has a domain and an intent that no query names. Its early queries carry words of the
intent (`signals`); a bare entity, such as `paris`, is typed under every intent and tells nothing;
what follows it (`outcomes`) depends on the intent. So the last query is ambiguous where the session
is not, and because signals are many and are put on any entity of a family, the same exact context
hardly ever comes twice.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from nextquery.logs.synthetic.draws import Draws, Flags, Integers, zipf
from nextquery.logs.synthetic.lexicon import (
    DETAILS,
    FACETS,
    FAMILIES,
    INTENTS,
    OUTCOMES,
    QUALITIES,
    SIGNALS,
    Lexicon,
)


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
_PART = 1 << 15  # sessions or queries that are drawn at a time: what they need stays in the cache
_NAVIGATES_ONLY, _NAVIGATES_BEFORE, _NAVIGATES_AFTER, _SLIPS = 10, 11, 3, 3


T = TypeVar("T")
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
class _Walkers:
    """The sessions that go on, and what their last query was about."""

    place: Integers
    """Where each session stands in its part."""
    length: Integers
    ending: Integers
    domain: Integers
    intent: Integers
    role: Integers
    entity: Integers
    facet: Integers
    outcome: Integers

    def those(self, chosen: Flags) -> "_Walkers":
        """Some of them."""
        return _Walkers(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


def draw_sessions(draws: Draws, domains: int, count: int) -> Hidden:
    """Users with three interests each, a favourite intent in each, and their sessions."""
    users = max(3, count // 6)
    interests = draws.weighted(zipf(domains, 2), users * 3).reshape(users, 3)
    favourites = draws.below(INTENTS, users * 3).reshape(users, 3)
    user = draws.weighted(zipf(users, users // 4 + 1), count)
    interest = draws.weighted(np.array([50, 28, 12, 10]), count)  # the last: anything
    known = np.minimum(interest, 2)
    domain = np.where(interest < 3, interests[user, known], draws.weighted(zipf(domains, 2), count))
    faithful = (interest < 3) & draws.chance(60, count)
    intent = np.where(faithful, favourites[user, known], draws.below(INTENTS, count))
    return Hidden(user, domain, intent)


def draw_queries(draws: Draws, lexicon: Lexicon, hidden: Hidden) -> pl.DataFrame:
    """The queries of all sessions, in order.

    Columns: session, role, the three phrases that make the text, entity (over all domains), intent
    of the words (over all domains, -1 where there is none), and whether it is a spelling slip.
    """
    count = len(hidden.user)
    steps = in_parts(count, lambda first, last: _walk(draws, lexicon, hidden, first, last))
    draws.skip(count * (6 + 12 * (len(_LENGTHS) - 1)))
    return _with_noise_and_slips(draws, lexicon, _joined(steps))


def in_parts(count: int, work: Callable[[int, int], T]) -> list[T]:
    """What `work` makes of 0 to `count`, a part at a time, in two threads."""
    starts = range(0, count, _PART)
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda first: work(first, min(first + _PART, count)), starts))


def _joined(parts: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _walk(draws: Draws, lexicon: Lexicon, hidden: Hidden, first: int, last: int) -> Columns:
    """The queries of the sessions `first` to `last`, by session and step."""
    count, here = len(hidden.user), last - first
    draws = draws.window(first, last, count)
    length = draws.weighted(_LENGTHS, count)
    ending = draws.weighted(_ENDINGS, count)
    role = np.where(draws.chance(_NAVIGATES_ONLY, count), Role.NAVIGATION, -1)
    length[role == Role.NAVIGATION] = 1
    member = draws.weighted(zipf(lexicon.members, 1), count)
    entity = member * FAMILIES + draws.weighted(zipf(FAMILIES, 3), count)
    walkers = _Walkers(
        place=np.arange(here),
        length=length,
        ending=ending,
        domain=hidden.domain[first:last],
        intent=hidden.intent[first:last],
        role=role,
        entity=entity,
        facet=draws.weighted(zipf(FACETS, 2), count),
        outcome=np.full(here, -1),
    )
    starts = np.cumsum(length) - length
    found: Columns = {name: np.empty(length.sum(), kind) for name, kind in _TYPES.items()}
    for step in range(int(length.max())):
        walkers = walkers.those(walkers.length > step)
        _move(draws, count, walkers, step, lexicon.members)
        rows = starts[walkers.place] + step
        found["session"][rows] = first + walkers.place
        for name, values in _phrases(draws, count, lexicon, walkers).items():
            found[name][rows] = values
    return found


def _move(draws: Draws, count: int, walkers: _Walkers, step: int, members: int) -> None:
    """What the next query of every session is about."""
    at, last_role = walkers.place, walkers.role
    role = _next_role(draws, count, walkers, step)
    repeats = (role == Role.ENTITY) & (last_role == Role.ENTITY)
    moves = ((draws.below(100, count, at) < _PARALLEL[role]) & (step > 0)) | repeats
    # Another entity of the same family.
    member, family = walkers.entity // FAMILIES, walkers.entity % FAMILIES
    other = draws.weighted(zipf(members, 1), count, at)
    other = np.where(other == member, (other + 1) % members, other)
    walkers.entity = np.where(moves, other * FAMILIES + family, walkers.entity)
    # A parallel move between facets keeps the facet: "paris map", "rome map".
    keeps = moves & (last_role == Role.FACET)
    facet = draws.weighted(zipf(FACETS, 2), count, at)
    walkers.facet = np.where(keeps, walkers.facet, facet)
    # Nobody asks the same twice in a row: another outcome than the last one.
    drawn = draws.weighted(zipf(OUTCOMES, 1), count, at)
    drawn = np.where(drawn == walkers.outcome, (drawn + 1) % OUTCOMES, drawn)
    walkers.outcome = np.where(role == Role.OUTCOME, drawn, walkers.outcome)
    walkers.role = role


def _next_role(draws: Draws, count: int, walkers: _Walkers, step: int) -> Integers:
    """Draw the role of the next query; the last two follow the session's ending."""
    role, remaining = walkers.role, walkers.length - step
    # Role -1, before the first query, is the last row.
    drawn = draws.weighted_rows(np.vstack([_NEXT, _START]), role, count, walkers.place)
    anchor = np.where(walkers.ending == 0, Role.ENTITY, Role.DETAIL)
    scripted = (walkers.ending < 2) & (role != Role.NAVIGATION)
    drawn = np.where(scripted & (remaining == 2), anchor, drawn)
    has_anchor = (role == Role.ENTITY) | (role == Role.DETAIL)
    return np.where(scripted & (remaining == 1) & has_anchor, Role.OUTCOME, drawn)


def _phrases(draws: Draws, count: int, lexicon: Lexicon, walkers: _Walkers) -> Columns:
    """The phrases of one query a session: `first`, `second`, `third` are places in the lexicon."""
    role, domain, at, starts = walkers.role, walkers.domain, walkers.place, lexicon.starts
    own = draws.below(100, count, at) < np.where(role == Role.SIGNAL, _OWN_SIGNAL, _OWN_OUTCOME)
    intent = domain * INTENTS + np.where(own, walkers.intent, draws.below(INTENTS, count, at))
    site = starts["navigational"] + draws.weighted(zipf(lexicon.navigational, 2), count, at)
    name = starts["entities"] + domain * lexicon.entities + walkers.entity
    family = starts["families"] + domain * FAMILIES + walkers.entity % FAMILIES
    signal = starts["signals"] + intent * SIGNALS + draws.weighted(zipf(SIGNALS, 1), count, at)
    outcome = starts["outcomes"] + intent * OUTCOMES + walkers.outcome
    neutral = starts["facets"] + domain * FACETS + walkers.facet
    quality = starts["qualities"] + domain * QUALITIES + draws.below(QUALITIES, count, at)
    detail = starts["details"] + domain * DETAILS + draws.below(DETAILS, count, at)
    leads = draws.chance(60, count, at)  # "backpacking rome" or "rome backpacking"
    nothing = np.zeros(len(role), dtype=np.int64)
    # By role, in the order of Role.
    first = np.choose(role, [np.where(leads, signal, name), name, name, name, name, family, site])
    second = np.choose(
        role,
        [np.where(leads, name, signal), nothing, quality, outcome, neutral, nothing, nothing],
    )
    speaks = (role == Role.SIGNAL) | (role == Role.OUTCOME)
    return {
        "role": role,
        "first": first,
        "second": second,
        "third": np.where(role == Role.DETAIL, detail, 0),
        "entity": np.where(role == Role.NAVIGATION, -1, domain * lexicon.entities + walkers.entity),
        "intent": np.where(speaks, intent, -1),
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
    place = np.append(0, np.cumsum(copies, dtype=np.int64))  # of the first copy of each step
    total = int(place[-1])

    def put(first: int, last: int) -> Columns:
        step = np.repeat(np.arange(first, last), copies[first:last])
        rank = np.arange(place[first], place[last]) - place[step]
        noise = (before[step] & (rank == 0)) | (after[step] & (rank == copies[step] - 1))
        window = draws.window(int(place[first]), int(place[last]), total)
        site = window.weighted(zipf(lexicon.navigational, 2), total)
        found = {name: values[step] for name, values in steps.items()}
        found["role"][noise] = Role.NAVIGATION
        found["first"][noise] = lexicon.starts["navigational"] + site[noise]
        found["second"][noise] = found["third"][noise] = 0
        found["entity"][noise] = found["intent"][noise] = -1
        return {**found, "slip": slips[step] & (rank == before[step])}

    parts = in_parts(count, put)
    draws.skip(total)
    return pl.DataFrame(_joined(parts))
