"""The trivial rules that every model is compared with."""

from pathlib import Path

import pytest

from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.popularity import Popularity
from nextquery.suggesters.trivial import DropWords, LastCompletions


@pytest.fixture
def popularity(town_data: PreparedData, tmp_path: Path) -> Popularity:
    fit_model(Popularity, town_data).save(tmp_path / "popularity")
    return Popularity.load(tmp_path / "popularity")


def test_words_of_the_last_query_are_dropped_then_popular_queries_follow(
    popularity: Popularity,
) -> None:
    rule = DropWords(popularity)
    texts = [each.text for each in rule.suggest(["rome", "oslo hotel prices"], 9)]
    dropped = ["oslo hotel", "oslo prices", "hotel prices", "oslo", "hotel", "prices"]
    assert texts[: len(dropped)] == dropped
    popular = [each.text for each in popularity.suggest([], 9)]
    assert texts[len(dropped) :] == [text for text in popular if text not in texts[:6]][:3]
    assert [each.text for each in rule.suggest(["oslo", "oslo hotel"], 1)] == ["hotel"]
    assert rule.suggest([], 2) == popularity.suggest([], 2)


def test_the_last_query_is_completed(popularity: Popularity) -> None:
    rule = LastCompletions(popularity)
    assert [each.text for each in rule.suggest(["oslo hotel"], 5)] == ["oslo hotel prices"]
    assert rule.suggest([], 5) == []
