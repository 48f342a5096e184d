"""Who is shown what in a trial: team-draft interleaving, and a split by session.

Both are decided by a hash of a key, so that the same visitor with the same session sees the same
list again, on every worker and after every restart.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from nextquery.errors import InputError
from nextquery.records import Suggestion


@dataclass(frozen=True, slots=True)
class Drafted:
    """A suggestion of an interleaved list and the team that chose it."""

    team: int
    suggestion: Suggestion


def team_draft(
    first: Sequence[Suggestion], second: Sequence[Suggestion], n: int, key: str
) -> list[Drafted]:
    """Merge two lists: in each round both teams pick their best new suggestion, in random order.

    Team-draft interleaving (Radlinski, Kurup and Joachims, CIKM 2008). With equal lists
    each position is equally likely to belong to either team, so clicks favour neither.

    >>> ours = [Suggestion(text, 0, "seen") for text in ("a", "b", "c")]
    >>> theirs = [Suggestion(text, 0, "seen") for text in ("b", "d")]
    >>> [(pick.team, pick.suggestion.text) for pick in team_draft(ours, theirs, 4, "visitor 1")]
    [(1, 'b'), (0, 'a'), (0, 'c'), (1, 'd')]
    """
    lists = (first, second)
    drafted: list[Drafted] = []
    taken: set[str] = set()
    turn = 0
    while len(drafted) < n:
        before = len(drafted)
        beginner = _digest(f"draft {turn} {key}")[0] & 1
        for team in (beginner, 1 - beginner):
            pick = next((item for item in lists[team] if item.text not in taken), None)
            if pick is not None and len(drafted) < n:
                drafted.append(Drafted(team, pick))
                taken.add(pick.text)
        turn += 1
        if len(drafted) == before:
            break
    return drafted


@dataclass(frozen=True, slots=True)
class Share:
    """A model's part of the sessions, as a weight."""

    name: str
    weight: int


def split_arm(shares: Sequence[Share], key: str) -> str:
    """The arm of a session: the same for the same key, in proportion to the weights.

    >>> shares = parse_split("A:90,B:10")
    >>> [split_arm(shares, f"visitor {number}") for number in range(9)]
    ['A', 'A', 'A', 'A', 'B', 'A', 'A', 'A', 'A']
    """
    total = sum(share.weight for share in shares)
    point = int.from_bytes(_digest(f"split {key}")[:8], "big") % total
    for share in shares:
        point -= share.weight
        if point < 0:
            return share.name
    raise AssertionError("the weights add up to the total")


def parse_split(text: str) -> tuple[Share, ...]:
    """The arms of `A:90,B:10`.

    >>> parse_split("A:90,B:10")
    (Share(name='A', weight=90), Share(name='B', weight=10))
    """
    shares = []
    for part in text.split(","):
        name, _, weight = part.strip().rpartition(":")
        if not name or not weight.isascii() or not weight.isdigit() or not 0 < int(weight) <= 10**6:
            raise InputError(f"`split` {text}: write NAME:WEIGHT,NAME:WEIGHT, e.g. A:90,B:10")
        shares.append(Share(name, int(weight)))
    return tuple(shares)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
