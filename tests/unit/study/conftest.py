"""A small study whose models are known."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from nextquery.records import ScoredQuery, Suggestion
from nextquery.study.pool import Pool, Topic, create_study


class WordAdder:
    """A suggester that appends fixed words to the last query."""

    kind = "word-adder"

    def __init__(self, *words: str) -> None:
        self.words = words

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        return [
            Suggestion(f"{context[-1]} {word}", -float(rank), "made up")
            for rank, word in enumerate(self.words[:n])
        ]

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        return [ScoredQuery(text, 0.0, len(text.split()) + 1) for text in candidates]

    def save(self, path: Path) -> None:
        raise AssertionError("never saved")


class FixedList:
    """A suggester whose list is the same after every query."""

    kind = "fixed"

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def suggest(self, context: object, n: int = 5) -> list[Suggestion]:
        return [Suggestion(text, 0.0, "made up") for text in self.texts[:n]]


TOPICS = [Topic("jaguar", "The animal or the car?", ("big cats", "fast cats")), Topic("python")]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    create(tmp_path / "study", TOPICS)
    return tmp_path / "study"


def create(folder: Path, topics: Sequence[Topic]) -> Pool:
    models = {
        "SecretGood": WordAdder("guide", "book", "price"),
        "SecretMixed": WordAdder("price", "movie"),
        "SecretBad": WordAdder("zzz", "qqq", "xxx"),
    }
    return create_study(folder, topics, models, places=3, seed=7)
