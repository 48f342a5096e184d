"""Which queries of a ranked list are shown, and how the acceptance model is learnt."""

from collections.abc import Sequence
from dataclasses import replace
from math import log

import marisa_trie
import numpy as np
import pytest

from nextquery.guard.guard import Guard
from nextquery.guard.quality import TypedText
from nextquery.guard.tables import COUNT_FORMAT, Tables
from nextquery.inference.acceptance import (
    DEFAULT,
    FEATURES,
    SessionWords,
    candidate_features,
)
from nextquery.inference.gate import (
    FIRST_PLACES,
    FREQUENT_LIKELY,
    LIKELIER,
    MOST_SHORTENED,
    Candidate,
    ListGate,
    placed,
)
from nextquery.inference.search import FinishedQuery
from nextquery.inference.settings import DecodeConfig
from nextquery.inference.weights import Floats

OCCURRENCES = {"hotels": 90, "hotel": 80, "paris": 30, "cheap": 20}
KNOWN = [*((f"known {number}", (2,)) for number in range(37)), ("google", (99,)), ("louvre", (3,))]


def vectors(texts: Sequence[str]) -> Floats:
    """One direction for what begins with a letter."""
    return np.array([[text[0] == "p", text[0] != "p"] for text in texts], np.float32)


@pytest.fixture
def gate() -> ListGate:
    words = marisa_trie.Trie(list(OCCURRENCES))
    counts = np.zeros(3 * len(words), dtype=np.int64)
    for word, times in OCCURRENCES.items():
        counts[3 * words[word]] = times
    none = np.empty(0, dtype=np.uint64)
    typed = TypedText(words, b"secret", counts, none, none.astype(np.int64))
    queries = marisa_trie.RecordTrie(COUNT_FORMAT, KNOWN)
    return ListGate(Guard(Tables(secret=b"secret", queries=queries, typed_text=typed)), vectors)


def finished(text: str, likelihood: float, prior: float = -20.0) -> FinishedQuery:
    bonus = -0.3 * prior + (text in dict(KNOWN))
    return FinishedQuery(text, likelihood, text.count(" ") + 2, log_prior=prior, bonus=bonus)


def shown(gate: ListGate, session: list[str], *queries: FinishedQuery) -> list[str]:
    return [query.text for query in gate.select(queries, session, DecodeConfig())]


def test_features_by_hand(gate: ListGate) -> None:
    session = SessionWords.read(["louvre", "cheap paris hotels"], gate._occurrences)
    queries = [finished("google", -4.0, -5.0), finished("paris map", -6.0), finished("hotel", -7.0)]
    rows = candidate_features(queries, session, gate._tables, {"google"})
    named = [dict(zip(FEATURES, row, strict=True)) for row in rows.tolist()]
    assert {name for name, value in named[0].items() if value} == {
        "log_likelihood", "log_prior", "known", "log_likelihood_if_known", "frequent", "words",
    }  # fmt: skip
    assert named[1]["keeps_words"] == named[1]["unknown_keeps_words"] == 1.0
    assert named[1]["overlap"] == 1 / 4  # `paris` of `cheap`, `paris`, `hotel`, `map`
    assert named[2]["shortened"] == named[2]["loses_topic"] == 1.0  # `hotel` is the commonest
    assert named[2]["overlap"] == 1 / 3


def test_the_likelier_it_is_typed_later_the_higher(gate: ListGate) -> None:
    texts = shown(gate, ["paris"], finished("paris map", -5.0), finished("paris hotels", -3.0))
    assert texts == ["paris hotels", "paris map"]


def test_rare_queries_are_left_out_unless_other_evidence_relates_them(
    gate: ListGate,
) -> None:
    unlikely = finished("louvre", -9.0)
    assert shown(gate, ["paris"], unlikely) == []
    kept = gate.select([unlikely], ["paris"], DecodeConfig(), related={"louvre"})
    assert [query.text for query in kept] == ["louvre"]


def test_the_session_must_make_what_has_none_of_its_words_likelier(gate: ListGate) -> None:
    less, more = LIKELIER - 0.1, LIKELIER + 0.1
    assert shown(gate, ["paris"], finished("louvre", -3.0, -3.0 - more)) == ["louvre"]
    assert shown(gate, ["paris"], finished("louvre", -3.0, -3.0 - less)) == []
    assert shown(gate, ["paris"], finished("paris map", -3.0, -2.9)) == ["paris map"]
    # a frequent query has a threshold of its own
    assert shown(gate, ["paris"], finished("google", -1.0, -1.1)) == ["google"]
    assert shown(gate, ["paris"], finished("google", -1.0, -0.9)) == []
    assert shown(gate, ["paris"], finished("google", -6.0, -9.0)) == []


def test_what_a_model_expects_of_a_frequent_query_does_not_count(gate: ListGate) -> None:
    """99 of 40,000 searches are `google`, whatever the model's own prior of it is."""
    counted = ListGate(Guard(replace(gate._tables, searches=40_000)), vectors)
    needed = FREQUENT_LIKELY - log(99 / 40_000)
    assert needed > 0
    for prior in (-5.0, -8.0):
        more, less = (
            finished("google", prior + needed + change, prior) for change in (0.01, -0.01)
        )
        assert shown(counted, ["paris"], more) == ["google"]
        assert shown(counted, ["paris"], less) == []
        # without the number of searches, as in a model of an earlier version
        expected = ["google"] if prior + needed > FREQUENT_LIKELY else []
        assert shown(gate, ["paris"], more) == shown(gate, ["paris"], less) == expected


def test_what_was_typed_is_not_shown_in_another_form(gate: ListGate) -> None:
    assert shown(gate, ["hotels in paris", "map"], finished("paris hotel", -1.0)) == []


def test_without_a_session_the_list_stays(gate: ListGate) -> None:
    assert shown(gate, [], finished("google", -9.0)) == ["google"]


def test_other_settings_move_a_query_as_without_the_gate(gate: ListGate) -> None:
    ordinary, rare = finished("paris map", -3.0, -6.0), finished("paris hotels", -4.0, -9.0)
    assert shown(gate, ["paris"], ordinary, rare) == ["paris map", "paris hotels"]
    specific = [
        FinishedQuery(query.text, query.log_likelihood, 3, query.log_prior, bonus=-query.log_prior)
        for query in (ordinary, rare)
        if query.log_prior is not None
    ]
    assert shown(gate, ["paris"], *specific) == ["paris hotels", "paris map"]


def test_lists_by_likelihood_per_symbol_keep_their_order(gate: ListGate) -> None:
    queries = [finished("paris map", -5.0), finished("paris hotels", -3.0)]
    config = DecodeConfig(length_normalised=True)
    selected = gate.select(queries, ["paris"], config)
    assert [query.text for query in selected] == ["paris map", "paris hotels"]
    values = [query.value(length_normalised=True) for query in selected]
    assert values == sorted(values, reverse=True)


def test_only_one_in_twenty_known_queries_counts_as_frequent(gate: ListGate) -> None:
    assert gate.frequent == {"google"}


def candidate(text: str, odds: float = 0.0, **kinds: bool) -> Candidate:
    every = {"called_for": True, "shortened": False, "loses_topic": False, **kinds}
    return Candidate(FinishedQuery(text, odds, 2), odds, **every)


def test_frequent_and_shortened_queries_wait_until_the_first_places_are_taken() -> None:
    idle, called_for = candidate("idle", called_for=False), candidate("called for")
    topicless = candidate("topicless", shortened=True, loses_topic=True)
    short = [candidate(f"short {number}", shortened=True) for number in range(3)]
    ordinary = [candidate(f"other {number}") for number in range(3)]
    first = [called_for, *short[:MOST_SHORTENED], *ordinary[:2]]
    assert len(first) == FIRST_PLACES
    every = [idle, topicless, called_for, *short, *ordinary]
    assert placed(every) == [*first, idle, topicless, short[2], ordinary[2]]
    # with too few others, shortened queries fill the list, idle ones do not
    assert placed([idle, topicless, *short]) == [*short[:2], topicless, short[2]]


def test_the_default_weights_fit_the_features() -> None:
    assert len(DEFAULT.weights) == len(FEATURES)
