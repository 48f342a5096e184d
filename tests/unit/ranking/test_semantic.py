from collections.abc import Sequence

import numpy as np
import pytest

from nextquery.ranking.cases import CaseSet, RankingCase
from nextquery.ranking.features import SEMANTIC_FEATURES, QueryVectors


class CountingEncoder:
    """Vectors by the letters a and b; remembers which texts it was given."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.seen += texts
        return [[3.0 * text.count("a"), 3.0 * text.count("b")] for text in texts]


def case(*context: str) -> RankingCase:
    return RankingCase(1, context, context[-1] if context else "", ("a", "ab"), 0, 3)


def test_cosines_with_the_last_and_the_nearest_earlier_query() -> None:
    found = QueryVectors(CountingEncoder()).columns(CaseSet((case("ab", "b", "a"), case("b"))))

    half = np.sqrt(0.5)
    assert list(found) == list(SEMANTIC_FEATURES)
    assert found["meaning_last"].tolist() == pytest.approx([1.0, half, 0.0, half])
    assert found["meaning_context"].tolist() == pytest.approx([half, 1.0, 0.0, half])


def test_without_context_or_meaning_there_is_no_cosine() -> None:
    found = QueryVectors(CountingEncoder()).columns(CaseSet((case(), case("xyz"))))

    assert not any(found["meaning_last"])
    assert not any(found["meaning_context"])


def test_no_text_is_encoded_twice() -> None:
    encoder = CountingEncoder()
    vectors = QueryVectors(encoder)
    vectors.columns(CaseSet((case("a", "b"), case("b", "a"))))
    vectors.columns(CaseSet((case("b", "ba"),)))

    assert encoder.seen == ["a", "b", "ab", "ba"]
