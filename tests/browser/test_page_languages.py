"""A Chinese and an Arabic log, from raw rows to the page in Chromium, by trained models."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.languages import LANGUAGES

DIRECTIONS = {"chinese": "ltr", "arabic": "rtl"}
DIRECTION = "selector => getComputedStyle(document.querySelector(selector)).direction"


@pytest.mark.parametrize("name", LANGUAGES)
def test_queries_are_completed_and_suggested_as_people_write_them(
    name: str, browser: Any, start_service: Any, language_models: Callable[[str], Path]
) -> None:
    """HRED, whose text-quality gate is on."""
    service = start_service(language_models(name) / "hred", "--budget-ms", "60000")
    tab = browser.new_page()
    tab.goto(service.url)
    anchor, following = LANGUAGES[name].query(1), LANGUAGES[name].query(2)
    tab.locator("#search").press_sequentially(anchor[:-1])
    expect(tab.locator("#box [role=option]").first).to_have_text(anchor)
    assert tab.evaluate(DIRECTION, "#search") == DIRECTIONS[name]
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    expect(tab.locator(".chip").first).to_contain_text(anchor)
    shown = tab.locator(".column li [dir=auto]").first
    expect(shown).to_have_text(following)
    assert shown.evaluate("one => getComputedStyle(one).direction") == DIRECTIONS[name]
    tab.close()
