"""<nextquery-box> and its client when the service is slow, away or busy; phones; visits."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from .widget_page import BOX, OPTIONS, Shop

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(browser: Any, service: Any) -> Iterator[Shop]:
    """On a phone; failing requests are logged by the browser, so only script errors count."""
    context = browser.new_context(viewport={"width": 320, "height": 640}, has_touch=True)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield Shop(page, service.url)
    context.close()
    assert errors == []


def client(shop: Shop, script: str, patience_ms: int = 60_000) -> Any:
    """Run a script with a `client` of its own; the page around it has no box to interfere."""
    head = "const { NextqueryClient } = await import('/widget/client.js'); "
    catch = "const outcome = (call) => call.then(() => 'ok', (e) => e.status ?? e.name);"
    made = f"const client = new NextqueryClient({{ session: null, timeoutMs: {patience_ms} }});"
    return shop.page.evaluate(f"async () => {{ {head} {catch} {made} {script} }}")


def test_touch_on_a_small_screen(shop: Shop) -> None:
    shop.open()
    shop.type("red")
    shop.page.wait_for_selector(OPTIONS)
    assert shop.page.evaluate("document.documentElement.scrollWidth") <= 320
    height = shop.page.locator(OPTIONS).first.bounding_box()["height"]
    assert height >= 44
    text = shop.texts()[0]
    shop.page.locator(OPTIONS).first.tap()
    assert shop.page.evaluate("searches[0].taken.text") == text
    assert shop.page.evaluate("document.activeElement.name") == "q"


def test_long_texts_do_not_widen_a_phone(shop: Shop) -> None:
    shop.say([{"text": "x" * 300, "group": "g" * 300}, {"text": "word " * 80}])
    shop.open()
    shop.type("x")
    shop.page.wait_for_selector(OPTIONS)
    assert shop.page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize("direction", ["ltr", "rtl"])
def test_an_input_as_wide_as_the_screen_stays_so(shop: Shop, direction: str) -> None:
    style = (
        "input { box-sizing: border-box; width: 100% } body { margin: 0 }"
        "nextquery-box { --nextquery-gap: 0; --nextquery-shadow: none }"
    )
    shop.open(BOX, direction, style=style)
    shop.type("red")
    shop.page.wait_for_selector(OPTIONS)
    assert shop.page.evaluate("document.documentElement.scrollWidth") <= 320
    sides = "one => [one.getBoundingClientRect().left, one.getBoundingClientRect().right]"
    assert shop.page.locator("[role=listbox]").evaluate(sides) == [0, 320]


def test_a_slow_service_shows_nothing_and_does_not_get_in_the_way(shop: Shop) -> None:
    shop.open(BOX.replace("feedback", "timeout='300'"))
    shop.page.route("**/v1/complete", lambda route: None, times=1)
    failed: list[Any] = []
    shop.page.on("requestfailed", lambda request: failed.append(request))
    shop.type("red")
    shop.wait_until(lambda: bool(failed))
    expect(shop.page.locator(OPTIONS)).to_have_count(0)
    assert shop.page.get_attribute("nextquery-box input", "aria-expanded") == "false"
    shop.type(" ")
    shop.page.wait_for_selector(OPTIONS)


def test_a_dead_service_costs_few_requests_and_nothing_else(shop: Shop) -> None:
    shop.page.clock.install()
    shop.open(BOX.replace("feedback", "delay='0'"))
    shop.page.route("**/v1/**", lambda route: route.abort())
    failed: list[Any] = []
    shop.page.on("requestfailed", lambda request: failed.append(request))
    shop.page.clock.pause_at(shop.page.evaluate("Date.now()") + 1)
    for letter in "a query of many letters":
        shop.type(letter)
        shop.page.clock.run_for(20)
        shop.wait_until(lambda: len(failed) == len(shop.bodies("/v1/complete")))
    assert len(shop.bodies("/v1/complete")) <= 4
    expect(shop.page.locator(OPTIONS)).to_have_count(0)
    shop.page.keyboard.press("Enter")
    assert shop.page.evaluate("searches.length") == 1


def test_suggestions_are_retried_once_and_completions_are_not(shop: Shop) -> None:
    shop.open()
    shop.page.route("**/v1/**", lambda route: route.abort())
    script = "return [await outcome(client.suggest('a')), await outcome(client.complete('a'))];"
    assert client(shop, script) == [0, 0]
    assert len(shop.bodies("/v1/suggest")) == 2
    assert len(shop.bodies("/v1/complete")) == 1


def test_one_lost_request_is_retried(shop: Shop) -> None:
    shop.open()
    shop.page.route("**/v1/suggest", lambda route: route.abort(), times=1)
    assert client(shop, "return outcome(client.suggest('red shoes'));") == "ok"


def test_the_client_waits_as_long_as_retry_after_says(shop: Shop) -> None:
    shop.open()
    shop.page.clock.install()
    busy = {"detail": "busy"}
    shop.page.route(
        "**/v1/suggest",
        lambda route: route.fulfill(status=503, json=busy, headers={"Retry-After": "7"}),
        times=1,
    )
    keep = "window.client = client; return outcome(client.suggest('red shoes'));"
    assert client(shop, keep) == 503
    again = "window.client.suggest('red shoes').then(() => 'ok', (e) => [e.status, e.temporary])"
    assert shop.page.evaluate(again) == [503, True]
    assert len(shop.bodies("/v1/suggest")) == 1
    shop.page.clock.fast_forward(7100)
    assert shop.page.evaluate(again) == "ok"


def test_a_cancelled_call_is_not_a_failure(shop: Shop) -> None:
    shop.open()
    script = """
      for (let n = 0; n < 5; n += 1) {
        const stop = new AbortController();
        const call = outcome(client.suggest("red shoes", { signal: stop.signal }));
        stop.abort();
        if ((await call) !== "AbortError") return "not taken back";
      }
      return outcome(client.suggest("red shoes"));"""
    assert client(shop, script) == "ok"


def test_a_slow_answer_is_cancelled(shop: Shop) -> None:
    shop.open()
    shop.page.route("**/v1/complete", lambda route: None)
    script = "return client.complete('a').catch((e) => [e.status, e.message]);"
    assert client(shop, script, 400) == [0, "The service does not answer in time."]


def test_a_session_ends_as_on_the_server_and_is_per_tab(shop: Shop) -> None:
    shop.page.clock.install()
    shop.open()
    script = """async () => {
      const { Session } = await import("/widget/client.js");
      const session = new Session({ idleMinutes: 30 });
      return [session.id, session.queries];
    }"""
    shop.page.evaluate(
        "async () => { const { Session } = await import('/widget/client.js');"
        " const visit = new Session(); visit.add('red shoes'); visit.add('red shoes'); }"
    )
    first, queries = shop.page.evaluate(script)
    assert queries == ["red shoes"]
    shop.page.clock.fast_forward("29:00")
    assert shop.page.evaluate(script) == [first, ["red shoes"]]
    other = shop.page.context.new_page()
    elsewhere = Shop(other, shop.url)
    elsewhere.open()
    assert other.evaluate(script)[0] != first
    shop.page.clock.fast_forward("01:01")
    again, queries = shop.page.evaluate(script)
    assert again != first
    assert queries == []


def test_every_request_has_the_session(shop: Shop) -> None:
    shop.open()
    for query in ("red shoes", "red boots"):
        shop.page.locator("nextquery-box input").fill(query)
        with shop.page.expect_response("**/v1/suggest"):
            shop.page.keyboard.press("Enter")
    first, second = shop.bodies("/v1/suggest")
    assert first["session_id"] == second["session_id"]
    assert (first["context"], second["context"]) == ([], ["red shoes"])


def test_altered_or_forbidden_storage_is_no_error(shop: Shop) -> None:
    shop.page.add_init_script(
        "sessionStorage.setItem('nextquery-session', '{\"id\": 5');"
        "Storage.prototype.setItem = () => { throw new Error('full'); };"
    )
    shop.open()
    shop.type("red shoes")
    shop.page.keyboard.press("Enter")
    shop.page.wait_for_selector(OPTIONS)
    assert len(shop.bodies("/v1/suggest")[0]["session_id"]) > 15
