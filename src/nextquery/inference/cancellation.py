"""Cancellation of decoding whose client no longer waits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class GivenUpError(Exception):
    """Nobody waits for the answer any more."""


_unwanted: ContextVar[Callable[[], bool] | None] = ContextVar("unwanted", default=None)


@contextmanager
def given_up_when(unwanted: Callable[[], bool]) -> Iterator[None]:
    """In this block, `go_on` raises `GivenUpError` once `unwanted` says so.

    >>> with given_up_when(lambda: False):
    ...     go_on()
    """
    token = _unwanted.set(unwanted)
    try:
        yield
    finally:
        _unwanted.reset(token)


def go_on() -> None:
    """Called before every step: raises if the work is not wanted any more."""
    unwanted = _unwanted.get()
    if unwanted is not None and unwanted():
        raise GivenUpError
