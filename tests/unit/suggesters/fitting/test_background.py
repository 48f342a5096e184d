"""The background counted: numbers, counts and their order."""

from typing import Any

import numpy as np
import pytest

from nextquery.errors import InputError
from nextquery.suggesters.background import count_background, frequency_ranks, heaviest_first

SESSIONS = [("u1", ["red shoes", "boots"]), ("u2", ["red boots", "boots"]), ("u1", ["boots"])]


def test_counts_stand_at_the_number_of_their_text(prepared: Any, tiny_log: Any) -> None:
    background = count_background(prepared(tiny_log(SESSIONS)))
    counts = {text: int(background.counts[background.queries[text]]) for text in background.queries}
    assert counts == {"boots": 3, "red boots": 1, "red shoes": 1}
    words = {text: int(background.word_counts[background.words[text]]) for text in background.words}
    assert words == {"boots": 4, "red": 2, "shoes": 1}


def test_the_most_frequent_have_the_lowest_ranks_and_ties_go_by_text(
    prepared: Any, tiny_log: Any
) -> None:
    background = count_background(prepared(tiny_log(SESSIONS)))
    ranks = frequency_ranks(background)
    ranked = sorted(background.queries, key=lambda text: ranks[background.queries[text]])
    assert ranked == ["boots", "red boots", "red shoes"]
    weights = np.zeros(3)
    weights[background.queries["red shoes"]] = 1.5
    order = [background.text(int(number)) for number in heaviest_first(background, weights)]
    assert order == ["red shoes", "boots", "red boots"]


def test_a_log_in_which_nothing_is_known_says_what_to_do(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS, min_users=3))
    with pytest.raises(InputError, match="no query was typed by 3 users; prepare it again with a"):
        count_background(data)
