"""Ids of words that only a session has, and looking up what can be copied."""

import numpy as np

from nextquery.inference.context import SessionVocabulary
from nextquery.inference.output import CopyTable
from nextquery.text.vocabulary import UNKNOWN, Vocabulary

KNOWN = Vocabulary(["paris", "hotel"])


def test_words_outside_the_vocabulary_have_ids_behind_it() -> None:
    own = SessionVocabulary(KNOWN, ["zebra", "paris", "zebra", "gnu"], given=["yak"])
    first = len(KNOWN)
    assert own.outside == ("zebra", "gnu", "yak")
    assert [own.id(word) for word in ("zebra", "gnu", "yak")] == [first, first + 1, first + 2]
    assert own.id("paris") == KNOWN.id("paris")
    assert own.id("unheard") == UNKNOWN
    assert [own.word(own.id(word)) for word in ("paris", "gnu")] == ["paris", "gnu"]


def test_what_was_typed_but_is_in_no_query_cannot_be_copied() -> None:
    own = SessionVocabulary(KNOWN, ["zebra", "paris", "zebra"], given=["yak"])
    assert own.distinct == (KNOWN.id("paris"), own.id("zebra"))
    assert own.can_be_predicted(own.id("hotel"))
    assert own.can_be_predicted(own.id("zebra"))
    assert not own.can_be_predicted(own.id("yak"))


def test_every_word_is_found_in_its_own_context_only() -> None:
    contexts = [(3, 7, 9), (), (0, 9), (4,)]
    table = CopyTable.of(contexts, width=10)
    assert table.words.tolist() == [3, 7, 9, 0, 9, 4]
    assert (table.first.tolist(), table.most) == ([0, 3, 3, 5, 6], 3)
    for context, words in enumerate(contexts):
        asked = np.arange(10)
        found = table.columns(np.full(10, context), asked).tolist()
        assert found == [words.index(word) if word in words else -1 for word in range(10)]


def test_a_table_without_any_word_finds_nothing() -> None:
    one = CopyTable.of([(), (5,)], width=6)
    assert one.columns(np.array([0, 0, 1]), np.array([5, 0, 5])).tolist() == [-1, -1, 0]
