"""What made-up users search for: a walk through queries with a hidden intent. No times or files.

A session has a domain and an intent that no query names. Its early queries carry words of the
intent (`signals`); a bare entity, such as `paris`, is typed under every intent and tells nothing;
what follows it (`outcomes`) depends on the intent. So the last query is ambiguous where the session
is not, and because signals are many and are put on any entity of a family, the same exact context
hardly ever comes twice.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import polars as pl

from nextquery.logs.synthetic.draws import Draws, Flags, Integers, zipf
from nextquery.logs.synthetic.lexicon import (
    DETAILS,
    ENTITIES,
    FACETS,
    FAMILIES,
    INTENTS,
    MEMBERS,
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
_NAVIGATES_ONLY, _NAVIGATES_BEFORE, _NAVIGATES_AFTER, _SLIPS = 10, 11, 3, 3


@dataclass(frozen=True)
class Hidden:
    """What the log does not say: each session's user, domain and intent."""

    user: Integers
    domain: Integers
    intent: Integers


@dataclass(frozen=True)
class Choice:
    """What the next query of every session is about."""

    role: Integers
    entity: Integers
    facet: Integers
    outcome: Integers


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
    steps = _walk(draws, lexicon, hidden)
    steps = steps.sort("session", "step", maintain_order=True)
    return _with_noise_and_slips(draws, lexicon, steps)


def _walk(draws: Draws, lexicon: Lexicon, hidden: Hidden) -> pl.DataFrame:
    count = len(hidden.user)
    length = draws.weighted(_LENGTHS, count)
    ending = draws.weighted(_ENDINGS, count)
    role = np.where(draws.chance(_NAVIGATES_ONLY, count), Role.NAVIGATION, -1)
    length[role == Role.NAVIGATION] = 1
    member = draws.weighted(zipf(MEMBERS, 1), count)
    entity = member * FAMILIES + draws.weighted(zipf(FAMILIES, 3), count)
    facet = draws.weighted(zipf(FACETS, 2), count)
    outcome = np.full(count, -1)
    frames = []
    for step in range(len(_LENGTHS) - 1):
        last_role, here = role, step < length
        role = _next_role(draws, role, length - step, ending)
        repeats = (role == Role.ENTITY) & (last_role == Role.ENTITY)
        moves = ((draws.below(100, count) < _PARALLEL[role]) & (step > 0)) | repeats
        entity = np.where(moves, _parallel(draws, entity), entity)
        # A parallel move between facets keeps the facet: "paris map", "rome map".
        keeps = moves & (last_role == Role.FACET)
        facet = np.where(keeps, facet, draws.weighted(zipf(FACETS, 2), count))
        # Nobody asks the same twice in a row: another outcome than the last one.
        drawn = draws.weighted(zipf(OUTCOMES, 1), count)
        drawn = np.where(drawn == outcome, (drawn + 1) % OUTCOMES, drawn)
        outcome = np.where(role == Role.OUTCOME, drawn, outcome)
        frame = _phrases(draws, lexicon, hidden, Choice(role, entity, facet, outcome))
        frames.append(frame.with_columns(step=pl.lit(step)).filter(here))
    return pl.concat(frames)


def _next_role(draws: Draws, role: Integers, remaining: Integers, ending: Integers) -> Integers:
    """Draw the role of the next query; the last two follow the session's ending."""
    drawn = draws.weighted_rows(np.vstack([_NEXT, _START]), role)  # role -1 is the last row
    anchor = np.where(ending == 0, Role.ENTITY, Role.DETAIL)
    scripted = (ending < 2) & (role != Role.NAVIGATION)
    drawn = np.where(scripted & (remaining == 2), anchor, drawn)
    has_anchor = np.isin(role, (Role.ENTITY, Role.DETAIL))
    return np.where(scripted & (remaining == 1) & has_anchor, Role.OUTCOME, drawn)


def _parallel(draws: Draws, entity: Integers) -> Integers:
    """Another entity of the same family."""
    member, family = entity // FAMILIES, entity % FAMILIES
    drawn = draws.weighted(zipf(MEMBERS, 1), len(entity))
    drawn = np.where(drawn == member, (drawn + 1) % MEMBERS, drawn)
    return drawn * FAMILIES + family


def _phrases(draws: Draws, lexicon: Lexicon, hidden: Hidden, choice: Choice) -> pl.DataFrame:
    """The phrases of one query a session: `first`, `second`, `third` are places in the lexicon."""
    role, entity = choice.role, choice.entity
    count, starts = len(role), lexicon.starts
    own = draws.below(100, count) < np.where(role == Role.SIGNAL, _OWN_SIGNAL, _OWN_OUTCOME)
    intent = hidden.domain * INTENTS + np.where(own, hidden.intent, draws.below(INTENTS, count))
    site = starts["navigational"] + draws.weighted(zipf(lexicon.navigational, 2), count)
    name = starts["entities"] + hidden.domain * ENTITIES + entity
    family = starts["families"] + hidden.domain * FAMILIES + entity % FAMILIES
    signal = starts["signals"] + intent * SIGNALS + draws.weighted(zipf(SIGNALS, 1), count)
    outcome = starts["outcomes"] + intent * OUTCOMES + choice.outcome
    neutral = starts["facets"] + hidden.domain * FACETS + choice.facet
    quality = starts["qualities"] + hidden.domain * QUALITIES + draws.below(QUALITIES, count)
    detail = starts["details"] + hidden.domain * DETAILS + draws.below(DETAILS, count)
    leads = draws.chance(60, count)  # "backpacking rome" or "rome backpacking"
    nothing = np.zeros(count, dtype=np.int64)
    # By role, in the order of Role.
    first = np.choose(role, [np.where(leads, signal, name), name, name, name, name, family, site])
    second = np.choose(
        role,
        [np.where(leads, name, signal), nothing, quality, outcome, neutral, nothing, nothing],
    )
    third = np.where(role == Role.DETAIL, detail, 0)
    speaks = (role == Role.SIGNAL) | (role == Role.OUTCOME)
    return pl.DataFrame(
        {
            "session": np.arange(count),
            "role": role,
            "first": first,
            "second": second,
            "third": third,
            "entity": np.where(role == Role.NAVIGATION, -1, hidden.domain * ENTITIES + entity),
            "intent": np.where(speaks, intent, -1),
        }
    )


def _with_noise_and_slips(draws: Draws, lexicon: Lexicon, steps: pl.DataFrame) -> pl.DataFrame:
    """Put navigational queries between, and before some queries the same with a slip."""
    count = len(steps)
    session = steps["session"].to_numpy()
    topical = steps["role"].to_numpy() != Role.NAVIGATION
    ends = np.append(session[1:] != session[:-1], True)
    before = topical & draws.chance(_NAVIGATES_BEFORE, count)
    slips = topical & draws.chance(_SLIPS, count)
    after = topical & ends & draws.chance(_NAVIGATES_AFTER, count)
    copies = 1 + before.astype(np.int64) + slips + after
    place = np.cumsum(copies) - copies  # of the first copy of each step
    step = np.repeat(np.arange(count), copies)
    rank = np.arange(len(step)) - place[step]
    noise = (before[step] & (rank == 0)) | (after[step] & (rank == copies[step] - 1))
    slip: Flags = slips[step] & (rank == before[step])
    site = lexicon.starts["navigational"] + draws.weighted(zipf(lexicon.navigational, 2), len(step))
    put = pl.Series(noise)
    return steps.drop("step")[step].with_columns(
        role=pl.when(put).then(int(Role.NAVIGATION)).otherwise("role"),
        first=pl.when(put).then(pl.Series(site)).otherwise("first"),
        second=pl.when(put).then(0).otherwise("second"),
        third=pl.when(put).then(0).otherwise("third"),
        entity=pl.when(put).then(-1).otherwise("entity"),
        intent=pl.when(put).then(-1).otherwise("intent"),
        slip=pl.Series(slip),
    )
