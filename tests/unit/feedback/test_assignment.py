from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.errors import InputError
from nextquery.feedback.assignment import Share, parse_split, split_arm, team_draft
from nextquery.records import Suggestion


def made(*texts: str) -> list[Suggestion]:
    return [Suggestion(text, 0.0, "seen in the log (1 time)") for text in texts]


TEXTS = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)


@given(TEXTS, TEXTS, st.integers(0, 10), st.text())
def test_a_draft_is_a_fair_list_of_both(
    first: list[str], second: list[str], n: int, key: str
) -> None:
    drafted = team_draft(made(*first), made(*second), n, key)
    texts = [each.suggestion.text for each in drafted]
    assert len(set(texts)) == len(texts) == min(n, len({*first, *second}))
    for team, own in enumerate((first, second)):
        mine = [each.suggestion.text for each in drafted if each.team == team]
        assert mine == [text for text in own if text in mine], "a team keeps its own order"
    assert drafted == team_draft(made(*first), made(*second), n, key)


def test_equal_lists_give_every_place_to_either_team_as_often() -> None:
    """What makes a click favour nobody where there is nothing to choose."""
    same = made("a", "b", "c", "d", "e")
    drafts = [team_draft(same, same, 5, f"visitor {number}") for number in range(2000)]
    for place in range(5):
        first = sum(draft[place].team == 0 for draft in drafts)
        assert abs(first - 1000) < 3 * (2000 * 0.25) ** 0.5


def test_in_every_round_each_team_picks_once() -> None:
    drafted = team_draft(made("a", "b", "c"), made("x", "y", "z"), 6, "key")
    teams = [each.team for each in drafted]
    assert all(sorted(teams[start : start + 2]) == [0, 1] for start in (0, 2, 4))


def test_a_split_follows_its_weights_and_is_sticky() -> None:
    shares = parse_split("A:90,B:10")
    arms = {f"visitor {n}": split_arm(shares, f"visitor {n}") for n in range(5000)}
    assert abs(Counter(arms.values())["B"] - 500) < 3 * (5000 * 0.09) ** 0.5
    assert all(split_arm(shares, key) == arm for key, arm in arms.items())


def test_names_may_have_colons() -> None:
    assert parse_split("a:b:1, c:2") == (Share("a:b", 1), Share("c", 2))


@pytest.mark.parametrize("text", ["A", "A:0,B:1", "A:x,B:1", "A:-1,B:1", ":1", "A:1,,B:2"])
def test_a_split_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="`split`"):
        parse_split(text)
