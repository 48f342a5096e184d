"""Completion measured on a system whose lists are known, numbers by hand."""

from collections.abc import Sequence

import numpy as np
import pytest

from nextquery.evaluation.completion import (
    LENGTHS,
    next_word_ranks,
    run_completion,
    saved_characters,
    typed_ranks,
)
from nextquery.evaluation.lists import GenerationCase
from nextquery.evaluation.steps import show_steps
from nextquery.records import Suggestion

KNOWN = ("paris", "paris hotels", "paris hotels cheap", "parma ham", "rome")


class ByAlphabet:
    """Completes from a few queries in order; after "italy" those with Rome or Parma come first."""

    def complete(self, context: Sequence[str], prefix: str, n: int = 5) -> list[Suggestion]:
        fitting = [query for query in KNOWN if query.startswith(prefix)]
        if "italy" in context:
            fitting.sort(key=lambda query: query.startswith("paris"))
        return [Suggestion(query, 0.0, "") for query in fitting[:n]]


def case(context: tuple[str, ...], query: str) -> GenerationCase:
    return GenerationCase(context, query, known_anchor=True)


def test_the_rank_at_every_length_that_is_shorter_than_the_query() -> None:
    assert LENGTHS == (1, 2, 3, 4, 6, 8, 12)
    expected = [4, 4, 4, 1, 1, 1, np.nan]
    np.testing.assert_equal(typed_ranks(ByAlphabet(), (), "parma ham"), expected)
    np.testing.assert_equal(
        typed_ranks(ByAlphabet(), (), "pisa"), [np.inf, np.inf, np.inf, *[np.nan] * 4]
    )


def test_the_next_word_is_looked_for_among_different_words() -> None:
    # After "paris": hotels (twice), so that "cheap" is never a next word there.
    assert next_word_ranks(ByAlphabet(), (), "paris hotels cheap") == [1, 1]
    assert next_word_ranks(ByAlphabet(), (), "paris cheap") == [np.inf]
    assert next_word_ranks(ByAlphabet(), (), "paris") == []


def test_who_takes_it_when_it_is_shown_saves_the_rest() -> None:
    nothing = np.array([np.inf] * 7)
    assert saved_characters(nothing, "parma ham") == 0.0
    sixth = np.array([6.0, 6.0, 5.0, 1.0, 1.0, 1.0, np.nan])
    assert saved_characters(sixth, "parma ham") == pytest.approx(1 - 3 / 9)


def test_every_system_with_the_session_and_without_it() -> None:
    cases = [
        case(("italy",), "parma ham"),
        case(("italy",), "rome"),
        case(("italy", "rome"), "rome"),  # typed before: cannot be offered
        case(("italy",), "paris map"),
    ]
    with show_steps() as steps:
        found = run_completion({"mine": ByAlphabet(), "silent": object()}, cases, steps)

    assert found.queries == 3
    assert list(found.systems) == ["mine"]
    mine = found.systems["mine"]
    # one character: ranks 1, 1, none with the session; 4, 1, none without it
    assert [each.by_length[0].mrr for each in (mine.with_session, mine.without_session)] == [
        pytest.approx(2 / 3),
        pytest.approx((1 / 4 + 1) / 3),
    ]
    assert mine.with_session.by_length[0].saved == pytest.approx((8 / 9 + 3 / 4) / 3)
    assert mine.with_session.saved == pytest.approx((8 / 9 + 3 / 4) / 3)
    # four characters: "rome" has no more than four
    assert mine.with_session.by_length[3].characters == 4
    assert mine.with_session.by_length[3].cases == 2
    assert mine.with_session.mrr == pytest.approx((1 + 1 + 0) / 3)
    parma = (1 / 4 + 1 / 4 + 1 / 4 + 1 + 1 + 1) / 6
    assert mine.without_session.mrr == pytest.approx((parma + 1 + 0) / 3)
    assert mine.with_session.next_word.cases == 2  # ham, map
    assert mine.with_session.next_word.first == 0.5
    assert 0 < mine.p < 1


def test_nothing_to_complete_gives_no_results() -> None:
    with show_steps() as steps:
        assert run_completion({"mine": ByAlphabet()}, [case(("a",), "a")], steps).systems == {}
