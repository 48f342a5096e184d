import numpy as np
import pytest

from nextquery.feedback.reranker import FEATURES, Candidate, TakenRates, list_features

NOTHING = TakenRates(np.zeros(0, np.uint64), np.zeros(0), np.zeros(0), 0.1)


def column(values: np.ndarray, name: str) -> list[float]:
    found: list[float] = values[:, FEATURES.index(name)].tolist()
    return found


def test_features_by_hand() -> None:
    pool = [Candidate("red shoes sale", -1.0, "seen"), Candidate("hats", -3.0, "synthetic")]
    found = list_features(("shoes", "red shoes"), pool, NOTHING)
    assert column(found, "rank") == [0, 1]
    assert column(found, "score_gap") == [0.0, 2.0]
    assert column(found, "synthetic") == [0, 1]
    assert column(found, "words") == [3, 1]
    assert column(found, "characters") == [14, 4]
    assert column(found, "new_words") == [1, 1]
    assert column(found, "taken_after_query") == pytest.approx([0, 0])
    similar = column(found, "similarity_1")
    assert similar[0] > 0.6 > 0.1 > similar[1]
    assert column(found, "similarity_3") == [0, 0]


def test_equal_texts_are_wholly_similar() -> None:
    found = list_features(("red shoes",), [Candidate("red shoes", 0.0, "seen")], NOTHING)
    assert column(found, "similarity_1") == pytest.approx([1.0])


def test_no_session_and_no_candidates() -> None:
    assert list_features((), [], NOTHING).shape == (0, len(FEATURES))
    assert list_features((), [Candidate("a", 0.0, "seen")], NOTHING).shape == (1, len(FEATURES))
