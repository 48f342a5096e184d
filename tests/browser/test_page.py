"""The demonstration page in a real browser."""

from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.slow


def open_page(page: Any, service: Any) -> None:
    page.goto(service.url)
    page.wait_for_selector(".column li")


def add(page: Any, query: str) -> None:
    page.fill("#search", query)
    with page.expect_response("**/v1/suggest"):
        page.press("#search", "Enter")


def chips(page: Any) -> list[str]:
    return [str(text) for text in page.locator(".chip .text").all_inner_texts()]


def suggestions(page: Any) -> list[str]:
    return [str(text) for text in page.locator(".column .text").all_inner_texts()]


def test_queries_join_the_session_with_bars_and_can_be_removed(page: Any, service: Any) -> None:
    open_page(page, service)
    add(page, "red shoes")
    add(page, "paris")
    page.wait_for_selector(".chip:nth-child(2) .gauge")
    assert chips(page) == ["red shoes", "paris"]
    assert page.locator(".gauge .bar").count() == 2
    percents = [int(text[:-1]) for text in page.locator(".gauge .percent").all_inner_texts()]
    assert sum(percents) in (99, 100, 101)
    assert page.locator(".source").count() > 0
    assert page.locator(".score .number").first.inner_text().startswith("−")
    with page.expect_response("**/v1/suggest"):
        page.get_by_role("button", name="Remove red shoes").click()
    assert chips(page) == ["paris"]


def test_a_page_opened_too_early_waits_for_the_model(page: Any, service: Any) -> None:
    early = {"models": [], "feedback": False}
    page.route("**/v1/models", lambda route: route.fulfill(json=early), times=1)
    page.goto(service.url)
    expect(page.locator("#status")).to_have_text("The model is being loaded.")
    page.wait_for_selector(".column li")


def test_a_suggestion_joins_the_session_when_taken(page: Any, service: Any) -> None:
    open_page(page, service)
    page.select_option("#model", "adj")
    add(page, "red shoes")
    expect(page.locator(".column .text").first).to_have_text("red boots")
    page.locator(".column button").first.click()
    expect(page.locator(".column .text").first).to_have_text("leather boots")
    assert chips(page) == ["red shoes", "red boots"]


def test_everything_by_keyboard(page: Any, service: Any) -> None:
    open_page(page, service)
    page.select_option("#model", "adj")
    page.locator("#theme").focus()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("paris")
    page.wait_for_selector("#completions li")
    assert page.get_attribute("#search", "aria-expanded") == "true"
    page.keyboard.press("ArrowDown")
    assert page.get_attribute("#search", "aria-activedescendant") == "completion-0"
    chosen = page.locator("#completion-0").inner_text()
    page.keyboard.press("Enter")
    assert chips(page) == [chosen]
    page.keyboard.type("red")
    page.wait_for_selector("#completions li")
    page.keyboard.press("Escape")
    assert page.locator("#completions").is_hidden()
    page.keyboard.press("Escape")
    with page.expect_response("**/v1/suggest"):  # the list of the emptied session
        page.keyboard.press("Backspace")
    expect(page.locator(".chip")).to_have_count(0)
    expect(page.locator(".column button").nth(1)).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    second = page.evaluate("document.activeElement.dataset.text")
    assert second == suggestions(page)[1]
    page.keyboard.press("Enter")
    page.wait_for_selector(".chip")
    assert chips(page) == [second]


def test_models_side_by_side_and_diversity(page: Any, service: Any) -> None:
    open_page(page, service)
    add(page, "red shoes")
    page.check("#compare")
    expect(page.locator(".column")).to_have_count(3)
    assert [text.split("\n")[0] for text in page.locator(".column h3").all_inner_texts()] == [
        "hred",
        "adj",
        "pop",
    ]
    with page.expect_response("**/v1/suggest") as answer:
        page.locator("#diversity").fill("0.8")
        page.locator("#diversity").dispatch_event("change")
    assert answer.value.request.post_data_json["diversity"] == 0.8
    assert page.locator("#diversity-value").inner_text() == "0.8"


def test_theme_is_remembered(page: Any, service: Any) -> None:
    def background() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    open_page(page, service)
    light = background()
    page.click("#theme")
    page.click("#theme")
    assert page.locator("#theme").inner_text() == "Theme: dark"
    assert background() != light
    page.reload()
    page.wait_for_selector(".column")
    assert page.locator("#theme").inner_text() == "Theme: dark"


@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_overflows_a_small_screen(page: Any, service: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    open_page(page, service)
    add(page, "paris hotels " + "x" * 300)
    page.check("#compare")
    expect(page.locator(".column")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_barrier(page: Any, service: Any, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    open_page(page, service)
    found = Axe().run(page).response["violations"]
    add(page, "red shoes")
    add(page, "paris")
    page.check("#compare")
    expect(page.locator(".column")).to_have_count(3)
    page.locator("#search").press_sequentially("par")
    page.wait_for_selector("#completions li")
    page.keyboard.press("ArrowDown")
    found += Axe().run(page).response["violations"]
    assert [(item["id"], [node["html"] for node in item["nodes"]]) for item in found] == []


def test_the_documentation_works_offline(page: Any, service: Any) -> None:
    page.goto(service.url + "/docs")
    page.wait_for_selector(".opblock")
    assert page.locator(".opblock").count() >= 10
