"""Which queries of a ranked list are shown."""

import marisa_trie
import numpy as np
import pytest

from nextquery.guard.guard import Guard
from nextquery.guard.quality import TypedText, singular, together_key
from nextquery.guard.tables import COUNT_FORMAT, Tables
from nextquery.inference.lists import ListGate
from nextquery.inference.search import FinishedQuery
from nextquery.inference.settings import DecodeConfig

SECRET = b"secret"
TOGETHER = [("paris", "hotel"), ("hotel", "cheap"), ("paris", "map")]
FREQUENT = [(f"frequent {number}", (1000 - number,)) for number in range(99)]
KNOWN = [*FREQUENT, ("google", (9999,)), ("louvre tickets", (3,))]


OCCURRENCES = {"hotels": 90, "hotel": 80, "paris": 30, "cheap": 20}


@pytest.fixture
def gate() -> ListGate:
    keys = sorted(together_key(singular(a), singular(b), SECRET) for a, b in TOGETHER)
    words = marisa_trie.Trie(list(OCCURRENCES))
    counts = np.zeros(3 * len(words), dtype=np.int64)
    for word, times in OCCURRENCES.items():
        counts[3 * words[word]] = times
    none = np.empty(0, dtype=np.uint64)
    together = np.array(keys, dtype=np.uint64)
    typed = TypedText(words, SECRET, counts, none, none.astype(np.int64), together)
    queries = marisa_trie.RecordTrie(COUNT_FORMAT, KNOWN)
    return ListGate(Guard(Tables(secret=SECRET, queries=queries, typed_text=typed)))


def shown(gate: ListGate, session: list[str], *queries: tuple[str, float, float]) -> list[str]:
    ranked = [FinishedQuery(text, likely, 3, log_prior=prior) for text, likely, prior in queries]
    return [query.text for query in gate.select(ranked, session, 5, DecodeConfig())]


def test_new_words_must_have_been_typed_with_the_rarest_word_that_is_kept(gate: ListGate) -> None:
    texts = ["paris hotel map", "paris maps", "paris lyrics", "cheap paris hotel", "rome map"]
    list_ = shown(gate, ["paris hotels"], *((text, -5.0, -20.0) for text in texts))
    # `cheap` was typed with `hotel` but not with `paris`, which is rarer; `rome` with neither
    assert list_ == ["paris hotel map", "paris maps"]
    # nothing is known of a word that fewer than K users typed
    assert shown(gate, ["zxcv"], ("zxcv map", -5.0, -20.0)) == []


def test_a_known_query_is_related_if_the_session_makes_it_much_likelier(gate: ListGate) -> None:
    assert shown(gate, ["paris"], ("louvre tickets", -6.0, -9.1)) == ["louvre tickets"]
    assert shown(gate, ["paris"], ("louvre tickets", -6.0, -8.9)) == []


def test_a_frequent_query_must_be_likely_and_likelier_than_without_the_session(
    gate: ListGate,
) -> None:
    assert shown(gate, ["paris"], ("google", -4.0, -4.6)) == ["google"]
    assert shown(gate, ["paris"], ("google", -4.0, -3.9)) == []
    assert shown(gate, ["paris"], ("google", -4.6, -9.0)) == []


def test_two_in_five_only_drop_or_rearrange_words_others_come_last(gate: ListGate) -> None:
    session = ["cheap paris hotels map"]
    texts = ["cheap paris", "cheap hotels", "paris map", "cheap paris map"]
    list_ = shown(gate, session, *((text, -3.0, -20.0) for text in texts), ("google", -1.0, -2.0))
    assert list_ == ["cheap paris", "cheap hotels", "google", "paris map", "cheap paris map"]


def test_what_was_typed_is_not_shown_in_another_form(gate: ListGate) -> None:
    assert shown(gate, ["hotels in paris", "map"], ("paris hotel", -1.0, -20.0)) == []


def test_without_a_session_the_list_stays(gate: ListGate) -> None:
    assert shown(gate, [], ("google", -4.0, -4.0)) == ["google"]


def test_a_topic_is_kept(gate: ListGate) -> None:
    """The rarer half of a query: here `zxcv`, which nobody typed, and `paris`."""
    session = ["zxcv hotels hotel paris"]
    texts = ["hotels hotel", "zxcv hotels", "hotel paris", "hotel map"]
    list_ = shown(gate, session, *((text, -3.0, -20.0) for text in texts))
    assert list_ == ["zxcv hotels", "hotel paris", "hotels hotel"]  # the last has lost it
