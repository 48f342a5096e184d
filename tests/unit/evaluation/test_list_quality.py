from collections.abc import Sequence
from itertools import pairwise

import marisa_trie
import numpy as np
import pytest

from nextquery.evaluation.lists import (
    AgainstTrivial,
    GenerationCase,
    ListMaker,
    list_diversity,
    run_generation,
    sample_contexts,
    text_quality,
    word_overlap,
)
from nextquery.evaluation.steps import Steps
from nextquery.guard.fingerprints import pair_key, text_key
from nextquery.guard.guard import Guard
from nextquery.guard.quality import TypedText
from nextquery.guard.tables import COUNT_FORMAT, Tables
from nextquery.ranking.cases import BackgroundCounts
from nextquery.records import Session, Suggestion

SECRET = b"secret"
KNOWN = ("hotels in oslo", "oslo museum", "rome museum")
BACKGROUND = BackgroundCounts({"red car": 3, "blue car": 2, "boat": 1}, {})


class Fixed:
    """Suggests the same list after any context."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        return [Suggestion(text, 0.0, "") for text in self.texts[:n]]


class AfterKnownAnchors(Fixed):
    """Suggests nothing after an unknown anchor."""

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        return super().suggest(context, n) if context[-1] in BACKGROUND else []


def test_overlap_and_diversity_by_hand() -> None:
    assert word_overlap("red car", "red old car") == pytest.approx(2 * 2 / 5)
    assert word_overlap("boat", "red car") == 0
    # pairs: red car / blue car share 1 of 3 words, the others nothing
    assert list_diversity(["red car", "blue car", "boat"]) == pytest.approx(1 - (1 / 3) / 3)


def test_results_by_hand(steps: Steps) -> None:
    cases = [
        GenerationCase(("boat",), "blue car", True),
        GenerationCase(("boat",), "green car", True),
        GenerationCase(("submarine",), "boat", False),
    ]
    makers = {"fixed": AfterKnownAnchors("red car", "blue car", "new car")}
    result = run_generation(makers, cases, BACKGROUND, steps).systems["fixed"]

    everything, known, unknown = result.groups().values()
    assert everything.coverage == pytest.approx(2 / 3)
    assert everything.hit_1 == 0
    assert everything.hit_5 == everything.hit_20 == pytest.approx(1 / 3)
    assert everything.mrr == pytest.approx((1 / 2) / 3)
    assert everything.synthetic == pytest.approx(1 / 3)
    assert known.mrr == pytest.approx((1 / 2) / 2)
    assert known.overlap_first == pytest.approx((1 / 2 + 1 / 2) / 2)
    assert known.overlap_best == pytest.approx((1 + 1 / 2) / 2)
    assert unknown.coverage == 0
    assert unknown.synthetic is None
    assert result.refused_by_guards == 0


def test_contexts_are_drawn_without_replacement_and_by_seed() -> None:
    sessions = [Session(n, "u", (f"q{n}", "boat", f"next {n}")) for n in range(50)]

    drawn = sample_contexts(sessions, BACKGROUND, 20, seed=1)

    assert len({case.next_query for case in drawn}) == 20
    assert all(case.known_anchor for case in drawn)
    assert drawn == sample_contexts(sessions, BACKGROUND, 20, seed=1)
    assert drawn != sample_contexts(sessions, BACKGROUND, 20, seed=2)


def test_systems_are_compared_with_the_best_trivial_rule_by_user(steps: Steps) -> None:
    cases = [GenerationCase(("boat",), "red car", True, f"user{n // 2}") for n in range(12)]
    makers: dict[str, ListMaker] = {
        "good": Fixed("red car"), "poor": Fixed("a", "b", "c", "red car"),
        "rule": Fixed("a", "red car"), "other": Fixed("a"),
    }  # fmt: skip
    trivial = ["other", "rule"]
    result = run_generation(makers, cases, BACKGROUND, steps, trivial=trivial)
    assert result.against_trivial == (
        AgainstTrivial("good", "rule", 0.5, 0.0),
        AgainstTrivial("poor", "rule", -0.25, 0.0),
    )
    assert [item.better for item in result.against_trivial] == [True, False]


@pytest.fixture
def guard() -> Guard:
    """The guard of a log in which ten users typed each of the known queries."""
    words = marisa_trie.Trie(sorted({word for query in KNOWN for word in query.split()}))
    keys = [
        pair_key(text_key(first, SECRET), text_key(second, SECRET))
        for query in KNOWN
        for first, second in pairwise(query.split())
    ]
    pairs = np.sort(np.array(keys, dtype=np.uint64))
    users = np.full(len(pairs), 10)
    counts = np.full(3 * len(words), 10)
    typed = TypedText(words, SECRET, counts, pairs, users).calibrated(KNOWN)
    queries = marisa_trie.RecordTrie(COUNT_FORMAT, [(query, (10,)) for query in KNOWN])
    return Guard(Tables(secret=SECRET, queries=queries, words=words, typed_text=typed))


def test_text_quality_by_hand(guard: Guard) -> None:
    contexts = [("hotels in oslo",), ("oslo museum",)]
    lists = [
        ["hotels oslo", "hotels in", "oslo", "hotels in oslo", "rome museum", "not looked at"],
        ["oslo museum museums"],
    ]
    quality = text_quality(lists, contexts, guard)
    assert quality.unknown == pytest.approx(4 / 6)
    assert quality.shortened == pytest.approx(2 / 6)  # "hotels in", "oslo"
    assert quality.dangling == quality.fragment == quality.repeated_word == pytest.approx(1 / 6)
    assert quality.disfluent == pytest.approx(1 / 6)  # nobody typed "hotels oslo"
    assert quality.junk == pytest.approx(4 / 6)
    assert quality.frequent == pytest.approx(2 / 6)  # all known queries of so small a log are
    assert (quality.places, quality.full) == (3.0, 0.5)
    assert text_quality([[]], [("oslo",)], guard).junk == 0.0
