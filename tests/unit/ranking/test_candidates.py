from nextquery.ranking.candidates import Background

FREQUENCIES = {"cars": 9, "red cars": 4, "old cars": 4, "buses": 5, "trains": 2}
FOLLOWERS = {"cars": {"red cars": 3, "old cars": 3, "buses": 3, "trains": 8}}


def test_candidates_by_count_then_frequency_then_text() -> None:
    background = Background(FREQUENCIES, FOLLOWERS)

    assert background.candidates("cars") == ("trains", "buses", "old cars", "red cars")
    assert background.candidates("cars", 2) == ("trains", "buses")
    assert background.candidates("boats") == ()


def test_words_are_dropped_from_the_end_until_a_known_query_remains() -> None:
    background = Background(FREQUENCIES, FOLLOWERS)

    assert background.known_beginning("red cars for sale") == "red cars"
    assert background.known_beginning("cars red blue") == "cars"
    assert background.known_beginning("trains") == "trains"
    assert background.known_beginning("blue cars") == ""


def test_most_frequent_breaks_ties_by_text() -> None:
    background = Background(FREQUENCIES, FOLLOWERS)

    assert background.most_frequent(3) == [("cars", 9), ("buses", 5), ("old cars", 4)]
