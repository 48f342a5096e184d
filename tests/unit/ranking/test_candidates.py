from typing import Any

from nextquery.ranking.cases import BackgroundCounts, Backgrounds, user_fold
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model

FREQUENCIES = {"cars": 9, "red cars": 4, "old cars": 4, "buses": 5, "trains": 2}
FOLLOWERS = {"cars": {"red cars": 3, "old cars": 3, "buses": 3, "trains": 8}}


def test_candidates_by_count_then_frequency_then_text() -> None:
    background = BackgroundCounts(FREQUENCIES, FOLLOWERS)

    assert background.candidates("cars") == ("trains", "buses", "old cars", "red cars")
    assert background.candidates("cars", 2) == ("trains", "buses")
    assert background.candidates("boats") == ()


def test_words_are_dropped_from_the_end_until_a_known_query_remains() -> None:
    background = BackgroundCounts(FREQUENCIES, FOLLOWERS)

    assert background.known_beginning("red cars for sale") == "red cars"
    assert background.known_beginning("cars red blue") == "cars"
    assert background.known_beginning("trains") == "trains"
    assert background.known_beginning("blue cars") == ""


def test_most_frequent_breaks_ties_by_text() -> None:
    background = BackgroundCounts(FREQUENCIES, FOLLOWERS)

    assert background.most_frequent(3) == [("cars", 9), ("buses", 5), ("old cars", 4)]


def test_the_count_models_have_the_same_rule_and_the_same_order(
    prepared: Any, tiny_log: Any
) -> None:
    """Two ways to keep the background, one for evaluation and one for serving: one order."""
    sessions = [("u", ("cars", follower)) for follower in ("b", "a", "c", "a", "d", "b", "e")]
    sessions += [("v", ("x", "e")), ("v", ("x", "c"))]
    data = prepared(tiny_log(sessions))
    counts, model = BackgroundCounts.read(data), fit_model(Adjacency, data)

    listed = [suggestion.text for suggestion in model.best(("cars",), 20)]
    assert counts.candidates("cars") == tuple(listed) == ("a", "b", "c", "e", "d")
    for query in ("cars for sale", "x", "nothing known"):
        shortened = model.background.shortened(query)
        assert counts.known_beginning(query) == (shortened[1] if shortened else "")


def test_each_user_sees_the_background_without_the_own_fold() -> None:
    whole = BackgroundCounts(FREQUENCIES, FOLLOWERS)
    parts = [BackgroundCounts({"cars": number}, {}) for number in range(3)]
    backgrounds = Backgrounds(whole, parts)

    for user in ("anna", "bert", "carl", "dora"):
        assert backgrounds.of(user).frequency("cars") == user_fold(user, 3)
    assert Backgrounds(whole).of("anna") is whole
