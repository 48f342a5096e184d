from collections.abc import Sequence
from pathlib import Path

import pytest

from nextquery.evaluation.lists import (
    GenerationCase,
    list_diversity,
    run_generation,
    sample_contexts,
    word_overlap,
)
from nextquery.evaluation.steps import show_steps
from nextquery.ranking.cases import BackgroundCounts
from nextquery.records import ScoredQuery, Session, Suggestion

BACKGROUND = BackgroundCounts({"red car": 3, "blue car": 2, "boat": 1}, {})


class Fixed:
    """Suggests the same list, but nothing after an unknown anchor."""

    kind = "fixed"

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        known = context[-1] in BACKGROUND
        return [Suggestion(text, 0.0, "") for text in self.texts[:n] if known]

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        raise NotImplementedError

    def save(self, path: Path) -> None:
        raise NotImplementedError


def test_overlap_and_diversity_by_hand() -> None:
    assert word_overlap("red car", "red old car") == pytest.approx(2 * 2 / 5)
    assert word_overlap("boat", "red car") == 0
    # pairs: red car / blue car share 1 of 3 words, the others nothing
    assert list_diversity(["red car", "blue car", "boat"]) == pytest.approx(1 - (1 / 3) / 3)


def test_results_by_hand() -> None:
    cases = [
        GenerationCase(("boat",), "blue car", True),
        GenerationCase(("boat",), "green car", True),
        GenerationCase(("submarine",), "boat", False),
    ]
    suggester = Fixed("red car", "blue car", "new car")
    with show_steps() as steps:
        found = run_generation({"fixed": suggester}, cases, BACKGROUND, steps).systems["fixed"]

    everything, known, unknown = found.groups().values()
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
    assert found.refused_by_guards == 0


def test_contexts_are_drawn_without_replacement_and_by_seed() -> None:
    sessions = [Session(n, "u", (f"q{n}", "boat", f"next {n}")) for n in range(50)]

    drawn = sample_contexts(sessions, BACKGROUND, 20, seed=1)

    assert len({case.next_query for case in drawn}) == 20
    assert all(case.known_anchor for case in drawn)
    assert drawn == sample_contexts(sessions, BACKGROUND, 20, seed=1)
    assert drawn != sample_contexts(sessions, BACKGROUND, 20, seed=2)
