"""Texts are joined from pieces, whatever the pieces are."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nextquery.logs.synthetic.log import Pieces, slip

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), min_size=1)


@given(TEXTS, st.data())
def test_pieces_are_joined_row_by_row(texts: list[str], data: st.DataObject) -> None:
    places = st.integers(0, len(texts) - 1)
    rows = data.draw(st.lists(st.tuples(places, places, places), min_size=1))
    pieces = Pieces()
    assert pieces.add(texts) == 0
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    right = ["".join(texts[place] for place in row) for row in rows]
    assert pieces.joined(columns).to_list() == right


def test_a_copy_has_the_pieces_and_leaves_the_table_alone() -> None:
    pieces = Pieces()
    pieces.add(["red", "boots"])
    other = pieces.copy()
    assert other.add(["blue"]) == 2
    assert pieces.add(["green"]) == 2
    assert other.joined([np.array([2, 1])]).to_list() == ["blue", "boots"]


def test_a_slip_is_one_letter_inside_a_word() -> None:
    assert slip("paris", 0) == "prais"
    assert slip("paris", 1) == "pris"
    assert slip("paris", 2) == "paaris"
    assert slip("to go", 5) == "to goo", "no word has an inside: the last letter is doubled"
