"""Forgetting people: a data folder without the rows of some users."""

from collections.abc import Collection
from pathlib import Path

from nextquery.errors import InputError
from nextquery.logs.revising.kept_rows import Removal
from nextquery.logs.revising.revise import Revision, revise
from nextquery.logs.stages.privacy import pseudonym
from nextquery.logs.tables import Progress


def forget(
    data: Path,
    users: Collection[str],
    out: Path | None = None,
    *,
    as_pseudonyms: bool = False,
    progress: Progress = lambda stage, share: None,
) -> Revision:
    """Remove users, named as in the log, from a data folder, or write `out` without them.

    With `as_pseudonyms` they are named as in the folder's own tables.

    >>> import nextquery
    >>> data = nextquery.prepare(LOG, "data", spelling=False)
    >>> user = next(data.sessions("background")).user
    >>> forget(Path("data"), [user], as_pseudonyms=True).users_removed
    1
    """
    named = {user for user in users if user}
    if not named:
        raise InputError("`user`: nobody is named")
    if as_pseudonyms and not all(user.isdigit() for user in named):
        raise InputError("`user`: a pseudonym is a number, as in the tables of the data folder")
    known = named if as_pseudonyms else {str(pseudonym(user)) for user in named}
    removal = Removal(users=frozenset(known))
    return revise(
        data,
        data if out is None else out,
        (),
        lambda rows: removal,
        lambda count: {"forgotten_users": count},
        progress,
    )
