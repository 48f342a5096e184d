from html.parser import HTMLParser

from tests.unit.feedback.made_up import ranked, run
from tests.unit.feedback.test_report_results import LISTS, shown

from nextquery.feedback.impressions import ExclusionReason, Feedback
from nextquery.feedback.report import feedback_page, report_on
from nextquery.feedback.settings import ReportSettings


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


def test_sources_are_told_apart() -> None:
    page = feedback_page(report_on(Feedback(LISTS), ReportSettings()))
    assert "<th>synthetic</th>" in page
