"""The page's question to the administration: why a query is not suggested, and blocking it."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.slow

KEY = "an-admin-key-for-this-test"
LINE = f"test:{hashlib.sha256(KEY.encode()).hexdigest()}"


@pytest.fixture(scope="module")
def blocklist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("block") / "blocked.txt"


@pytest.fixture(scope="module")
def service(
    browser: Any, start_service: Any, served_models: dict[str, Path], blocklist: Path
) -> Any:
    blocklist.write_text("gambling\n")
    model = served_models["adjacency"]
    options = ("--compare", f"second={model}", "--blocklist", blocklist)
    return start_service(model, *options, NEXTQUERY_ADMIN_KEYS=LINE)


def ask(page: Any, query: str, key: str = KEY) -> None:
    page.fill("#admin-query", query)
    page.fill("#admin-key", key)
    page.get_by_role("button", name="Ask").click()


def test_why_and_block(page: Any, service: Any) -> None:
    page.goto(service.url)
    page.wait_for_selector(".column li")
    page.fill("#search", "red shoes")
    page.press("#search", "Enter")
    expect(page.locator(".column .text").first).to_have_text("red boots")
    page.locator(".administration summary").click()
    first = page.locator("#admin-answer li").first
    ask(page, "red boots")
    expect(first).to_contain_text("can suggest it, here at place 1")
    ask(page, "gambling boots <img src=x onerror=window.pwned=1>")
    expect(first).to_contain_text("cannot suggest it")
    expect(first).to_contain_text("(nobody typed it)")
    page.fill("#admin-query", "red boots")
    page.get_by_role("button", name="Block it").click()
    expect(page.locator("#admin-status")).to_contain_text("is blocked")
    expect(page.locator(".column .text", has_text="red boots")).to_have_count(0)
    assert page.evaluate("window.pwned") is None


def test_with_a_key_a_suggestion_is_blocked_from_the_list(
    browser: Any, service: Any, blocklist: Path
) -> None:
    blocklist.write_text("gambling\n")

    def has_boots() -> bool:
        answer = service.post("/v1/suggest", {"query": "red shoes"}).json()
        return any(item["text"] == "red boots" for item in answer["suggestions"])

    service.wait_until(has_boots)
    page = browser.new_page()
    page.goto(service.url)
    page.wait_for_selector(".column li")
    page.locator("label", has_text="Compare models").click()
    page.fill("#search", "red shoes")
    page.press("#search", "Enter")
    expect(page.locator(".column")).to_have_count(2)
    expect(page.locator(".block")).to_have_count(0)
    page.locator(".administration summary").click()
    page.fill("#admin-key", KEY)
    page.press("#admin-key", "Tab")
    block = page.get_by_role("button", name="Block red boots")
    expect(block).to_have_count(2)
    block.first.click()
    expect(page.locator("#admin-status")).to_contain_text("“red boots” is blocked")
    expect(page.locator(".column .text", has_text="red boots")).to_have_count(0)
    page.locator(".administration summary").click()
    expect(page.locator(".block")).to_have_count(0)
    page.close()


def test_a_wrong_key_is_reported(browser: Any, service: Any) -> None:
    page = browser.new_page()
    page.goto(service.url)
    page.locator(".administration summary").click()
    ask(page, "red boots", "wrong")
    expect(page.locator("#admin-status")).to_contain_text("X-Admin-Key")
    page.close()
