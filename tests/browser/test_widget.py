"""<nextquery-box> on a shop's page, with a real service: what people do with it."""

from typing import Any

import pytest
from playwright.sync_api import expect

from .hostile_texts import hostile_texts
from .widget_page import BOX, OPTIONS, Shop

pytestmark = pytest.mark.slow

FOREIGN = "script,img,svg,iframe,a,style,form,object,video,x,math,template"


def test_completions_and_suggestions_by_keyboard(shop: Shop) -> None:
    shop.open()
    shop.type("red")
    shop.page.wait_for_selector(OPTIONS)
    box = shop.page.locator("nextquery-box input")
    assert box.get_attribute("role") == "combobox"
    assert box.get_attribute("aria-expanded") == "true"
    assert all(text.startswith("red") for text in shop.texts())
    first = shop.texts()[0]
    box.press("ArrowDown")
    active = box.get_attribute("aria-activedescendant")
    assert shop.page.locator(f"#{active}").get_attribute("aria-selected") == "true"
    box.press("ArrowUp")
    assert box.get_attribute("aria-activedescendant") is None
    box.press("ArrowDown")
    box.press("Enter")
    assert shop.page.evaluate("searches") == [
        {"query": first, "taken": {"kind": "completions", "text": first, "position": 1}}
    ]
    # After the search the same list shows what may come next.
    shop.page.wait_for_selector(OPTIONS)
    suggested = shop.texts()
    assert first not in suggested
    box.press("Escape")
    expect(shop.page.locator(OPTIONS)).to_have_count(0)
    assert box.get_attribute("aria-expanded") == "false"
    assert box.input_value() == first


def test_a_whole_query_is_searched_as_typed(shop: Shop) -> None:
    shop.open()
    shop.type("red shoes")
    shop.page.keyboard.press("Enter")
    shop.page.wait_for_selector(OPTIONS)
    assert shop.page.evaluate("searches") == [{"query": "red shoes", "taken": None}]
    assert "red boots" in shop.texts()
    shop.page.locator("button").focus()
    expect(shop.page.locator(OPTIONS)).to_have_count(0)
    shop.page.locator("nextquery-box input").focus()
    shop.page.wait_for_selector(OPTIONS)


def test_feedback_is_sent(shop: Shop) -> None:
    shop.open()
    shop.type("red shoes")
    shop.page.keyboard.press("Enter")
    shop.page.wait_for_selector(OPTIONS)
    second = shop.texts()[0]
    shop.page.locator(OPTIONS).first.click()
    shop.page.wait_for_selector(OPTIONS)
    with shop.page.expect_request(lambda r: '"dismissed"' in (r.post_data or "")):
        shop.page.keyboard.press("Escape")
    sent = shop.bodies("/v1/feedback")
    assert [event["action"] for event in sent] == ["shown", "clicked", "shown", "dismissed"]
    assert (sent[1]["suggestion"], sent[1]["position"]) == (second, 1)
    assert len({event["client_id"] for event in sent}) == 1


def test_a_page_that_navigates_does_not_wait_for_anything(shop: Shop) -> None:
    html = "<!doctype html><title>Found</title><h1>Found</h1>"
    shop.page.route("**/found*", lambda r: r.fulfill(body=html, content_type="text/html"))
    shop.page.route("**/v1/feedback", lambda route: None)  # never answered
    box = BOX.replace("feedback", "feedback query='red shoes'").replace(
        "<input", "<input value='red shoes'"
    )
    shop.open(box, query="?plain")
    shop.page.locator("nextquery-box input").focus()
    shop.page.wait_for_selector(OPTIONS)
    shop.page.locator(OPTIONS).first.click()
    expect(shop.page.locator("h1")).to_have_text("Found")
    assert shop.page.url.endswith("/found?q=red+boots")
    kept = shop.page.evaluate("JSON.parse(sessionStorage.getItem('nextquery-session')).queries")
    assert kept == ["red shoes", "red boots"]


def test_nothing_is_asked_while_a_word_is_composed(shop: Shop) -> None:
    shop.open()
    shop.page.locator("nextquery-box input").focus()
    keyboard = shop.page.context.new_cdp_session(shop.page)
    for text in ("r", "re", "red"):
        composition = {"text": text, "selectionStart": len(text), "selectionEnd": len(text)}
        keyboard.send("Input.imeSetComposition", composition)
    shop.page.wait_for_timeout(400)
    assert shop.bodies("/v1/complete") == []
    keyboard.send("Input.insertText", {"text": "red"})
    shop.page.wait_for_selector(OPTIONS)
    assert [body["prefix"] for body in shop.bodies("/v1/complete")] == ["red"]


def test_a_stale_answer_is_dropped(shop: Shop) -> None:
    shop.open()
    held: list[Any] = []
    shop.page.route("**/v1/complete", lambda route: held.append(route), times=1)
    shop.type("r")
    shop.wait_until(lambda: bool(held))
    shop.type("ed sh")
    shop.page.wait_for_selector(OPTIONS)
    assert len(held) == 1
    row = {"text": "r stale", "score": 0.0, "source": ""}
    held[0].fulfill(json={"completions": [row], "model": "m"})
    shop.page.wait_for_timeout(200)
    assert shop.texts() == ["red shoes"]


def test_an_old_list_goes_as_soon_as_it_does_not_fit(shop: Shop) -> None:
    shop.open()
    shop.type("red")
    shop.page.wait_for_selector(OPTIONS)
    shop.page.route("**/v1/complete", lambda route: None)
    shop.type("x")
    expect(shop.page.locator(OPTIONS)).to_have_count(0, timeout=30_000)  # it asks for 60 s


def test_groups_have_names_and_one_order_for_the_keys(shop: Shop) -> None:
    rows = [("a", "Refine"), ("b", "Related"), ("c", "Refine")]
    shop.say([{"text": text, "group": group} for text, group in rows])
    shop.open()
    shop.type("x")
    shop.page.wait_for_selector(OPTIONS)
    groups = shop.page.get_by_role("group")
    assert [groups.nth(n).get_attribute("aria-label") for n in (0, 1)] == ["Refine", "Related"]
    assert shop.texts() == ["a", "c", "b"]
    for _ in range(3):
        shop.page.keyboard.press("ArrowDown")
    shop.page.keyboard.press("Enter")
    assert shop.page.evaluate("searches[0].taken") == {
        "kind": "completions",
        "text": "b",
        "position": 3,
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_barrier(shop: Shop, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    # axe itself needs more than the page's policy allows; the names are what is looked at here.
    shop.page.emulate_media(color_scheme=scheme)
    rows = [("red a", "Refine"), ("red b", "Related")]
    shop.say([{"text": text, "group": group} for text, group in rows])
    shop.open()
    shop.type("red")
    shop.page.wait_for_selector(OPTIONS)
    shop.page.keyboard.press("ArrowDown")
    violations = Axe().run(shop.page).response["violations"]
    assert [(item["id"], [node["html"] for node in item["nodes"]]) for item in violations] == []
    snapshot = shop.page.locator("nextquery-box").aria_snapshot()
    assert 'combobox "Search"' in snapshot
    assert 'group "Refine"' in snapshot
    assert 'option "red a" [selected]' in snapshot


def test_right_to_left(shop: Shop) -> None:
    shop.say([{"text": "أحذية حمراء"}, {"text": "red shoes"}])
    shop.open(direction="rtl")
    shop.type("x")
    shop.page.wait_for_selector(OPTIONS)
    directions = "all => all.map(one => getComputedStyle(one).direction)"
    assert shop.page.eval_on_selector_all(f"{OPTIONS} bdi", directions) == ["rtl", "ltr"]
    # Both begin where the page's lines begin: on the right.
    ends = "all => all.map(one => one.getBoundingClientRect().right)"
    assert len(set(shop.page.eval_on_selector_all(f"{OPTIONS} bdi", ends))) == 1
    shop.page.keyboard.press("ArrowDown")
    shop.page.keyboard.press("Enter")
    assert shop.page.evaluate("searches[0].query") == "أحذية حمراء"


def test_hostile_texts_stay_text_under_a_strict_policy(shop: Shop) -> None:
    texts = hostile_texts()
    shop.say([{"text": text, "group": texts[n % 7]} for n, text in enumerate(texts)])
    shop.open(BOX.replace("feedback", ""))
    for action in ("<", "Enter"):
        shop.type(action) if action == "<" else shop.page.keyboard.press(action)
        shop.page.wait_for_selector(OPTIONS)
        assert sorted(shop.texts()) == sorted(texts)
        foreign = (
            "nextquery-box :is(script,img,svg,iframe,a,style,form,object,video,x,math,template)"
        )
        assert shop.page.locator(foreign).count() == 0
    assert shop.page.evaluate("window.pwned") is None


def test_the_policy_lets_the_style_in(shop: Shop) -> None:
    shop.open()
    shop.type("red")
    shop.page.wait_for_selector(OPTIONS)
    style = "getComputedStyle(document.querySelector('[role=listbox]')).position"
    assert shop.page.evaluate(style) == "absolute"


def test_removing_the_box_removes_its_list(shop: Shop) -> None:
    shop.open()
    script = """() => {
      const box = document.querySelector("nextquery-box"), input = box.querySelector("input");
      const place = box.parentNode;
      box.remove();
      const left = box.querySelectorAll("[role=listbox], [role=status]").length;
      place.prepend(box);
      return [left, box.querySelectorAll("[role=listbox]").length, input.isConnected];
    }"""
    assert shop.page.evaluate(script) == [0, 1, True]
    shop.type("red")
    shop.page.wait_for_selector(OPTIONS)
