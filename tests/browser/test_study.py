"""The study's page in real Chromium: five assessors at once, keyboard, undo, reload, phone, axe."""

import random
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe

from nextquery.records import Suggestion
from nextquery.study.pool import NOT_USEFUL, SOMEWHAT, USEFUL, JudgementStore, Topic, create_study
from nextquery.study.report import make_report

from .serve_study import served

pytestmark = pytest.mark.slow

PREFERENCES = {"guide": USEFUL, "price": SOMEWHAT}
TOPICS = 6
KEYS = {USEFUL: "1", SOMEWHAT: "2", NOT_USEFUL: "3"}


class _Adder:
    kind = "adder"

    def __init__(self, *words: str) -> None:
        self.words = words

    def suggest(self, context: list[str], n: int = 5) -> list[Suggestion]:
        return [Suggestion(f"{context[-1]} {word}", 0.0, "made up") for word in self.words]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    words = ["jaguar", "python", "saturn", "apple", "mercury", "amazon"][:TOPICS]
    topics = [
        Topic(w, f"What is {w}?", ("first", "second") if i % 2 else ()) for i, w in enumerate(words)
    ]
    models = {"SecretGood": _Adder("guide", "price"), "SecretBad": _Adder("zzz", "qqq")}
    create_study(tmp_path / "study", topics, models, places=2)  # type: ignore[arg-type]
    return tmp_path / "study"


def _judge_topic(page: Any, choose: dict[str, str] | random.Random) -> None:
    """Judge a topic with the keyboard, as an assessor with these preferences would."""
    for _ in range(page.locator("#suggestions li").count()):
        text = page.locator("#suggestions li.current legend").inner_text()
        if isinstance(choose, random.Random):
            value = choose.choice(list(KEYS))
        else:
            value = choose.get(text.split()[-1], NOT_USEFUL)
        page.keyboard.press(KEYS[value])
    page.locator("#next.ready").click()


def _open(browser: Any, link: str, **options: Any) -> Any:
    page = browser.new_context(**options).new_page()
    page.goto(link)
    page.locator("#suggestions li.current").wait_for()
    return page


def test_five_assessors_at_once_and_the_report_recovers_them(
    browser: Any, study: Path, tmp_path: Path
) -> None:
    people: list[dict[str, str] | random.Random] = [PREFERENCES] * 4 + [random.Random(3)]
    with served(study, 5) as (_, links):
        pages = [_open(browser, link) for link in links]
        assert not any("Secret" in page.content() for page in pages)
        for _ in range(TOPICS):
            for page, choose in zip(pages, people, strict=True):
                _judge_topic(page, choose)
        for page in pages:
            page.locator("#finished").wait_for()
            page.context.close()
    assert len(JudgementStore(study).current()) == 5 * 24
    report = make_report(study, tmp_path / "report")
    good, bad = report.groups["all"].models
    assert (good.model, bad.model) == ("SecretGood", "SecretBad")
    assert report.groups["all"].comparisons[0].p_corrected < 0.05
    agreement = report.assessor_agreement
    assert all(agreement[n] is not None and agreement[n] > 0.6 for n in range(1, 5))  # type: ignore[operator]
    assert agreement[5] is not None
    assert abs(agreement[5]) < 0.35  # the coin-flipper


def test_undo_reload_a_phone_and_accessibility(browser: Any, study: Path) -> None:
    with served(study, 1) as (_, (link,)):
        page = _open(browser, link, viewport={"width": 360, "height": 740})
        page.keyboard.press("1")
        page.get_by_text("1 of 24 judged").wait_for()
        page.keyboard.press("u")
        page.get_by_text("0 of 24 judged").wait_for()
        page.locator("#suggestions li").nth(2).get_by_label("Somewhat").click()
        page.get_by_text("1 of 24 judged").wait_for()
        page.reload()
        page.get_by_text("1 of 24 judged").wait_for()
        assert page.locator("input:checked").get_attribute("value") == SOMEWHAT
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        violations = Axe().run(page).response["violations"]
        page.context.close()
    assert [violation["id"] for violation in violations] == []


def test_kill_9_while_judging_loses_nothing_confirmed(study: Path) -> None:
    confirmed: list[int] = []
    for kills in range(3):
        with served(study, 1) as (process, (link,)), httpx.Client(timeout=900) as client:
            client.cookies.set("browser", "the same browser")
            for item in range(24):
                if len(confirmed) == 5 * (kills + 1):
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                try:
                    answer = client.post(f"{link}/judgements", json={"item": item, "value": USEFUL})
                except httpx.TransportError:
                    break
                assert answer.status_code == 200
                confirmed.append(item)
        stored = {judgement.item for judgement in JudgementStore(study).current()}
        assert set(confirmed) <= stored
    assert len(confirmed) == 15
