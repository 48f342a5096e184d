from datetime import UTC, datetime, timedelta

import pytest

from nextquery.errors import InputError
from nextquery.feedback.events import ListedSuggestion
from nextquery.feedback.impressions import ExclusionReason, Feedback, Impression
from nextquery.feedback.report import flooded, report_on
from nextquery.feedback.settings import ReportSettings

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
PLACES = (ListedSuggestion("boots", "seen", "A"), ListedSuggestion("socks", "synthetic", "B"))


def shown(number: int, query: str = "shoes", taken: int | None = None, day: int = 0) -> Impression:
    return Impression(
        list_id=f"list {number}", visitor=f"visitor {number % 5}",
        time=NOON + timedelta(days=day), context=(), query=query, suggestions=PLACES,
        taken=frozenset() if taken is None else frozenset({taken}),
        dismissed=taken is None and number % 2 == 0, model="A+B",
    )  # fmt: skip


LISTS = (
    *(shown(n, taken=n % 2) for n in range(4)),
    *(shown(n, day=1) for n in range(4, 10)),
    *(shown(n, query="rare") for n in (10, 15)),
    *(shown(n, query="hats") for n in range(20, 30)),
)


def test_everything_is_counted_by_hand() -> None:
    found = report_on(Feedback(LISTS), ReportSettings(min_shown=10))
    assert (found.lists.shown, found.lists.taken, found.lists.visitors) == (22, 4, 5)
    assert found.lists.dismissed == 9
    assert (found.suggestions.shown, found.suggestions.taken) == (44, 4)
    assert {place: each.taken for place, each in found.by_position.items()} == {1: 2, 2: 2}
    assert {name: (each.shown, each.taken) for name, each in found.by_model.items()} == {
        "A": (22, 2), "B": (22, 2),
    }  # fmt: skip
    assert {name: each.taken for name, each in found.by_source.items()} == {
        "seen": 2, "synthetic": 2,
    }  # fmt: skip
    assert {day: (each.shown, each.taken) for day, each in found.by_day.items()} == {
        "2026-05-01": (16, 4), "2026-05-02": (6, 0),
    }  # fmt: skip


def test_queries_of_few_visitors_are_not_named() -> None:
    found = report_on(Feedback(LISTS), ReportSettings(min_visitors=2, min_shown=1))
    assert list(found.by_query) == ["hats", "shoes"]
    assert found.queries == 3
    assert [each.query for each in found.never_taken] == ["hats"]


def test_lists_shown_often_and_never_taken_are_named_with_their_suggestions() -> None:
    [never] = report_on(Feedback(LISTS), ReportSettings(min_shown=10)).never_taken
    assert (never.query, never.lists.shown, never.suggestions) == ("hats", 10, ("boots", "socks"))
    assert never.lists.low == 0.0
    assert 0.3 < never.lists.high < 0.5, "five visitors that took nothing rule out no more"
    assert not report_on(Feedback(LISTS), ReportSettings(min_shown=11)).never_taken


def test_what_the_bounds_took_is_a_share() -> None:
    aside = {ExclusionReason.VISITOR: 10, ExclusionReason.ORIGIN: 12, ExclusionReason.BROKEN: 5}
    found = report_on(Feedback(LISTS, aside), ReportSettings())
    assert flooded(found) == 0.5


def test_a_report_on_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="unreadable line: 3"):
        report_on(Feedback((), {ExclusionReason.BROKEN: 3}), ReportSettings())
