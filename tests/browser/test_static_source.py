"""<nextquery-box> from a plain file server: the exported lists, without Python."""

import functools
import gzip
import random
import shutil
import threading
import unicodedata
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from nextquery.export.export import export_model
from nextquery.export.lists import StaticLists
from nextquery.normalise import join_words, normalise_query
from nextquery.suggesters.loading import load

from .hostile_texts import hostile_texts

pytestmark = pytest.mark.slow

WIDGET = Path(__file__).parents[2] / "clients" / "js" / "src"
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Shop</title>
<link rel="icon" href="data:,"><nextquery-box><input aria-label="Search"></nextquery-box>
<script type="module">
import "./widget/box.js";
import { StaticClient, normaliseQuery } from "./widget/static.js";
Object.assign(window, { StaticClient, normaliseQuery });
document.querySelector("nextquery-box").client = new StaticClient({ url: "/suggestions" });
</script></html>"""
PRESET = "<nextquery-box query='red shoes'>"
TYPED = [
    *("Red Shoes", "red  shoes!", "paris", "PARIS hotels", "none of it", "ke$ha", "bj's", "a@b"),
    *("zero\u200bwidth", "ＦＵＬＬ width", "ΌΔΟΣ", "İstanbul", "می\u200cخواهم", "naïve café"),
    *("東京 ホテル", "便宜的北京酒店", "iphone手机壳", "ที่พัก กรุงเทพ", "１２３", "e\u0301"),
]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site(served_models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    export_model(load(served_models["adjacency"]), "static", folder / "suggestions")
    shutil.copytree(WIDGET, folder / "widget")
    (folder / "index.html").write_text(PAGE, encoding="utf-8")
    return folder


@pytest.fixture
def tab(browser: Any, site: Path) -> Iterator[Any]:
    handler = functools.partial(_Quiet, directory=str(site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    context = browser.new_context()
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
    page.wait_for_function("Boolean(window.StaticClient)")
    yield page
    context.close()
    server.shutdown()
    server.server_close()
    assert errors == []


def test_a_search_shows_what_comes_next(tab: Any) -> None:
    tab.locator("input").fill("Red Shoes")
    tab.evaluate("document.querySelector('nextquery-box').search('Red Shoes')")
    expect(tab.locator("[role=option]").first).to_have_text("red boots")


def test_the_browser_gives_the_lists_that_python_gives(tab: Any, site: Path) -> None:
    script = """async queries => {
      const client = new StaticClient({ url: "/suggestions", session: null });
      const answers = queries.map(query => client.suggest(query, { n: 50 }));
      return (await Promise.all(answers)).map(answer => answer.suggestions.map(one => one.text));
    }"""
    suggested = tab.evaluate(script, TYPED)
    lists = StaticLists(site / "suggestions")
    assert suggested == [lists.suggest([normalise_query(text)]) for text in TYPED]
    assert sum(map(bool, suggested)) >= 4


def test_queries_are_normalised_as_in_python(tab: Any) -> None:
    draw = random.Random(1)
    blocks = [(0x20, 0x24F), (0x370, 0x5FF), (0x600, 0x6FF), (0x900, 0xDFF), (0x2000, 0x206F)]
    blocks += [(0x3040, 0x30FF), (0xFF00, 0xFFEF), (0x1F600, 0x1F640)]
    made = [
        "".join(chr(draw.randint(*draw.choice(blocks))) for _ in range(draw.randint(1, 12)))
        for _ in range(3000)
    ]
    # Characters that this Python does not know yet, the browser may.
    known = [text for text in made if "Cn" not in map(unicodedata.category, text)]
    assert len(known) > 1000
    texts = [*TYPED, *hostile_texts(), *known]
    normalised = tab.evaluate("texts => texts.map(normaliseQuery)", texts)
    expected = [join_words(normalise_query(text)) for text in texts]
    pairs = zip(texts, expected, normalised, strict=True)
    assert [pair for pair in pairs if pair[1] != pair[2]] == []


def test_files_that_the_server_sends_unpacked_are_read_too(tab: Any, site: Path) -> None:
    """Apache and others send a .gz file with `Content-Encoding: gzip`."""

    def unpacked(route: Any) -> None:
        file = site / "suggestions" / "shards" / route.request.url.rpartition("/")[2]
        if file.is_file():
            route.fulfill(body=gzip.decompress(file.read_bytes()))
        else:
            route.fulfill(status=404)

    tab.route("**/shards/*", unpacked)
    script = """async () => {
      const client = new StaticClient({ url: "/suggestions", session: null });
      return (await client.suggest("red shoes")).suggestions.map((one) => one.text);
    }"""
    assert tab.evaluate(script) == StaticLists(site / "suggestions").suggest(["red shoes"])


def test_what_the_session_has_is_left_out_and_missing_files_are_no_error(tab: Any) -> None:
    script = """async () => {
      const client = new StaticClient({ url: "/suggestions" });
      client.session.add("red boots");
      const after = await client.suggest("red shoes");
      const before = await client.suggest("never typed");
      const visitor = new StaticClient({ url: "/suggestions", session: null });
      const unknown = await visitor.suggest("__proto__");
      const lost = new StaticClient({ url: "/nowhere" });
      const nowhere = await lost.suggest("x").catch((error) => error.status);
      const texts = [after, before].map((answer) => answer.suggestions.map((one) => one.text));
      return [...texts, unknown.suggestions, nowhere];
    }"""
    texts, before, unknown, nowhere = tab.evaluate(script)
    assert before == texts, "a query without a list: that of the one before it"
    assert texts
    assert "red boots" not in texts
    assert (unknown, nowhere) == ([], 404)


def test_a_preset_query_and_its_changes_are_searched_in_the_files(tab: Any, site: Path) -> None:
    """The box is there before the page gives it the client: no service is asked."""
    (site / "preset.html").write_text(PAGE.replace("<nextquery-box>", PRESET), encoding="utf-8")
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(tab.url.replace("index.html", "preset.html"))
    tab.locator("input").focus()
    expect(tab.locator("[role=option]").first).to_have_text("red boots")
    change = "query => document.querySelector('nextquery-box').setAttribute('query', query)"
    tab.evaluate(change, "paris")
    expect(tab.locator("[role=option]").first).to_have_text("paris hotels")
    later = (
        "document.querySelector('nextquery-box').client = new StaticClient({ url: '/suggestions' })"
    )
    tab.evaluate(later)
    expect(tab.locator("[role=option]").first).to_have_text("paris hotels")
    assert not [url for url in asked if "/v1/" in url]
