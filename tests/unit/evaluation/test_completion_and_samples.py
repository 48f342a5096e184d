"""Completion, decoding times and sampled lists, on systems whose answers are known."""

from collections.abc import Sequence

import numpy as np
import pytest

from nextquery.evaluation import lists, paper
from nextquery.evaluation.completion import (
    LENGTHS,
    next_word_ranks,
    run_completion,
    saved_characters,
    typed_ranks,
)
from nextquery.evaluation.lists import BEAM, GenerationCase, decoding_time
from nextquery.evaluation.paper import SUGGESTIONS, sample_suggestions
from nextquery.evaluation.steps import Steps
from nextquery.inference.settings import DecodeConfig
from nextquery.records import Session, Suggestion

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


def test_every_system_with_the_session_and_without_it(steps: Steps) -> None:
    cases = [
        case(("italy",), "parma ham"),
        case(("italy",), "rome"),
        case(("italy", "rome"), "rome"),  # typed before: cannot be offered
        case(("italy",), "paris map"),
    ]
    result = run_completion({"mine": ByAlphabet(), "silent": object()}, cases, steps)

    assert result.queries == 3
    assert list(result.systems) == ["mine"]
    system = result.systems["mine"]
    # one character: ranks 1, 1, none with the session; 4, 1, none without it
    assert [item.by_length[0].mrr for item in (system.with_session, system.without_session)] == [
        pytest.approx(2 / 3),
        pytest.approx((1 / 4 + 1) / 3),
    ]
    assert system.with_session.by_length[0].saved == pytest.approx((8 / 9 + 3 / 4) / 3)
    assert system.with_session.saved == pytest.approx((8 / 9 + 3 / 4) / 3)
    # four characters: "rome" has no more than four
    assert system.with_session.by_length[3].characters == 4
    assert system.with_session.by_length[3].cases == 2
    assert system.with_session.mrr == pytest.approx((1 + 1 + 0) / 3)
    parma = (1 / 4 + 1 / 4 + 1 / 4 + 1 + 1 + 1) / 6
    assert system.without_session.mrr == pytest.approx((parma + 1 + 0) / 3)
    assert system.with_session.next_word.cases == 2  # ham, map
    assert system.with_session.next_word.first == 0.5
    assert 0 < system.p < 1


class Recorder:
    """Remembers what it was asked for."""

    config = DecodeConfig()

    def __init__(self) -> None:
        self.calls: list[tuple[Sequence[Sequence[str]], int, DecodeConfig | None]] = []

    def suggest(
        self, context: Sequence[str], n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[Suggestion]:
        raise NotImplementedError

    def complete(
        self, context: Sequence[str], prefix: str, n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[Suggestion]:
        raise NotImplementedError

    def suggest_many(
        self, contexts: Sequence[Sequence[str]], n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[list[Suggestion]]:
        self.calls.append((contexts, n, config))
        return [[] for _ in contexts]


def test_one_context_at_a_time_with_the_papers_beam_and_the_first_not_counted() -> None:
    model = Recorder()
    sessions = [Session(number, "u", ("a", f"b{number}", "c")) for number in range(40)]
    result = decoding_time(model, sessions)

    assert (result.beam, result.contexts) == (BEAM, lists.CONTEXTS)
    assert result.median_ms >= 0
    assert len(model.calls) == lists.CONTEXTS + 1
    contexts, n, config = model.calls[0]
    assert contexts == [("a", "b0")]
    assert n == BEAM
    assert config is not None
    assert config.beam == BEAM


class Echo:
    """Suggests the last query with a number after it."""

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        return [Suggestion(f"{context[-1]} {number}", 0.0, "") for number in range(n)]


def test_two_contexts_of_each_length_with_every_systems_first_suggestions() -> None:
    sessions = [
        Session(number, "u", tuple(f"q{number}.{position}" for position in range(2 + number % 4)))
        for number in range(60)
    ]
    table = sample_suggestions({"echo": Echo()}, sessions, seed=0)

    assert len(table.contexts) == paper.CONTEXTS
    assert [len(item.context) for item in table.contexts] == [1, 1, 2, 2, 3, 3]
    for item in table.contexts:
        session = next(s for s in sessions if s.queries == (*item.context, item.next_query))
        assert session.queries[-1] == item.next_query
        assert item.suggestions["echo"] == tuple(
            f"{item.context[-1]} {number}" for number in range(SUGGESTIONS)
        )
    assert table == sample_suggestions({"echo": Echo()}, sessions, seed=0)
