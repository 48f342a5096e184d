"""Some people apart: every system on the test cases of users that a file names.

A log is often of two kinds of people, such as staff and visitors, or those whose every query was
kept and those of whom only some were. Knows files of user ids, pseudonyms and ranks by system.
"""

from collections.abc import Mapping, Set
from pathlib import Path

import numpy as np

from nextquery.errors import InputError
from nextquery.evaluation.ranking.comparison import RankingResult, SystemRanks, system_pairs
from nextquery.logs.stages.privacy import pseudonym

UserGroups = Mapping[str, Set[str]]
"""The pseudonyms of each group's users, by the group's name."""


def read_user_groups(files: Mapping[str, Path]) -> dict[str, frozenset[str]]:
    """The users of each file, which has one id per line, as the raw log writes it.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
    ...     _ = file.write("ann\\nbob\\n")
    ...     file.flush()
    ...     found = read_user_groups({"staff": Path(file.name)})
    >>> found["staff"] == {str(pseudonym("ann")), str(pseudonym("bob"))}
    True
    """
    return {name: _read(path) for name, path in files.items()}


def _read(path: Path) -> frozenset[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"`users_apart` {path}: cannot be read ({error})") from None
    users = {line.strip() for line in lines if line.strip()}
    if not users:
        raise InputError(f"`users_apart` {path}: no users in it; write one id per line")
    return frozenset(str(pseudonym(user)) for user in users)


def by_user_group(found: SystemRanks, groups: UserGroups) -> dict[str, RankingResult]:
    """Every system on the cases of each group's users."""
    users = [case.user for case in found.cases.cases]
    return {
        name: found.select(np.array([user in group for user in users], dtype=np.bool_)).summary(
            system_pairs(found.ranks)
        )
        for name, group in groups.items()
    }
