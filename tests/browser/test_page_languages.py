"""A Chinese and an Arabic log, from raw rows to the page in Chromium."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import nextquery

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.integration.test_languages import LANGUAGES, write_log

DIRECTIONS = {"chinese": "ltr", "arabic": "rtl"}
DIRECTION = "selector => getComputedStyle(document.querySelector(selector)).direction"


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tab(browser: Any, start_service: Any, language: str, tmp_path: Path) -> Iterator[Any]:
    write_log(tmp_path / "log.tsv", LANGUAGES[language])
    data = nextquery.prepare(tmp_path / "log.tsv", tmp_path / "data", spelling=False)
    nextquery.fit(data, "adjacency", tmp_path / "model")
    service = start_service(tmp_path / "model")
    page = browser.new_page()
    page.goto(service.url)
    yield page
    page.close()


def test_it_is_typed_completed_and_suggested_as_people_write_it(tab: Any, language: str) -> None:
    log = LANGUAGES[language]
    anchor, following = (log.pattern.format(thing, log.cities[0]) for thing in log.things[1:3])
    tab.locator("#search").press_sequentially(anchor[:-1])
    expect(tab.locator("#box [role=option]").first).to_have_text(anchor)
    assert tab.evaluate(DIRECTION, "#search") == DIRECTIONS[language]
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    expect(tab.locator(".chip").first).to_contain_text(anchor)
    expect(tab.locator(".column li").first).to_contain_text(following)
    shown = tab.locator(".column li [dir=auto]").first
    expect(shown).to_have_text(following)
    assert shown.evaluate("one => getComputedStyle(one).direction") == DIRECTIONS[language]
