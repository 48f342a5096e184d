from typing import Any

import pytest

from nextquery.ranking.candidates import BackgroundCounts, Backgrounds, CountsWithoutUser
from nextquery.ranking.user_history import UserHistory, read_histories, read_rarest
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fitting.fit import fit_model

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


OWN = [("anna", ("cars", "red cars", "buses")), ("anna", ("cars", "old cars"))]
OTHERS = [("bert", ("cars", "buses", "cars")), ("carl", ("cars", "red cars"))]


@pytest.mark.parametrize("min_users", [1, 2])
def test_without_a_user_the_counts_are_those_of_a_log_without_the_user(
    prepared: Any, tiny_log: Any, min_users: int
) -> None:
    whole = prepared(tiny_log([*OWN, *OTHERS], min_users=min_users))
    wanted = BackgroundCounts.read(prepared(tiny_log(OTHERS, min_users=min_users)))
    histories, rarest = read_histories(whole, ["anna"]), read_rarest(whole)
    found = Backgrounds(BackgroundCounts.read(whole), histories, rarest).of("anna")

    for query in ("cars", "red cars", "old cars", "buses", "never"):
        assert (query in found) == (query in wanted)
        assert found.frequency(query) == wanted.frequency(query)
        assert dict(found.followers(query)) == dict(wanted.followers(query))
        assert found.candidates(query) == wanted.candidates(query)
    assert found.known_beginning("old cars now") == wanted.known_beginning("old cars now")
    assert found.most_frequent(3) == wanted.most_frequent(3)


def test_users_without_a_past_see_the_whole_background() -> None:
    whole = BackgroundCounts(FREQUENCIES, FOLLOWERS)
    backgrounds = Backgrounds(whole, {"anna": UserHistory((("cars", "trains"),) * 8)})

    assert backgrounds.of("new") is whole
    anna = backgrounds.of("anna")
    assert isinstance(anna, CountsWithoutUser)
    assert anna.candidates("cars") == ("buses", "old cars", "red cars")
    assert backgrounds.of("anna") is anna


def test_followers_of_every_known_beginning_are_read(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log([("u", ("cars", "x")), ("u", ("cars red", "y")), ("u", ("z", "x"))]))
    found = BackgroundCounts.read(data, ["cars red new"])

    assert found.followers("cars") == {"x": 1}
    assert found.followers("cars red") == {"y": 1}
    assert found.followers("z") == {}
