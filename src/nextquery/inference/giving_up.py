"""Work that nobody waits for any more, given up between two steps of a decoding.

Whoever asks a model may say how to find out; every search and rescoring looks before its next step.
Knows nothing of clients or processes. Each thread has its own question, so that several may ask one
model at once.
"""

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
