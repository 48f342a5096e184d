"""The visitor's own searches in <nextquery-box>: kept in the browser, shown, removed."""

import json
import time

import pytest
from playwright.sync_api import expect

from .widget_page import BOX, OPTIONS, Shop

pytestmark = pytest.mark.slow

WITH_HISTORY = BOX.replace("<nextquery-box ", "<nextquery-box history ")
OWN = "nextquery-box [data-own]"
KEPT = "JSON.parse(localStorage.getItem('nextquery-history'))"


def search(shop: Shop, query: str) -> None:
    """Search, and wait until the service has answered."""
    before = len(shop.bodies("/v1/suggest"))
    shop.page.locator("nextquery-box input").fill(query)
    with shop.page.expect_response("**/v1/suggest"):
        shop.page.keyboard.press("Enter")
    shop.wait_until(lambda: len(shop.bodies("/v1/suggest")) > before)


def own_texts(shop: Shop) -> list[str]:
    script = "all => all.map(one => one.querySelector('bdi').textContent)"
    return [str(text) for text in shop.page.eval_on_selector_all(OWN, script)]


def test_nothing_is_kept_or_sent_unless_the_attribute_is_set(shop: Shop) -> None:
    shop.open()
    search(shop, "red wine")
    search(shop, "red shoes")
    assert shop.page.evaluate("localStorage.length") == 0
    assert all("history" not in body for body in shop.bodies("/v1/suggest"))
    assert shop.page.evaluate("document.querySelector('nextquery-box').history") is None


def test_own_searches_are_sent_and_shown_but_not_in_feedback(shop: Shop) -> None:
    shop.open(WITH_HISTORY)
    search(shop, "Red  Wine")
    search(shop, "red shoes")
    first, second = shop.bodies("/v1/suggest")
    assert first["history"] == []  # the search itself is not its own past
    [past] = second["history"]
    assert (past["query"], past["count"]) == ("red wine", 1)
    assert abs(past["time"] - time.time()) < 300
    expect(shop.page.locator(OWN)).to_have_count(1)
    assert own_texts(shop) == ["red wine"]
    assert shop.texts()[0] == "red boots"  # the list itself comes first, as without a history
    clock = "e => getComputedStyle(e, '::before').borderRadius"
    assert shop.page.locator(OWN).evaluate(clock) == "50%"
    shop.page.locator(OWN).locator("bdi").click()
    shop.wait_until(lambda: len(shop.bodies("/v1/suggest")) == 3)
    assert shop.page.evaluate("searches").pop()["taken"]["kind"] == "again"
    shop.wait_until(lambda: len(shop.bodies("/v1/feedback")) >= 2)
    told = json.dumps(
        [body for body in shop.bodies("/v1/feedback") if body["query"] == "red shoes"]
    )
    assert "red boots" in told
    assert "wine" not in told
    counts = {entry["query"]: entry["count"] for entry in shop.page.evaluate(KEPT)}
    assert counts == {"red wine": 2, "red shoes": 1}
    again = shop.bodies("/v1/suggest").pop()
    assert {entry["query"]: entry["count"] for entry in again["history"]} == {
        "red wine": 1,
        "red shoes": 1,
    }


def test_completions_begin_with_own_searches(shop: Shop) -> None:
    shop.open(WITH_HISTORY)
    search(shop, "red zebra")
    shop.page.locator("nextquery-box input").fill("")
    shop.type("red")
    shop.page.wait_for_selector(OWN)
    assert own_texts(shop) == ["red zebra"]
    texts = shop.texts()
    assert texts[0].startswith("red zebra")
    assert texts[-1] == "Clear history"
    assert len(texts) > 2, "completions of the log follow"


def test_single_searches_and_all_can_be_removed(shop: Shop) -> None:
    shop.open(WITH_HISTORY)
    for query in ("red wine", "green tea", "blue cheese", "red shoes"):
        search(shop, query)
    expect(shop.page.locator(OWN)).to_have_count(3)
    first, second, _ = own_texts(shop)
    shop.page.locator(f"{OWN} [data-remove]").first.click()
    expect(shop.page.locator(OWN)).to_have_count(2)
    assert first not in {entry["query"] for entry in shop.page.evaluate(KEPT)}
    box = shop.page.locator("nextquery-box input")
    for _ in range(shop.texts().index(next(t for t in shop.texts() if t.startswith(second))) + 1):
        box.press("ArrowDown")
    box.press("Delete")
    expect(shop.page.locator(OWN)).to_have_count(1)
    assert second not in {entry["query"] for entry in shop.page.evaluate(KEPT)}
    assert box.input_value() == "red shoes"
    shop.page.locator(OPTIONS).last.click()
    expect(shop.page.locator(OWN)).to_have_count(0)
    assert shop.page.evaluate("localStorage.length") == 0
    assert "Clear history" not in shop.texts()
    assert "red boots" in shop.texts()


def test_old_searches_expire_and_200_are_kept(shop: Shop) -> None:
    shop.open(WITH_HISTORY.replace("history ", "history history-days='7' "))
    now = time.time()
    entries = [
        {"query": "old", "time": now - 8 * 86400, "count": 1},
        {"query": "recent", "time": now - 6 * 86400, "count": 2},
        {"query": 5, "time": "altered"},
        None,
    ]
    shop.page.evaluate(
        "kept => localStorage.setItem('nextquery-history', kept)", json.dumps(entries)
    )
    search(shop, "red shoes")
    assert [entry["query"] for entry in shop.bodies("/v1/suggest")[0]["history"]] == ["recent"]
    shop.page.evaluate(
        "const kept = document.querySelector('nextquery-box').history;"
        "for (let n = 0; n < 250; n++) kept.add(`query ${n}`);"
    )
    kept = shop.page.evaluate(KEPT)
    assert (len(kept), kept[0]["query"], kept[-1]["query"]) == (200, "query 249", "query 50")
    search(shop, "paris")
    assert len(shop.bodies("/v1/suggest").pop()["history"]) == 199
    expect(shop.page.locator(OWN)).to_have_count(3)


def test_a_browser_that_refuses_storage_keeps_nothing(shop: Shop) -> None:
    shop.page.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no'); }});"
    )
    shop.open(WITH_HISTORY)
    search(shop, "red wine")
    search(shop, "red shoes")
    assert [body["history"] for body in shop.bodies("/v1/suggest")] == [[], []]
    shop.page.wait_for_selector(OPTIONS)
    assert "red boots" in shop.texts()


def test_the_attribute_can_come_and_go(shop: Shop) -> None:
    shop.open()
    search(shop, "red wine")
    shop.page.evaluate("document.querySelector('nextquery-box').setAttribute('history', '')")
    shop.wait_until(
        lambda: shop.page.evaluate("document.querySelector('nextquery-box').history !== null")
    )
    search(shop, "green tea")
    assert [entry["query"] for entry in shop.page.evaluate(KEPT)] == ["green tea"]
    shop.page.evaluate("document.querySelector('nextquery-box').removeAttribute('history')")
    search(shop, "red shoes")
    assert "history" not in shop.bodies("/v1/suggest").pop()
    assert [entry["query"] for entry in shop.page.evaluate(KEPT)] == ["green tea"]


def test_a_search_that_leads_to_another_page_is_kept(shop: Shop) -> None:
    shop.open(WITH_HISTORY, query="?plain")
    shop.page.route("**/found*", lambda route: route.fulfill(body="found"))
    shop.page.locator("nextquery-box input").fill("red wine")
    shop.page.keyboard.press("Enter")
    shop.page.wait_for_url("**/found*")
    assert [entry["query"] for entry in shop.page.evaluate(KEPT)] == ["red wine"]
    shop.open(WITH_HISTORY.replace("history ", "history query='red wine' "))
    shop.wait_until(lambda: len(shop.bodies("/v1/suggest")) == 1)
    assert shop.bodies("/v1/suggest")[0]["history"] == []
    assert [entry["count"] for entry in shop.page.evaluate(KEPT)] == [1]


def test_axe_finds_no_barrier(shop: Shop) -> None:
    from axe_playwright_python.sync_playwright import Axe

    shop.page.route(
        "**/shop", lambda route: route.fulfill(body=_PLAIN_PAGE, content_type="text/html")
    )
    shop.page.goto(f"{shop.url}/shop")
    shop.page.wait_for_selector("nextquery-box [role=listbox]", state="attached")
    search(shop, "red wine")
    search(shop, "red shoes")
    shop.page.wait_for_selector(OWN)
    result = Axe().run(shop.page)
    assert result.response["violations"] == [], result.generate_report()


_PLAIN_PAGE = f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Shop</title>
<link rel="icon" href="/static/icon.svg">
<script type="module" src="/widget/index.js"></script></head>
<body><main><h1>Shop</h1><form onsubmit="return false">{WITH_HISTORY}</form></main></body></html>"""
