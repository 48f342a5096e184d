"""<nextquery-box> on a page of another origin than the service: what the browser lets through."""

import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from nextquery.feedback.events import (
    DismissedList,
    FeedbackEvent,
    ServedList,
    ShownList,
    TakenSuggestion,
    parse_line,
)
from nextquery.feedback.impressions import join_events
from nextquery.feedback.settings import Bounds
from nextquery.service.keys import new_key

from .widget_page import OPTIONS

pytestmark = pytest.mark.slow

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Shop</title>
<link rel="icon" href="data:,"><script type="module" src="{service}/widget/box.js"></script></head>
<body><form action="found.html"><nextquery-box src="{service}" feedback timeout="60000" {more}>
<input name="q" aria-label="Search"></nextquery-box></form></body></html>"""
FOUND = "<!doctype html><title>Found</title><link rel='icon' href='data:,'><h1>Found</h1>"
KEY = new_key("shop")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Any]:
    """A web server of its own, on a port of its own; the test puts its pages into a folder."""
    folder = tmp_path / "shop"
    folder.mkdir()
    handler = partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        server.folder, server.url = folder, f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
        yield server
        server.shutdown()
        thread.join()


def recorded(folder: Path) -> list[FeedbackEvent]:
    lines = [line for path in sorted(folder.iterdir()) for line in path.read_bytes().splitlines()]
    return [event for line in lines if (event := parse_line(line)) is not None]


def kinds(folder: Path) -> list[type]:
    """What visitors did, in the order of the files: shown lists come last."""
    return [type(event) for event in recorded(folder) if not isinstance(event, ServedList)]


@pytest.mark.parametrize(("with_key", "allowed"), [(True, True), (False, False)])
def test_feedback_from_another_origin_is_recorded_where_it_is_allowed(
    browser: Any,
    shop: Any,
    start_service: Any,
    served_models: dict[str, Path],
    tmp_path: Path,
    with_key: bool,
    allowed: bool,
) -> None:
    """Shown, clicked while the page navigates away, shown again, dismissed; then six at once."""
    folder = tmp_path / "feedback"
    origin = shop.url if allowed else "https://elsewhere.example"
    options = ["--feedback", str(folder), "--cors-origin", origin]
    if with_key:
        (tmp_path / "keys").write_text(KEY.line)
        options += ["--keys", str(tmp_path / "keys")]
    service = start_service(served_models["adjacency"], *options)
    more = f'key="{KEY.key}"' if with_key else ""
    page_of = partial(PAGE.format, service=service.url)
    (shop.folder / "index.html").write_text(page_of(more=more))
    (shop.folder / "results.html").write_text(page_of(more=f'{more} query="red shoes"'))
    (shop.folder / "found.html").write_text(FOUND)
    context = browser.new_context()
    context.add_cookies([{"name": "seen", "value": "1", "url": service.url}])
    page = context.new_page()
    page.goto(f"{shop.url}/results.html")
    if not allowed:
        script = "url => fetch(url, {method: 'POST'}).then(() => 'let in', () => 'kept out')"
        assert page.evaluate(script, f"{service.url}/v1/feedback") == "kept out"
        context.close()
        assert not folder.exists() or not kinds(folder)
        return
    page.locator("input").focus()
    page.wait_for_selector(OPTIONS)
    service.wait_until(lambda: ShownList in kinds(folder))
    page.locator(OPTIONS).first.click()  # submits the form: the page goes away
    expect(page.locator("h1")).to_have_text("Found")
    service.wait_until(lambda: TakenSuggestion in kinds(folder))
    page.goto(f"{shop.url}/results.html")
    page.locator("input").focus()
    page.wait_for_selector(OPTIONS)
    page.keyboard.press("Escape")
    service.wait_until(lambda: DismissedList in kinds(folder))
    assert sorted(kind.__name__ for kind in kinds(folder)) == sorted(
        ["ShownList", "TakenSuggestion", "ShownList", "DismissedList"]
    )
    joined = join_events(recorded(folder), Bounds())
    assert [bool(impression.taken) for impression in joined.impressions] == [True, False]
    assert [impression.dismissed for impression in joined.impressions] == [False, True]
    assert not any(joined.excluded.values())

    script = """async ([url, key]) => {
      const { NextqueryClient } = await import(`${url}/widget/client.js`);
      const client = new NextqueryClient({ url, key });
      const event = (n) => ({ action: "dismissed", query: "q", query_id: `made-${n}` });
      const suggestions = Array(50).fill("安".repeat(500));
      const large = { action: "shown", query: "q", query_id: "l", suggestions };
      const told = [0, 1, 2, 3, 4, 5].map((n) => client.feedback(event(n)));
      return Promise.all([...told, client.feedback(large), client.feedback({ action: "no such" })]);
    }"""
    sent = page.evaluate(script, [service.url, KEY.key if with_key else ""])
    assert sent == [True] * 7 + [False], "what is not recorded is said"
    context.close()
