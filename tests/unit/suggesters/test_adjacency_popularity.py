"""Adjacency and popularity, by hand."""

from math import exp, log
from pathlib import Path

import pytest

from nextquery.errors import InputError
from nextquery.suggesters.adjacency import Adjacency, AdjacencySettings
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.popularity import Popularity, PopularitySettings

from .conftest import DataMaker, followers, texts

SESSIONS = [
    ("ann", ["paris", "paris hotels", "rome"]),
    ("bob", ["paris", "rome"]),
    ("cat", ["paris", "rome"]),
    ("dan", ["paris", "oslo"]),
]


@pytest.fixture
def model(data_of: DataMaker) -> Adjacency:
    return fit_model(Adjacency, data_of(SESSIONS))


def test_followers_are_ordered_by_count_then_text(model: Adjacency) -> None:
    result = model.suggest(["rome", "Paris"], 5)
    assert texts(result) == ["oslo", "paris hotels"]  # rome is in the context
    result = model.suggest(["paris"], 5)
    assert texts(result) == ["rome", "oslo", "paris hotels"]
    # rome followed paris 2 of 4 times; its prior is 3 of 9 queries and one imagined.
    assert result[0].score == pytest.approx(log((2 + 3 / 10) / (4 + 1)))
    assert result[0].source == "seen in the log (2 times after the last query)"


def test_equal_counts_are_ordered_by_frequency(data_of: DataMaker) -> None:
    sessions = [("a", ["x", "abc"]), ("a", ["x", "zoo"]), ("b", ["zoo", "y"])]
    result = fit_model(Adjacency, data_of(sessions)).suggest(["x"])
    assert texts(result) == ["zoo", "abc"]


def test_an_unseen_anchor_loses_words_from_its_end(model: Adjacency) -> None:
    result = model.suggest(["paris hotels near opera"], 1)
    assert result[0].text == "rome"
    assert "'paris hotels'" in result[0].source
    assert "never seen" in result[0].source
    assert model.score(["paris hotels near opera"], ["rome"])[0].log_likelihood == pytest.approx(
        log((1 + 3 / 10) / 2)
    )


def test_without_shortening_an_unseen_anchor_gives_nothing(data_of: DataMaker) -> None:
    model = fit_model(Adjacency, data_of(SESSIONS), AdjacencySettings(shorten=False))
    assert model.suggest(["paris hotels near opera"]) == []
    assert model.score(["paris hotels near opera"], ["rome"])[0].log_likelihood == pytest.approx(
        log(3 / 10)
    )


def test_rare_queries_are_neither_suggested_nor_anchors(data_of: DataMaker) -> None:
    model = fit_model(Adjacency, data_of(SESSIONS, min_users=3))
    assert texts(model.suggest(["paris"])) == ["rome"]
    assert model.suggest(["oslo"]) == []


LETTER_SESSIONS = [("u1", ["a", "b"]), ("u2", ["a", "b", "c"]), ("u3", ["a", "c"])]


def test_usefulness_and_age_multiply(data_of: DataMaker) -> None:
    clicks = [("u1", "b", "/b"), ("u2", "b", "/b")]
    data = data_of(LETTER_SESSIONS, clicks=clicks, days=[0, 2, 4])
    aged = followers(fit_model(Adjacency, data, AdjacencySettings(half_life_days=2)), "a")
    useful = followers(fit_model(Adjacency, data, AdjacencySettings(useful_weight=3)), "a")
    settings = AdjacencySettings(useful_weight=3, half_life_days=2)
    both = followers(fit_model(Adjacency, data, settings), "a")
    factor = {"b": useful["b"] / 2, "c": useful["c"] / 1}
    assert factor["b"] > factor["c"]
    assert both == pytest.approx({query: aged[query] * factor[query] for query in "bc"})


POPULAR_SESSIONS = [
    ("ann", ["paris", "paris hotels"]),
    ("bob", ["paris", "rome"]),
    ("cat", ["rome", "oslo"]),
]


def test_the_most_frequent_come_first_and_ties_go_by_text(data_of: DataMaker) -> None:
    result = fit_model(Popularity, data_of(POPULAR_SESSIONS)).suggest([], 4)
    assert texts(result) == ["paris", "rome", "oslo", "paris hotels"]
    # 6 queries were counted and one more is imagined: paris 2/7, oslo 1/7.
    assert result[0].score == pytest.approx(log(2 / 7))
    assert result[2].score == pytest.approx(log(1 / 7))
    assert [item.source for item in result[1:3]] == [
        "seen in the log (2 times)",
        "seen in the log (1 time)",
    ]


def test_an_unknown_query_is_spelt_out(data_of: DataMaker) -> None:
    model = fit_model(Popularity, data_of(POPULAR_SESSIONS))
    known_words, unknown_word = model.score([], ["hotels paris", "hotels bergen"])
    # 7 words and 6 ends are counted and one unknown word imagined: 14 symbols.
    # paris occurs 3 times as a word, hotels once; all unknown queries share 1/7.
    assert known_words.log_likelihood == pytest.approx(log(1 / 7 * 1 / 14 * 3 / 14 * 6 / 14))
    assert unknown_word.log_likelihood == pytest.approx(log(1 / 7 * 1 / 14 * 1 / 14 * 6 / 14))
    assert (known_words.words, known_words.unknown) == (3, ())
    assert unknown_word.unknown == ("bergen",)


def test_a_recent_query_outweighs_an_old_one(data_of: DataMaker) -> None:
    data = data_of(
        [("ann", ["old", "old news"]), ("bob", ["old", "x"]), ("cat", ["new", "new news"])],
        days=[0, 0, 20],
    )
    settings = PopularitySettings(half_life_days=10)
    model = fit_model(Popularity, data, settings)
    # old: 2 times 1/4, new: once 1; all: 4 times 1/4 and twice 1 = 3, and one imagined.
    old, new = model.score([], ["old", "new"])
    assert exp(old.log_likelihood) == pytest.approx(0.5 / 4)
    assert exp(new.log_likelihood) == pytest.approx(1 / 4)
    assert texts(model.suggest([], 3)) == ["new", "new news", "old"]


def test_with_trending_days_only_what_rises_is_suggested(data_of: DataMaker) -> None:
    """Boots are typed every day; hats by twelve people on the last one."""
    always = [(f"a{day}{n}", ("boots", "red boots")) for day in range(20) for n in range(3)]
    lately = [(f"b{n}", ("hats", "red boots")) for n in range(12)]
    days = [day for day in range(20) for _ in range(3)] + [19] * 12
    data = data_of([*always, *lately], days=days)
    rising = PopularitySettings(trending_days=2)
    assert texts(fit_model(Popularity, data, rising).suggest([], 5)) == ["hats"]
    assert fit_model(Popularity, data).suggest([], 1)[0].text == "red boots"
    with pytest.raises(InputError, match="neither `half_life_days`"):
        fit_model(Popularity, data, PopularitySettings(trending_days=2, window_days=3))


def test_on_a_quiet_day_the_list_of_what_rises_is_empty(data_of: DataMaker, tmp_path: Path) -> None:
    always = [(f"a{day}{n}", ("boots", "red boots")) for day in range(20) for n in range(3)]
    data = data_of(always, days=[day for day in range(20) for _ in range(3)])
    fit_model(Popularity, data, PopularitySettings(trending_days=2)).save(tmp_path / "model")
    model = Popularity.load(tmp_path / "model")
    assert model.suggest([], 5) == []
    assert model.score([], ["boots"])[0].log_likelihood < -20
