"""Signals as requests: training is asked to save and stop, not cut off."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nextquery.training.trainer import StopRequest


@contextmanager
def save_on_signals() -> "Iterator[StopRequest]":
    """Turn the first SIGTERM or Ctrl-C into a request; a second one ends the process at once."""
    from nextquery.training.trainer import StopRequest

    request = StopRequest()
    usual = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def ask(number: int, frame: FrameType | None) -> None:
        request.signal = number
        for each, handler in usual.items():
            signal.signal(each, handler)

    for number in usual:
        signal.signal(number, ask)
    try:
        yield request
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
