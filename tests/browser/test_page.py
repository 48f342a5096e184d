"""The demonstration page in a real browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def service(browser: Any, start_service: Any, served_models: dict[str, Path]) -> Any:
    """Three models, so that they can be compared."""
    return start_service(
        served_models["hred"],
        *("--compare", f"adj={served_models['adjacency']}"),
        *("--compare", f"pop={served_models['popularity']}"),
        *("--budget-ms", "20000", "--queue-size", "100"),
    )


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
    page.wait_for_selector("#search-list [role=option]")
    assert page.get_attribute("#search", "aria-expanded") == "true"
    page.keyboard.press("ArrowDown")
    assert page.get_attribute("#search", "aria-activedescendant") == "search-list-0"
    chosen = page.locator("#search-list-0").inner_text()
    page.keyboard.press("Enter")
    assert chips(page) == [chosen]
    page.keyboard.type("red")
    page.wait_for_selector("#search-list [role=option]")
    page.keyboard.press("Escape")
    assert page.locator("#search-list").is_hidden()
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
    for name, value, shown in (("diversity", 0.8, "0.8"), ("specificity", 0.5, "0.50")):
        sent = f'"{name}":{value}'
        with page.expect_request(lambda request, sent=sent: sent in (request.post_data or "")):
            page.locator(f"#{name}").fill(str(value))
            page.locator(f"#{name}").dispatch_event("change")
        assert page.locator(f"#{name}-value").inner_text() == shown


def test_settings_that_were_not_chosen_are_not_sent(page: Any, service: Any) -> None:
    open_page(page, service)
    with page.expect_request("**/v1/suggest") as asked:
        add(page, "red shoes")
    assert {"specificity", "known"}.isdisjoint(asked.value.post_data_json)
    assert page.locator("#specificity-value").inner_text() == "auto"
    with page.expect_request("**/v1/suggest") as asked:
        page.select_option("#known", "only")
    assert asked.value.post_data_json["known"] == "only"


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
    violations = Axe().run(page).response["violations"]
    add(page, "red shoes")
    add(page, "paris")
    page.check("#compare")
    expect(page.locator(".column")).to_have_count(3)
    page.locator("#search").press_sequentially("par")
    page.wait_for_selector("#search-list [role=option]")
    page.keyboard.press("ArrowDown")
    violations += Axe().run(page).response["violations"]
    assert [(item["id"], [node["html"] for node in item["nodes"]]) for item in violations] == []


def test_the_documentation_works_offline(page: Any, service: Any) -> None:
    page.goto(service.url + "/docs")
    page.wait_for_selector(".opblock")
    assert page.locator(".opblock").count() >= 10


def test_an_old_list_is_not_shown_for_a_new_query_when_the_service_is_slow(
    page: Any, service: Any
) -> None:
    open_page(page, service)
    page.select_option("#model", "adj")
    add(page, "red shoes")
    expect(page.locator(".column .text").first).to_have_text("red boots")
    held: list[Any] = []
    page.route("**/v1/suggest", lambda route: held.append(route))
    page.fill("#search", "paris")
    page.press("#search", "Enter")
    expect(page.locator(".notice")).to_contain_text("The service is slow.")
    expect(page.locator(".column")).to_have_count(0)
    held[0].continue_()
    expect(page.locator(".column .text").first).to_be_visible()
    expect(page.locator(".notice")).to_have_count(0)


@pytest.fixture
def lost(browser: Any, service: Any) -> Iterator[Any]:
    """A page whose network fails when the test says so; the browser logs that, rightly."""
    context = browser.new_context()
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    context.close()
    assert errors == []


def test_an_unreachable_service_is_reported_and_retried(lost: Any, service: Any) -> None:
    open_page(lost, service)
    lost.select_option("#model", "adj")
    add(lost, "red shoes")
    lost.route("**/v1/**", lambda route: route.abort())
    lost.fill("#search", "paris")
    lost.press("#search", "Enter")
    expect(lost.locator(".notice")).to_contain_text("cannot be reached")
    expect(lost.locator(".notice")).to_contain_text("tries again by itself")
    expect(lost.locator("#status")).to_contain_text("cannot be reached")
    expect(lost.locator(".column")).to_have_count(0)
    lost.unroute("**/v1/**")
    expect(lost.locator(".column .text").first).to_be_visible(timeout=60_000)
    assert chips(lost) == ["red shoes", "paris"]


def test_trying_again_is_one_click(lost: Any, service: Any) -> None:
    busy = {"title": "busy", "status": 503, "detail": "The model has too much to do."}
    headers = {"Retry-After": "30"}
    lost.route("**/v1/suggest", lambda r: r.fulfill(status=503, json=busy, headers=headers))
    lost.goto(service.url)
    expect(lost.locator(".notice")).to_contain_text("The model has too much to do.")
    lost.unroute("**/v1/suggest")
    lost.get_by_role("button", name="Try again").click()
    expect(lost.locator(".column .text").first).to_be_visible()


def test_a_page_opened_without_a_service_starts_when_it_comes(lost: Any, service: Any) -> None:
    lost.route("**/v1/**", lambda route: route.abort())
    lost.goto(service.url)
    expect(lost.locator(".notice")).to_contain_text("cannot be reached")
    lost.fill("#search", "red shoes")
    lost.press("#search", "Enter")
    lost.unroute("**/v1/**")
    expect(lost.locator(".column .text").first).to_be_visible(timeout=60_000)
    assert chips(lost) == ["red shoes"]


def test_gates_that_do_not_come_leave_the_list_alone(lost: Any, service: Any) -> None:
    lost.route("**/v1/explain", lambda route: route.abort())
    open_page(lost, service)
    add(lost, "red shoes")
    expect(lost.locator(".column .text").first).to_be_visible()
    expect(lost.locator(".gauge")).to_have_count(0)


def test_a_refusal_is_shown_and_not_retried(lost: Any, service: Any) -> None:
    asked: list[str] = []

    def refuse(route: Any) -> None:
        asked.append(route.request.url)
        route.fulfill(status=422, json={"detail": "query: too long"})

    open_page(lost, service)
    lost.route("**/v1/suggest", refuse)
    lost.fill("#search", "red shoes")
    lost.press("#search", "Enter")
    expect(lost.locator(".notice")).to_contain_text("query: too long")
    lost.wait_for_timeout(1500)
    assert len(asked) == 1


@pytest.mark.parametrize("width", [320, 390])
def test_long_chips_and_names_fit_a_phone(page: Any, service: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    name = "a-model-with-a-very-long-name-" * 3

    def rename(route: Any) -> None:
        answer = route.fetch().json()
        answer["models"][1]["name"] = name
        route.fulfill(json=answer)

    page.route("**/v1/models", rename)
    open_page(page, service)
    for query in ("w" * 200, "cheap flights from paris to rome in the summer", "y" * 90):
        add(page, query)
    expect(page.locator(".gauge")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    inside = "all => all.every(one => one.getBoundingClientRect().right <= innerWidth)"
    assert page.eval_on_selector_all(".chip, .chip *, .controls *", inside)


def test_why_a_suggestion_has_its_rank(page: Any, service: Any) -> None:
    open_page(page, service)
    page.select_option("#model", "adj")
    add(page, "red shoes")
    expect(page.locator(".why")).to_have_count(0)
    page.check("#why")
    why = page.locator(".column li", has_text="red boots").locator(".why")
    # This count model's list is not ranked by what the session adds, so it has no likelihoods.
    expect(why.first).to_contain_text("ranked by likelihood alone")
    expect(why.last).to_contain_text("guard: nothing blocked in it")
    page.check("#compare")
    expect(page.locator(".column:nth-child(2) .why").first).to_be_visible()
    # A long name leaves the time next to it in one line.
    time = page.locator(".column h3 small").first
    height = time.bounding_box()["height"]
    time.evaluate("one => { one.parentNode.firstChild.textContent = 'a long name '.repeat(20); }")
    assert time.bounding_box()["height"] == height


def test_groups_have_headings_and_keep_the_ranks(page: Any, service: Any) -> None:
    def group(route: Any) -> None:
        answer = route.fetch().json()
        for index, item in enumerate(answer["suggestions"]):
            item["group"] = ("Refine", "Next step")[index % 2]
        route.fulfill(json=answer)

    page.route("**/v1/suggest", group)
    open_page(page, service)
    page.select_option("#model", "adj")
    add(page, "red shoes")
    expect(page.locator(".column .group")).to_have_text(["Refine", "Next step"])
    # The list of the model that was chosen before may come first.
    expect(page.locator(".column ol").first).to_have_attribute(
        "aria-label", "Suggestions of adj: Refine"
    )
    ranks = page.locator(".column ol:last-child .rank").all_inner_texts()
    assert ranks[0] == "2"


def test_bars_of_logarithms_above_zero_are_relative_likelihoods(page: Any, service: Any) -> None:
    def score(route: Any) -> None:
        answer = route.fetch().json()
        for index, item in enumerate(answer["suggestions"]):
            item["score"] = 3.0 - index
        route.fulfill(json=answer)

    page.route("**/v1/suggest", score)
    open_page(page, service)
    page.select_option("#model", "adj")
    add(page, "red shoes")
    expect(page.locator(".column .number").nth(1)).to_have_text("2.00")
    share = "one => Number(one.style.getPropertyValue('--share'))"
    assert page.locator(".column .fill").nth(1).evaluate(share) == pytest.approx(0.3679, abs=1e-3)
