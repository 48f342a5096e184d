"""Which fold a user belongs to: the same in every run and on every machine. Knows names only."""

import hashlib


def user_fold(user: str, folds: int) -> int:
    """The fold of a user, from 0 to `folds` - 1.

    >>> [user_fold(f"user {number}", 4) for number in range(5)]
    [1, 2, 1, 1, 3]
    """
    return user_place(user, "fold") % folds


def user_place(user: str, purpose: str) -> int:
    """A number that orders users as if at random, in another order for each purpose."""
    return int.from_bytes(hashlib.md5(f"{purpose} {user}".encode()).digest()[:8], "big")
