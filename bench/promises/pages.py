"""Promises of the pages in Chromium: hostile texts, a dead service, small screens, hostile bodies.

Each control is the same test on a page or an app that lacks the promise: one that takes texts for
markup, asks once, has no rule for long words, or repeats what it was sent. Without Chromium or
Playwright there are no rows: what was not tried is not said to hold.
"""

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))

from promises.hostile_texts import hostile_texts
from promises.rows import Row
from serving.processes import Server

AREA = "pages"
WIDTH = 320
SHOWN = "all => all.map(one => one.textContent)"


@contextlib.contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@contextlib.contextmanager
def _tab(browser: Any, width: int = 1100) -> Iterator[Any]:
    with browser.new_context(viewport={"width": width, "height": 800}) as context:
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.on("dialog", lambda dialog: dialog.dismiss())
        yield page


@cache
def _model() -> Path:
    """A small count model, made once."""
    from typer.testing import CliRunner

    from nextquery.cli.main import app

    folder = Path(tempfile.mkdtemp(prefix="nextquery-pages-"))
    for words in (
        ["synth", folder / "log.tsv", "--sessions", "1500", "--seed", "1"],
        ["prepare", folder / "log.tsv", "--out", folder / "data", "--no-spelling"],
        ["fit", folder / "data", "--kind", "adjacency", "--out", folder / "adj"],
    ):
        done = CliRunner().invoke(app, [str(word) for word in words])
        if done.exit_code:
            raise RuntimeError(done.output)
    return folder / "adj"


@contextlib.contextmanager
def _served(port: int = 0) -> Iterator[Server]:
    options = ["--port", str(port), "--drain-seconds", "0"]
    command = [sys.executable, "-m", "nextquery", "serve", str(_model()), *options]
    server = Server(command, port, {})
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()


def _answers(texts: list[str]) -> dict[str, Any]:
    """What the service would say if its models said such things."""
    rows = [{"text": text, "score": -1.0, "source": text} for text in texts]
    more = {"model": texts[0], "took_ms": 1.0, "fallback": True, "query_id": "1"}
    model = {"name": texts[0], "kind": texts[0], "explains": False, "version": "1"}
    return {
        "/v1/models": {"models": [model], "feedback": False},
        "/v1/suggest": {"suggestions": rows, **more},
        "/v1/complete": {"completions": rows, **more},
    }


def texts_stay_text_and_fit(quick: bool) -> list[Row]:
    """Hostile and long texts as suggestions, sources, names, completions and typed queries."""
    texts = hostile_texts()[:: 4 if quick else 1]
    with _served() as server, _browser() as browser:
        return [
            _stay_text(browser, server.url, texts),
            _fit_a_phone(browser, server.url, texts[:: 5 if quick else 2]),
        ]


def _put_words(page: Any, texts: list[str]) -> None:
    """Let the service say these texts, whatever it is asked."""
    said = _answers(texts)
    page.unroute_all()
    page.route("**/v1/**", lambda r: r.fulfill(json=said[urlsplit(r.request.url).path]))


def _stay_text(browser: Any, url: str, texts: list[str]) -> Row:
    with _tab(browser) as page:
        _put_words(page, texts)
        page.goto(url)
        page.wait_for_selector(".column li")
        page.evaluate("document.getElementById('box').client.timeoutMs = 60_000")  # busy machines
        for text in texts[:5]:
            page.fill("#search", text)
            page.press("#search", "Enter")
        page.locator("#search").press_sequentially("<")
        page.wait_for_selector("#search-list [role=option]")
        page.wait_for_selector("#lists[aria-busy=false]")  # a late list is announced in its place
        lists = [page.eval_on_selector_all(".column .text", SHOWN)]
        lists.append(page.eval_on_selector_all("#search-list [role=option]", SHOWN))
        ran = page.evaluate("window.pwned !== undefined")
        markup = int(page.context.new_page().evaluate(_TAKEN_FOR_MARKUP, texts))
    return Row(
        AREA,
        "hostile texts stay text on the page and in the search box",
        2 * len(texts),
        0 if ran else sum(shown == texts for shown in lists) * len(texts),
        "a page that uses innerHTML",
        markup,
    )


def _fit_a_phone(browser: Any, url: str, hostile: list[str]) -> Row:
    """Nothing may be wider than the screen."""
    long = ["w" * 300, "word " * 60, "https://example.com/" + "a" * 200, "名" * 120]
    texts, held = [*long, *hostile], 0
    with _tab(browser, WIDTH) as page:
        for text in texts:
            _put_words(page, [text])
            page.goto(url)
            page.wait_for_selector(".column li")
            for query in (text, "two"):
                page.fill("#search", query[:500])
                page.press("#search", "Enter")
            held += page.evaluate("document.documentElement.scrollWidth") <= WIDTH
        page.goto("about:blank")
        control = int(page.evaluate(_PLAIN_WIDER, texts))
    promise = f"nothing is wider than {WIDTH} px, whatever the texts"
    return Row(AREA, promise, len(texts), held, "a page without rules for long words", control)


_TAKEN_FOR_MARKUP = """texts => texts.filter(text => {
  const place = document.createElement("div");
  place.innerHTML = text;
  return place.textContent !== text;
}).length"""
_PLAIN_WIDER = """texts => texts.filter(text => {
  document.body.textContent = text;
  return document.documentElement.scrollWidth > innerWidth;
}).length"""


def a_dead_service_is_noticed_and_comes_back(quick: bool) -> Row:
    """The service is killed; the page must say so, and show a list when it is there again."""
    tries, held, port = (1 if quick else 5), 0, 0
    with _browser() as browser, _tab(browser) as page:
        for number in range(tries):
            with _served(port) as server:
                port = int(server.url.rpartition(":")[2])
                page.goto(server.url) if number == 0 else page.reload()
                page.wait_for_selector(".column li")
                asked_once = page.evaluate(_ASK_ONCE)
                server.process.kill()
                server.process.wait()
                page.fill("#search", "paris")
                page.press("#search", "Enter")
                page.wait_for_selector(".notice")
                alone = page.locator(".column").count() == 0
                again = page.evaluate(_ASK_ONCE)
            with _served(port):
                page.wait_for_selector(".column li", timeout=120_000)
                held += alone
    lost = int(asked_once == 200 and again != 200)
    promise = "a page says that its service died, and recovers by itself"
    return Row(AREA, promise, tries, held, "a page that asks once", lost)


_ASK_ONCE = "() => fetch('/v1/models').then((answer) => answer.status, () => 0)"


_BODIES = (
    '{"item": NaN, "value": "useful"}',
    '{"item": Infinity, "value": null}',
    '{"item": 0, "value": "\\ud800"}',
    '{"item": "\\udfff", "value": null}',
    '{"item": 0, "value": "useful", "\\ud800": 1}',
    '{"item": 1e999, "value": "useful"}',
    "[" * 3000,
    '{"item": ' + "9" * 3000 + "}",
    "x" * 100_000,
    "\ufeff{}",
)


def hostile_judgements_are_refused(quick: bool) -> Row:
    """Bodies that are no judgement: the study answers 4xx and stores nothing."""
    from nextquery.study.judgements import JudgementStore

    study = _study()
    store = JudgementStore(study)
    token = store.tokens(1)[1]
    path = f"/a/{token}/judgements"
    statuses = [_status(_study_app(study), path, body, browser="b") for body in _BODIES]
    held = sum(400 <= status < 500 for status in statuses) if not store.current() else 0
    repeated = [_status(_repeating_app(), "/", body, browser="b") for body in _BODIES]
    promise = "a study refuses bodies that are no judgement, and stores none"
    control = "an app that repeats what it was sent"
    return Row(AREA, promise, len(_BODIES), held, control, sum(s >= 500 for s in repeated))


def _study() -> Path:
    from nextquery.study.pool import create_study
    from nextquery.study.topics import Topic
    from nextquery.suggesters.loading import load

    target = Path(tempfile.mkdtemp(prefix="nextquery-study-")) / "study"
    model = load(_model())
    create_study(target, [Topic("paris")], {"a": model, "b": model})
    return target


def _study_app(study: Path) -> Any:
    from nextquery.study.app import create_study_app

    return create_study_app(study)


def _repeating_app() -> Any:
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Judgement(BaseModel):
        item: int
        value: str | None

    app = FastAPI()

    @app.post("/")
    def judge(judgement: Judgement) -> dict[str, Any]:
        return judgement.model_dump()

    return app


def _status(app: Any, path: str, body: str, **cookies: str) -> int:
    from fastapi.testclient import TestClient

    client = TestClient(app, raise_server_exceptions=False, cookies=cookies)
    headers = {"Content-Type": "application/json"}
    content = body.encode("utf-8", "surrogatepass")
    return int(client.post(path, content=content, headers=headers).status_code)


def _runs_here() -> bool:
    try:
        import fastapi.testclient  # noqa: F401
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return False
    return shutil.which("chromium") is not None


TESTS = (
    texts_stay_text_and_fit,
    a_dead_service_is_noticed_and_comes_back,
    hostile_judgements_are_refused,
)
if not _runs_here():
    TESTS = ()  # type: ignore[assignment]
