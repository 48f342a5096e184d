"""The study's page with things in its way: mail, dead servers, hostile texts, small screens."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from nextquery.records import Suggestion
from nextquery.study.pool import USEFUL, JudgementStore, Topic, create_study, read_pool
from nextquery.study.report import make_report

from .hostile_texts import hostile_texts
from .serve_study import served

pytestmark = pytest.mark.slow


class _Fixed:
    kind = "fixed"

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def suggest(self, context: object, n: int = 5) -> list[Suggestion]:
        return [Suggestion(text, 0.0, "made up") for text in self.texts[:n]]


def _study(folder: Path, texts: list[str], topics: list[Topic]) -> Path:
    names = ("A$\\frac$", "<script>window.pwned=1</script>")
    models = {name: _Fixed(texts) for name in names}
    create_study(folder, topics, models, places=len(texts))  # type: ignore[arg-type]
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return _study(tmp_path / "study", ["one", "two"], [Topic("a"), Topic("b"), Topic("c")])


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 320, "height": 640})
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    yield page
    context.close()
    assert problems == []


def test_the_end_is_shown_only_after_every_judgement(tab: Any, small: Path) -> None:
    with served(small, 1) as (_, (link,)):
        tab.goto(link)
        for _ in range(3):
            tab.locator("#next").click()
        expect(tab.locator("#finished")).to_be_hidden()
        expect(tab.locator("#unfinished")).to_contain_text("6 suggestions have no judgement yet")
        tab.locator("#resume").click()
        for _ in range(3):
            expect(tab.locator("#judging")).to_be_visible()
            tab.keyboard.press("1")
            tab.keyboard.press("2")
            tab.locator("#next.ready").click()
        expect(tab.locator("#finished")).to_be_visible()
        expect(tab.locator("#unfinished")).to_be_hidden()


def test_the_link_in_a_mail_opens_every_time(tab: Any, small: Path) -> None:
    with served(small, 1) as (_, (link,)):
        mail = f"<!doctype html><a href='{link}'>your study</a>"
        tab.route("http://mail.example/", lambda r: r.fulfill(body=mail, content_type="text/html"))
        for judged in (1, 2):
            tab.goto("http://mail.example/")
            tab.get_by_text("your study").click()
            tab.locator("#suggestions li.current").wait_for()
            tab.keyboard.press("1")
            expect(tab.locator("#progress-label")).to_contain_text(f"{judged} of 6 judged")


def test_the_page_retries_a_server_that_does_not_answer(tab: Any, small: Path) -> None:
    with served(small, 1) as (_, (link,)):
        tab.goto(link)
        tab.locator("#suggestions li.current").wait_for()
        tab.route("**/a/**", lambda route: route.abort())
        tab.keyboard.press("1")
        expect(tab.locator("#failure-text")).to_contain_text("does not answer")
        expect(tab.locator("#failure-text")).to_contain_text("tries again by itself")
        tab.unroute("**/a/**")
        expect(tab.locator("#judging")).to_be_visible(timeout=60_000)
        tab.keyboard.press("1")
        expect(tab.locator("#progress-label")).to_contain_text("1 of 6 judged")


def test_hostile_texts_stay_text_on_the_page_and_in_the_report(tab: Any, tmp_path: Path) -> None:
    texts = hostile_texts()
    topics = [Topic(texts[n], texts[n + 1], (texts[n + 2], "x" * 200)) for n in range(3)]
    study = _study(tmp_path / "study", texts, topics)
    with served(study, 1) as (_, (link,)):
        tab.goto(link)
        tab.locator("#suggestions li.current").wait_for()
        shown = tab.eval_on_selector_all("legend", "all => all.map(one => one.textContent)")
        assert sorted(shown) == sorted(texts)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 320
        assert tab.evaluate("window.pwned") is None
        assert (
            tab.locator("main :is(script,img,svg,iframe,a,style,object,video,x,math)").count() == 0
        )
    store = JudgementStore(study)
    for item in [item for topic in read_pool(study).topics for item in topic.items]:
        store.judge(1, item.id, USEFUL)
    make_report(study, tmp_path / "report")
    tab.goto((tmp_path / "report" / "index.html").as_uri())
    expect(tab.locator("h1")).to_have_text("Blind user study")
    assert tab.evaluate("window.pwned") is None
    assert tab.locator("script, img, iframe, a, object, video, x, math, form").count() == 0
    assert tab.evaluate("document.documentElement.scrollWidth") <= 320
