"""The report on feedback: counts by hand, its page, and acceptance with intervals."""

import json
import math
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from tests.unit.feedback.made_up import ranked, run
from tests.unit.feedback.test_events import SERVED, SHOWN, TAKEN, write

from nextquery.artifacts import open_artifact
from nextquery.errors import ArtifactError, InputError
from nextquery.feedback.acceptance import AcceptanceCount, effective_size, wilson
from nextquery.feedback.events import ListedSuggestion
from nextquery.feedback.impressions import ExclusionReason, Feedback, Impression
from nextquery.feedback.report import feedback_page, flooded, make_report, report_on
from nextquery.feedback.settings import Bounds, ReportSettings

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
    result = report_on(Feedback(LISTS), ReportSettings(min_shown=10))
    assert (result.lists.shown, result.lists.taken, result.lists.visitors) == (22, 4, 5)
    assert result.lists.dismissed == 9
    assert (result.suggestions.shown, result.suggestions.taken) == (44, 4)
    assert {position: item.taken for position, item in result.by_position.items()} == {1: 2, 2: 2}
    assert {name: (item.shown, item.taken) for name, item in result.by_model.items()} == {
        "A": (22, 2), "B": (22, 2),
    }  # fmt: skip
    assert {name: item.taken for name, item in result.by_source.items()} == {
        "seen": 2, "synthetic": 2,
    }  # fmt: skip
    assert {day: (item.shown, item.taken) for day, item in result.by_day.items()} == {
        "2026-05-01": (16, 4), "2026-05-02": (6, 0),
    }  # fmt: skip


def test_queries_of_few_visitors_are_not_named() -> None:
    result = report_on(Feedback(LISTS), ReportSettings(min_visitors=2, min_shown=1))
    assert list(result.by_query) == ["hats", "shoes"]
    assert result.queries == 3
    assert [item.query for item in result.never_taken] == ["hats"]


def test_lists_shown_often_and_never_taken_are_named_with_their_suggestions() -> None:
    [never] = report_on(Feedback(LISTS), ReportSettings(min_shown=10)).never_taken
    assert (never.query, never.lists.shown, never.suggestions) == ("hats", 10, ("boots", "socks"))
    assert never.lists.low == 0.0
    assert 0.3 < never.lists.high < 0.5, "five visitors that took nothing rule out no more"
    assert not report_on(Feedback(LISTS), ReportSettings(min_shown=11)).never_taken


def test_what_the_bounds_took_is_a_share() -> None:
    aside = {ExclusionReason.VISITOR: 10, ExclusionReason.ORIGIN: 12, ExclusionReason.BROKEN: 5}
    result = report_on(Feedback(LISTS, aside), ReportSettings())
    assert flooded(result) == 0.5


def test_a_report_on_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="unreadable line: 3"):
        report_on(Feedback((), {ExclusionReason.BROKEN: 3}), ReportSettings())


def test_wilson_by_hand() -> None:
    """10 of 100: the usual table has .0552 to .1744."""
    low, high = wilson(0.1, 100)
    assert low == pytest.approx(0.0552, abs=1e-4)
    assert high == pytest.approx(0.1744, abs=1e-4)
    assert wilson(0.5, 0) == (0.0, 1.0)


def test_lists_of_one_visitor_are_one_observation() -> None:
    alike = [(10, 10)] * 10 + [(0, 10)] * 10
    assert effective_size(alike) == pytest.approx(19)
    apart = [(1, 1)] * 100 + [(0, 1)] * 100
    assert effective_size(apart) == pytest.approx(199)


def test_where_nothing_was_taken_each_visitor_counts_once() -> None:
    assert effective_size([(0, 50)] * 4) == 4
    assert effective_size([]) == 0


def test_the_interval_holds_what_is_true_as_often_as_it_says() -> None:
    """Visitors differ: each has a rate of their own. A plain binomial interval would fail here."""
    draw = np.random.default_rng(1)
    inside = 0
    for _ in range(300):
        count = AcceptanceCount()
        for visitor, rate in enumerate(draw.beta(0.5, 2.0, 80)):
            for taken in draw.random(20) < rate:
                count.add(str(visitor), taken=bool(taken))
        result = count.acceptance()
        inside += result.low <= 0.2 <= result.high
    assert inside >= 300 * 0.95 - 3 * math.sqrt(300 * 0.95 * 0.05)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for event in (SERVED, SHOWN, TAKEN):
        write(tmp_path / "feedback", event)
    return tmp_path / "feedback"


def test_a_report_is_an_artifact_with_json_and_a_page(folder: Path, tmp_path: Path) -> None:
    made = make_report(folder, tmp_path / "report", Bounds(), ReportSettings())
    assert open_artifact(tmp_path / "report").kind == "feedback-report"
    results = json.loads((tmp_path / "report" / "results.json").read_text())
    assert results["lists"]["taken"] == made.lists.taken == 1
    assert set(results) >= {
        "by_position", "by_model", "by_query", "by_source", "by_day", "never_taken",
        "position_bias", "excluded",
    }  # fmt: skip
    assert "Feedback report" in (tmp_path / "report" / "index.html").read_text()


def test_no_other_folder_is_overwritten(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError):
        make_report(folder, folder, Bounds(), ReportSettings())


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        links = [value for name, value in attributes if name in ("src", "href") and value]
        self.outside += [link for link in links if not link.startswith("#")]


def test_the_page_fetches_nothing_and_runs_nothing() -> None:
    links = Links()
    links.feed(feedback_page(report_on(Feedback(LISTS), ReportSettings())))
    assert (links.outside, links.scripts) == ([], 0)


def test_hostile_texts_are_shown_as_texts() -> None:
    hostile = "<script>alert(1)</script>"
    lists = [shown(n, query=hostile) for n in range(60)]
    page = feedback_page(report_on(Feedback(tuple(lists)), ReportSettings()))
    assert hostile not in page
    assert "&lt;script&gt;" in page


def test_position_bias_is_stated() -> None:
    models = {"A": ranked(0.05, 1), "B": ranked(0.1, 2)}
    page = feedback_page(report_on(run(models, "interleave", 600, 1), ReportSettings()))
    assert "times as often as the first" in page
    alone = feedback_page(report_on(run({"A": ranked(0.0)}, "", 50, 1), ReportSettings()))
    assert "Position bias cannot be estimated" in alone


def test_floods_are_said_at_the_top() -> None:
    flooded = Feedback(LISTS, {ExclusionReason.ORIGIN: 100})
    assert "--per-origin 0" in feedback_page(report_on(flooded, ReportSettings()))
    assert "--per-origin 0" not in feedback_page(report_on(Feedback(LISTS), ReportSettings()))
