"""Messages stay one line of bounded length, whatever they quote."""

import os

from hypothesis import given
from hypothesis import strategies as st

from nextquery.cli.main import MOST_CHARACTERS, one_line


@given(st.text(max_size=3000))
def test_any_message_is_one_line(message: str) -> None:
    shown = one_line(message)
    assert len(shown.splitlines()) <= 1
    assert len(shown) <= MOST_CHARACTERS + 10
    assert "\x1b" not in shown


def test_long_messages_keep_beginning_and_end() -> None:
    shown = one_line("`kind` " + "x" * 100_000 + ": must be one of a, b")
    assert shown.startswith("`kind` xxx")
    assert shown.endswith("xxx: must be one of a, b")
    assert "[...]" in shown


def test_names_that_are_no_text_stay_bytes() -> None:
    name = os.fsdecode(b"a\xff")
    assert os.fsencode(one_line(name)) == b"a\xff"
