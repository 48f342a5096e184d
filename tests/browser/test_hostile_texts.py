"""200 hostile texts, wherever the page shows text, must stay text."""

import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from .hostile_texts import hostile_texts

pytestmark = pytest.mark.slow


def answers(texts: list[str]) -> dict[str, Any]:
    """What a service would say if its models said such things."""
    items = [{"text": text, "score": -float(n), "source": text} for n, text in enumerate(texts)]
    weights = [{"text": text, "update": 0.5, "share": 0.5} for text in texts]
    model = {"name": texts[0], "kind": texts[0], "explains": True, "version": "1"}
    more = {"model": texts[0]}
    return {
        "/v1/models": {"models": [model], "feedback": False},
        "/v1/suggest": {"suggestions": items, "fallback": True, "query_id": "1", **more},
        "/v1/complete": {"completions": items, **more},
        "/v1/explain": {"queries": weights, **more},
    }


def test_there_are_200_of_them() -> None:
    assert len(set(hostile_texts())) == 200


@pytest.mark.parametrize("part", range(4))
def test_hostile_texts_stay_text(page: Any, service: Any, part: int) -> None:
    texts = hostile_texts()[part * 50 : part * 50 + 50]
    said = answers(texts)
    dialogs: list[str] = []

    def on_dialog(dialog: Any) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", on_dialog)
    page.route("**/v1/**", lambda route: route.fulfill(json=said[urlsplit(route.request.url).path]))
    page.goto(service.url)
    page.wait_for_selector(".column li")
    page.evaluate("document.getElementById('box').client.timeoutMs = 60_000")  # busy machines
    for text in texts[:10]:
        # Past its first answer every route is the same: the typed texts become chips.
        page.fill("#search", text.replace("\u0000", ""))
        page.press("#search", "Enter")
    page.locator("#search").press_sequentially("<")
    page.wait_for_selector("#search-list [role=option]")
    page.wait_for_selector("#lists[aria-busy=false]")  # a late list is announced in its place
    page.locator(".column button").nth(3).hover()
    shown = page.eval_on_selector_all(".column .text", "all => all.map(one => one.textContent)")
    assert json.dumps(shown) == json.dumps(texts)
    assert page.evaluate("window.pwned") is None
    assert dialogs == []
    foreign = "#lists :is(script,img,svg,iframe,a,style,form,object,video,input,x,math,template)"
    assert page.locator(foreign).count() == 0
