from typing import Any

from nextquery.ranking.user_history import UserHistory, read_histories, read_rarest

SESSIONS = [
    ("anna", ("cars", "red cars", "cars")),
    ("bert", ("cars", "buses")),
    ("anna", ("cars", "buses")),
]


def test_counts_by_hand() -> None:
    history = UserHistory((("cars", "red cars", "cars"), ("cars", "buses")))

    assert history.frequencies == {"cars": 3, "red cars": 1, "buses": 1}
    assert history.followers == {"cars": {"red cars": 1, "buses": 1}, "red cars": {"cars": 1}}
    assert history.words == {"cars": 4, "red": 1, "buses": 1}


def test_only_the_asked_users_are_read_in_the_order_of_their_sessions(
    prepared: Any, tiny_log: Any
) -> None:
    data = prepared(tiny_log(SESSIONS))

    found = read_histories(data, {"anna", "carl"})

    assert found == {"anna": UserHistory((("cars", "red cars", "cars"), ("cars", "buses")))}


def test_the_rarest_texts_have_as_many_users_as_the_rule_asks_for(
    prepared: Any, tiny_log: Any
) -> None:
    alone = read_rarest(prepared(tiny_log(SESSIONS)))
    both = read_rarest(prepared(tiny_log(SESSIONS, min_users=2)))

    assert alone.queries == {"red cars"}
    assert alone.words == {"red"}
    assert both.queries == {"cars", "buses"}
    assert both.words == {"cars", "buses"}
