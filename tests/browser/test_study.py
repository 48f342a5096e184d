"""The study's page in real Chromium: five assessors at once, keyboard, undo, reload, phone, axe."""

import asyncio
import random
import shutil
import signal
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, async_playwright

from nextquery.records import Suggestion
from nextquery.study.pool import NOT_USEFUL, SOMEWHAT, USEFUL, JudgementStore, Topic, create_study
from nextquery.study.report import make_report

from .serve_study import served

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed")
pytestmark = pytest.mark.slow

PREFERENCES = {"guide": USEFUL, "price": SOMEWHAT}
KEYS = {USEFUL: "1", SOMEWHAT: "2", NOT_USEFUL: "3"}


class _Adder:
    kind = "adder"

    def __init__(self, *words: str) -> None:
        self.words = words

    def suggest(self, context: list[str], n: int = 5) -> list[Suggestion]:
        return [Suggestion(f"{context[-1]} {word}", 0.0, "made up") for word in self.words]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    words = ["jaguar", "python", "saturn", "apple", "mercury", "amazon"]
    topics = [
        Topic(w, f"What is {w}?", ("first", "second") if i % 2 else ()) for i, w in enumerate(words)
    ]
    models = {"SecretGood": _Adder("guide", "price"), "SecretBad": _Adder("zzz", "qqq")}
    create_study(tmp_path / "study", topics, models, places=2)  # type: ignore[arg-type]
    return tmp_path / "study"


async def _judge_all(page: Page, choose: dict[str, str] | random.Random) -> None:
    """Judge every suggestion with the keyboard, as an assessor with these preferences would."""
    while await page.locator("#finished").is_hidden():
        for _ in range(await page.locator("#suggestions li").count()):
            text = await page.locator("#suggestions li.current legend").inner_text()
            if isinstance(choose, random.Random):
                value = choose.choice(list(KEYS))
            else:
                value = choose.get(text.split()[-1], NOT_USEFUL)
            await page.keyboard.press(KEYS[value])
        await page.locator("#next.ready").click()


async def _open(browser: Browser, link: str) -> Page:
    page = await (await browser.new_context()).new_page()
    await page.goto(link)
    await page.locator("#suggestions li.current").wait_for()
    return page


async def _in_chromium(study: Path, links: list[str]) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        pages = await asyncio.gather(*(_open(browser, link) for link in links))
        assert not any("Secret" in text for text in [await page.content() for page in pages])
        people: list[dict[str, str] | random.Random] = [PREFERENCES] * 4 + [random.Random(3)]
        await asyncio.gather(*(_judge_all(p, who) for p, who in zip(pages, people, strict=True)))
        await browser.close()


@needs_chromium
def test_five_assessors_at_once_and_the_report_recovers_them(study: Path, tmp_path: Path) -> None:
    with served(study, 5) as (_, links):
        asyncio.run(_in_chromium(study, links))
    assert len(JudgementStore(study).current()) == 5 * 24
    report = make_report(study, tmp_path / "report")
    good, bad = report.groups["all"].models
    assert (good.model, bad.model) == ("SecretGood", "SecretBad")
    assert report.groups["all"].comparisons[0].p_corrected < 0.05
    agreement = report.assessor_agreement
    assert all(agreement[n] is not None and agreement[n] > 0.6 for n in range(1, 5))  # type: ignore[operator]
    assert agreement[5] is not None
    assert abs(agreement[5]) < 0.35  # the coin-flipper


async def _undo_reload_and_axe(link: str) -> list[str]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        phone = await browser.new_context(viewport={"width": 360, "height": 740})
        page = await phone.new_page()
        await page.goto(link)
        await page.locator("#suggestions li.current").wait_for()
        await page.keyboard.press("1")
        await page.get_by_text("1 of 24 judged").wait_for()
        await page.keyboard.press("u")
        await page.get_by_text("0 of 24 judged").wait_for()
        await page.locator("#suggestions li").nth(2).get_by_label("Somewhat").click()
        await page.get_by_text("1 of 24 judged").wait_for()
        await page.reload()
        await page.get_by_text("1 of 24 judged").wait_for()
        chosen = await page.locator("input:checked").get_attribute("value")
        assert chosen == SOMEWHAT
        wide = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert not wide
        found = await Axe().run(page)
        await browser.close()
        return [violation["id"] for violation in found.response["violations"]]


@needs_chromium
def test_undo_reload_a_phone_and_accessibility(study: Path) -> None:
    with served(study, 1) as (_, links):
        assert asyncio.run(_undo_reload_and_axe(links[0])) == []


def test_kill_9_while_judging_loses_nothing_confirmed(study: Path) -> None:
    confirmed: list[int] = []
    for kills in range(3):
        with served(study, 1) as (process, (link,)), httpx.Client(timeout=60) as client:
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
