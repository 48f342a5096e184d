"""What is known of single queries and words, by hand."""

from math import log
from typing import Any

import pytest

from nextquery.suggesters.background import Background, count_background, frequency_ranks


@pytest.fixture
def background(prepared: Any, tiny_log: Any) -> Background:
    sessions = [
        ("ann", ["paris", "paris hotels"]),
        ("bob", ["paris", "paris hotels"]),
        ("cat", ["paris", "rome"]),
        ("dan", ["rome", "oslo"]),  # oslo: one user, unknown
    ]
    return count_background(prepared(tiny_log(sessions, min_users=2)))


def test_known_queries_have_counts(background: Background) -> None:
    known = {background.text(number): int(n) for number, n in enumerate(background.counts)}
    assert known == {"paris": 3, "paris hotels": 2, "rome": 2}
    assert background.id("oslo") is None


def test_the_prior_leaves_one_observation_to_other_texts(background: Background) -> None:
    paris = background.id("paris")
    assert paris is not None
    assert background.prior(paris) == 3 / 8
    assert background.log_prior("paris") == pytest.approx(log(3 / 8))


def test_other_texts_are_spelt_out(background: Background) -> None:
    words, total = float(background.word_counts.sum()), 7.0
    symbols = words + total + 1
    hotels = int(background.word_counts[background.words["hotels"]])
    expected = log(1 / 8) + log(hotels / symbols) + log(1 / symbols) + log(total / symbols)
    assert background.log_prior("hotels unheard") == pytest.approx(expected)
    assert background.unknown_words("hotels unheard") == ("unheard",)


def test_the_order_is_by_count_then_text(background: Background) -> None:
    ranks = frequency_ranks(background)
    order = sorted(range(3), key=lambda number: ranks[number])
    assert [background.text(number) for number in order] == ["paris", "paris hotels", "rome"]


def test_an_unknown_query_loses_words_from_its_end(background: Background) -> None:
    found = background.shortened("paris hotels cheap")
    assert found is not None
    assert found[1] == "paris hotels"
    assert background.shortened("oslo rome") is None


def test_the_newest_known_queries_stop_at_the_first_unknown(background: Background) -> None:
    rome, paris = background.id("rome"), background.id("paris")
    context = ["paris", "oslo", "rome", "paris map"]
    assert background.newest_known(context, shorten=False).queries == ()
    shortened = background.newest_known(context, shorten=True)
    assert shortened.queries == (paris, rome)
    assert shortened.shortened_to == "paris"
