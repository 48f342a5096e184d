"""Cancellation of decoding when nobody waits for the answer any more."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class DecodingCancelledError(Exception):
    """Nobody waits for the answer any more."""


_is_unwanted: ContextVar[Callable[[], bool] | None] = ContextVar("is_unwanted", default=None)


@contextmanager
def cancel_when(is_unwanted: Callable[[], bool]) -> Iterator[None]:
    """In this block, decoding stops before its next step once `is_unwanted` returns true.

    >>> with cancel_when(lambda: False):
    ...     raise_if_cancelled()
    """
    token = _is_unwanted.set(is_unwanted)
    try:
        yield
    finally:
        _is_unwanted.reset(token)


def raise_if_cancelled() -> None:
    """Called before every step: raise if the work is not wanted any more."""
    is_unwanted = _is_unwanted.get()
    if is_unwanted is not None and is_unwanted():
        raise DecodingCancelledError
