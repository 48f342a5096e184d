from dataclasses import replace
from datetime import UTC, datetime

from nextquery.feedback.events import ListedSuggestion, ShadowList
from nextquery.feedback.impressions import Impression
from nextquery.feedback.report import compare_shadows

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def places(*texts: str) -> tuple[ListedSuggestion, ...]:
    return tuple(ListedSuggestion(text, "seen", "A") for text in texts)


def shadowed(*texts: str) -> ShadowList:
    return ShadowList("1", "v", NOON, "q", model="B", version="2", suggestions=places(*texts))


SHOWN = Impression("1", "v", NOON, (), "q", places("a", "b", "c", "d"), frozenset({2}), False, "A")


def test_lists_are_compared_by_hand() -> None:
    lists = [
        replace(SHOWN, shadows=(shadowed("c", "a", "x", "y"),)),
        replace(SHOWN, shadows=(shadowed("a", "b", "x", "c"),)),
        replace(SHOWN, shadows=(shadowed("x"),), taken=frozenset({0})),
        SHOWN,
    ]
    [found] = compare_shadows(lists)
    assert (found.model, found.version, found.lists, found.taken) == ("B", "2", 3, 3)
    assert found.overlap == (2 / 4 + 3 / 4 + 0) / 3
    assert found.same_first == 1 / 3
    assert found.taken_known == 2 / 3
    assert found.taken_higher == 0.0, "once higher, once lower"


def test_nothing_taken_is_no_share() -> None:
    [found] = compare_shadows([replace(SHOWN, shadows=(shadowed("x"),), taken=frozenset())])
    assert (found.taken_known, found.taken_higher) == (None, None)


def test_no_shadow_no_result() -> None:
    assert compare_shadows([SHOWN]) == ()
