"""The npm package of the widget: its size, what it exports, its types, its Algolia plugin."""

import gzip
import json
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from nextquery._version import __version__
from nextquery.service import routes

from .hostile_texts import hostile_texts

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "clients" / "js"
FACTS = json.loads((PACKAGE / "package.json").read_text())
USE = """
import { NextqueryBox, NextqueryClient, NextqueryError, Session } from "./src/index.js";
import { createNextqueryPlugin } from "./src/autocomplete.js";
import { StaticClient } from "./src/static.js";
const client = new NextqueryClient({ url: "https://x.example", session: new Session() });
const answer = client.suggest("a", { n: 3 });
const texts: Promise<string[]> = answer.then((a) => a.suggestions.map((s) => s.text));
const box: NextqueryBox = document.querySelector("nextquery-box")!;
box.options = () => ({ model: "m" });
box.addEventListener("nextquery-search", (event) => event.detail.taken?.position.toFixed());
client.feedback({ action: "clicked", query: "a", query_id: "1", suggestion: "b", position: 1 });
const late: boolean = new NextqueryError(0, "late").temporary;
createNextqueryPlugin({ client, n: 3 });
box.client = new StaticClient({ url: "/suggestions" });
// @ts-expect-error a position is a number
client.feedback({ action: "clicked", query: "a", query_id: "1", suggestion: "b", position: "1" });
export { late, texts };
"""


def test_it_is_under_7_6_kb_compressed_and_depends_on_nothing() -> None:
    loaded = [PACKAGE / "src" / name for name in ("box.js", "client.js")]
    sizes = {path.name: len(gzip.compress(path.read_bytes())) for path in loaded}
    assert sum(sizes.values()) < 7600, sizes
    assert "dependencies" not in FACTS
    lines = [line for path in loaded for line in path.read_text().splitlines()]
    imports = [line for line in lines if line.startswith("import")]
    assert imports == ['import { NextqueryClient, Session } from "./client.js";']


def test_it_has_the_version_of_nextquery_and_files_for_all_exports() -> None:
    assert FACTS["version"] == __version__
    for entry in FACTS["exports"].values():
        assert all((PACKAGE / path).is_file() for path in entry.values())


def test_the_python_package_carries_the_widget_where_the_service_looks_for_it() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    packaged = ROOT / "src" / included["clients/js/src"]
    assert packaged == Path(routes.__file__).parent / "widget"
    assert (routes.WIDGET / "box.js").is_file()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with what its development needs, from the npm registry."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("npm")
    shutil.copytree(PACKAGE, folder, dirs_exist_ok=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    if done.returncode:
        pytest.skip(f"npm cannot install {FACTS['devDependencies']}: {done.stderr[-300:]}")
    return folder


@pytest.mark.slow
def test_the_types_fit_the_use(installed: Path) -> None:
    (installed / "use.ts").write_text(USE)
    options = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "use.ts"]
    command = ["npx", "--no-install", "tsc", *options]
    done = subprocess.run(command, cwd=installed, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout


ALGOLIA = "/node_modules/@algolia/autocomplete-js/dist/umd/index.production.js"
PAGE = f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Shop</title>
<link rel="icon" href="data:,"><div id="autocomplete"></div><script src="{ALGOLIA}"></script>
<script type="module">
import {{ NextqueryClient }} from "/widget/client.js";
import {{ createNextqueryPlugin }} from "/widget/autocomplete.js";
const client = (window.client = new NextqueryClient({{ timeoutMs: 60_000 }}));
window["@algolia/autocomplete-js"].autocomplete({{
  container: "#autocomplete", openOnFocus: true, detachedMediaQuery: "none",
  plugins: [createNextqueryPlugin({{ client, feedback: true }})],
}});
window.ready = true;
</script></html>"""
ITEMS = ".aa-Item"


@pytest.fixture
def algolia(page: Any, service: Any, installed: Path) -> Any:
    """A page with Algolia's autocomplete as npm delivers it, and the plugin."""
    page.route("**/shop", lambda route: route.fulfill(body=PAGE, content_type="text/html"))
    page.route("**/node_modules/**", lambda route: route.fulfill(path=str(installed) + ALGOLIA))
    page.goto(service.url + "/shop")
    page.wait_for_function("window.ready")
    return page


@pytest.mark.slow
def test_algolia_completes_and_suggests(algolia: Any) -> None:
    asked: list[Any] = []
    algolia.on("request", lambda request: asked.append(request))
    algolia.locator(".aa-Input").press_sequentially("red s")
    expect(algolia.locator(ITEMS)).to_have_text(["red shoes"])
    algolia.locator(ITEMS).first.click()
    expect(algolia.locator(".aa-Input")).to_have_value("red shoes")
    algolia.locator(".aa-Input").fill("")
    expect(algolia.locator(ITEMS).first).to_have_text("red boots")
    algolia.keyboard.press("ArrowDown")
    with algolia.expect_request(lambda r: '"clicked"' in (r.post_data or "")):
        algolia.keyboard.press("Enter")
    expect(algolia.locator(".aa-Input")).to_have_value("red boots")
    algolia.wait_for_function("client.session.queries.length === 2")
    assert algolia.evaluate("client.session.queries") == ["red shoes", "red boots"]
    sent = [request.post_data_json for request in asked if request.url.endswith("/feedback")]
    assert [event["action"] for event in sent][:2] == ["shown", "clicked"]
    assert (sent[1]["suggestion"], sent[1]["position"]) == ("red boots", 1)


@pytest.mark.slow
def test_algolia_shows_hostile_texts_as_text(algolia: Any) -> None:
    texts = hostile_texts()
    rows = [{"text": text, "score": 0.0, "source": ""} for text in texts]
    answer = {"completions": rows, "model": "m"}
    algolia.route("**/v1/complete", lambda route: route.fulfill(json=answer))
    algolia.locator(".aa-Input").press_sequentially("<")
    expect(algolia.locator(ITEMS)).to_have_count(len(texts))
    shown = algolia.eval_on_selector_all(ITEMS, "all => all.map(one => one.textContent)")
    assert shown == texts
    assert algolia.evaluate("window.pwned") is None
