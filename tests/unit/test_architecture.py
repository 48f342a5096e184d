"""No import cycles, no missing file in the architecture page, nothing heavy in light paths."""

import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "nextquery"
PAGE = ROOT / "docs" / "development" / "architecture.md"
HEAVY = {"torch", "polars", "pyarrow", "duckdb", "pyspark", "lightgbm", "scipy", "sklearn"}


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`([\w/]+/[\w]+\.(?:py|js|toml|html|css))`", PAGE.read_text("utf-8")))
    assert named
    assert not [
        name for name in named if not any((top / name).is_file() for top in (PACKAGE, ROOT))
    ]


def test_no_import_cycles() -> None:
    graph = grimp.build_graph("nextquery")
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    ordered: set[str] = set()
    while ready := {name for name, needs in imports.items() if needs <= ordered} - ordered:
        ordered |= ready
    assert set(imports) - ordered == set()


@pytest.mark.parametrize(
    "statement",
    [
        "import nextquery",
        "from nextquery import load",
        "import nextquery.cli.entry",
        "from nextquery.suggesters import loading, neural, adjacency, qvmm, cacb, rescue",
        "import nextquery.feedback.reranker",
        "import nextquery.service.app",
    ],
)
def test_light_paths_import_nothing_heavy(statement: str) -> None:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) & HEAVY == set()
