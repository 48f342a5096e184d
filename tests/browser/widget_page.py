"""A shop's page with the widget, put next to a running service under a strict policy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'"
)
# A busy test machine takes its time; of two attributes of one name the first counts, so that a test
# can put its own timeout before this one.
BOX = "<nextquery-box feedback timeout='60000'><input name='q' aria-label='Search'></nextquery-box>"
SHOP = """<!doctype html><html lang="en" dir="{dir}"><head><meta charset="utf-8"><title>Shop</title>
<meta name="viewport" content="width=device-width"><script type="module" src="/shop.js"></script>
<link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/shop.css"></head>
<body><main><h1>Shop</h1>
<form id="form" action="/found">{box}<button>Search</button></form></main></body></html>"""
SCRIPT = """import "/widget/index.js";
window.searches = [];
document.addEventListener("nextquery-search", (event) => searches.push(event.detail));
if (!location.search.includes("plain")) {
  document.getElementById("form").addEventListener("submit", (event) => event.preventDefault());
}
"""
OPTIONS = "nextquery-box [role=option]"


@dataclass
class Shop:
    """The shop's page in a tab, and what it asked the service."""

    page: Any
    url: str
    asked: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", lambda request: self.asked.append(request))

    def open(
        self, box: str = BOX, direction: str = "ltr", query: str = "", style: str = ""
    ) -> None:
        html = SHOP.format(box=box, dir=direction)
        self.page.route("**/shop*", lambda route: _answer(route, html, style))
        self.page.goto(f"{self.url}/shop{query}")
        self.page.wait_for_selector("nextquery-box [role=listbox]", state="attached")

    def type(self, text: str) -> None:
        self.page.locator("nextquery-box input").press_sequentially(text)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Look again until it is so; the test's own time limit ends what never comes."""
        while not condition():
            self.page.wait_for_timeout(10)

    def texts(self) -> list[str]:
        script = "all => all.map(one => one.textContent)"
        return [str(text) for text in self.page.eval_on_selector_all(OPTIONS, script)]

    def bodies(self, route: str) -> list[Any]:
        """What was posted to a route so far."""
        return [request.post_data_json for request in self.asked if request.url.endswith(route)]

    def say(self, items: Sequence[dict[str, Any]]) -> None:
        """Put words into the service's mouth."""
        rows = [{"score": -1.0, "source": "made up", **item} for item in items]
        more = {"model": "m", "fallback": False, "query_id": "1"}
        answer = {"completions": rows, "suggestions": rows, **more}
        for name in ("complete", "suggest"):
            self.page.route(f"**/v1/{name}", lambda route: route.fulfill(json=answer))


def _answer(route: Any, html: str, style: str) -> None:
    if route.request.url.endswith(".js"):
        route.fulfill(body=SCRIPT, content_type="text/javascript")
    elif route.request.url.endswith(".css"):
        route.fulfill(body=style, content_type="text/css")
    else:
        headers = {"Content-Security-Policy": POLICY}
        route.fulfill(body=html, content_type="text/html", headers=headers)
