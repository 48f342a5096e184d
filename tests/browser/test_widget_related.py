"""<nextquery-related>, headings and corrections in Chromium, with a real service."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model

from .widget_page import BOX, OPTIONS, Shop

pytestmark = pytest.mark.slow

SESSIONS = [
    *[(f"a{n}", ["television stand", "television stand oak", "wall mount"]) for n in range(20)],
    *[(f"b{n}", ["television stand", "stand for speakers", "wall mount"]) for n in range(12)],
    *[(f"c{n}", ["television stand", "wall mount", "screws"]) for n in range(8)],
]
RELATED = (
    "<nextquery-related feedback timeout='60000' query='television stand' "
    f"href='/found?q={{query}}&s=1'></nextquery-related>{BOX}"
)
LINKS = "nextquery-related li a"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("related")


@pytest.fixture(scope="module")
def service(browser: Any, folder: Path, prepared: Any, tiny_log: Any, start_service: Any) -> Any:
    data = prepared(tiny_log(SESSIONS, min_users=3, spelling=True))
    fit_model(Adjacency, data).save(folder / "model")
    return start_service(folder / "model", "--feedback", folder / "feedback")


def _set(shop: Shop, selector: str, **attributes: str) -> None:
    script = "([selector, all]) => { for (const name in all) document.querySelector(selector)"
    names = {name.replace("_", "-"): value for name, value in attributes.items()}
    shop.page.evaluate(f"{script}.setAttribute(name, all[name]) }}", [selector, names])


def test_related_searches_are_links(shop: Shop) -> None:
    shop.open(RELATED)
    first = shop.page.locator(LINKS).first
    expect(first).to_have_text("television stand oak")
    assert first.get_attribute("href") == f"{shop.url}/found?q=television%20stand%20oak&s=1"
    expect(shop.page.get_by_role("navigation", name="Related searches")).to_be_visible()
    expect(shop.page.locator("nextquery-related h2")).to_have_text("Related searches")
    shown = shop.bodies("/v1/feedback")[0]
    assert shown["action"] == "shown"
    assert len(shown["suggestions"]) == shop.page.locator(LINKS).count() == 3


def test_headings_are_translated_or_left_out(shop: Shop) -> None:
    shop.open(RELATED)
    expect(shop.page.locator(LINKS).first).to_be_visible()
    _set(shop, "nextquery-related", heading="Ähnliche Suchen")
    expect(shop.page.locator("nextquery-related h2")).to_have_text("Ähnliche Suchen")
    _set(shop, "nextquery-related", heading="")
    expect(shop.page.locator("nextquery-related h2")).to_have_count(0)
    expect(shop.page.locator(LINKS)).to_have_count(3)


def test_another_query_brings_its_own_searches(shop: Shop) -> None:
    shop.open(RELATED)
    expect(shop.page.locator(LINKS).first).to_be_visible()
    _set(shop, "nextquery-related", query="wall mount")
    expect(shop.page.locator(LINKS)).to_have_text(["screws"])
    _set(shop, "nextquery-related", query="nobody typed this")
    expect(shop.page.locator("nextquery-related > *")).to_have_count(0)


def test_a_page_may_search_by_itself(shop: Shop) -> None:
    shop.open(RELATED)
    listen = "document.addEventListener('nextquery-search', (event) => event.preventDefault())"
    shop.page.evaluate(listen)
    shop.page.locator(LINKS).nth(1).click()
    [search] = shop.page.evaluate("searches")
    assert search["taken"]["kind"] == "suggestions"
    assert search["taken"]["position"] == 2
    assert "/shop" in shop.page.url
    shop.wait_until(lambda: len(shop.bodies("/v1/feedback")) == 2)
    clicked = shop.bodies("/v1/feedback")[1]
    assert (clicked["action"], clicked["suggestion"]) == ("clicked", search["query"])


def test_the_block_and_the_box_show_the_corrected_query(shop: Shop) -> None:
    shop.open(RELATED.replace("query='television stand'", "query='televsion stand'"))
    meant = shop.page.locator("nextquery-related p")
    expect(meant).to_have_text("Did you mean: television stand")
    expect(shop.page.locator(LINKS).first).to_have_text("television stand oak")
    _set(shop, "nextquery-related", did_you_mean_label="Meinten Sie")
    expect(meant).to_have_text("Meinten Sie: television stand")

    shop.type("televsion stand")
    shop.page.keyboard.press("Enter")
    expect(shop.page.locator("nextquery-box [role=group]").first).to_have_attribute(
        "aria-label", "Did you mean"
    )
    assert shop.texts()[0] == "television stand"
    shop.page.locator(OPTIONS).nth(1).click()
    shop.wait_until(lambda: any(event["action"] == "clicked" for event in _feedback(shop)))
    clicked = next(event for event in _feedback(shop) if event["action"] == "clicked")
    assert clicked["position"] == 1  # of the suggestions: the correction is none
    shown = next(event for event in _feedback(shop) if event["query"] == "televsion stand")
    assert "television stand" not in shown["suggestions"]


def _feedback(shop: Shop) -> list[Any]:
    return shop.bodies("/v1/feedback")


def test_a_correction_is_searched_for(shop: Shop) -> None:
    shop.open()
    shop.type("televsion stand")
    shop.page.keyboard.press("Enter")
    shop.page.locator(OPTIONS).first.click()
    shop.wait_until(lambda: len(shop.page.evaluate("searches")) == 2)
    taken = {"kind": "corrected", "text": "television stand", "position": 1}
    assert shop.page.evaluate("searches")[1] == {"query": "television stand", "taken": taken}


def test_headings_of_the_box(shop: Shop) -> None:
    shop.open(BOX.replace("<nextquery-box", "<nextquery-box next-step-label='Weiter'"))
    shop.type("television stand")
    shop.page.keyboard.press("Enter")
    groups = shop.page.locator("nextquery-box [role=group]")
    expect(groups.first).to_be_visible()
    names = [group.get_attribute("aria-label") for group in groups.all()]
    assert "Weiter" in names
    assert "refine" in names  # not translated
    texts = shop.texts()
    shop.page.keyboard.press("Escape")
    _set(shop, "nextquery-box", headings="off")
    shop.page.keyboard.press("Enter")
    expect(shop.page.locator(OPTIONS)).to_have_count(len(texts))
    expect(groups).to_have_count(0)


def test_no_completion_repeats_what_is_typed(shop: Shop) -> None:
    shop.open()
    shop.type("Television  stand")
    shop.page.wait_for_selector(OPTIONS)
    shop.wait_until(lambda: shop.texts() == ["television stand oak"])
    answers = [request for request in shop.asked if request.url.endswith("/v1/complete")]
    last = json.loads(answers[-1].response().text())
    assert "television stand" in [item["text"] for item in last["completions"]]


def test_the_demonstration_page_shows_the_corrected_query(page: Any, service: Any) -> None:
    page.goto(service.url)
    box = page.locator("#search")
    box.fill("televsion stand")
    box.press("Enter")
    meant = page.locator("#lists .meant")
    expect(meant).to_have_text("television stand")
    meant.click()
    expect(page.locator("#chips")).to_contain_text("television stand")
    expect(meant).to_have_count(0)
