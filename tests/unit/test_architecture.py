"""No import cycles and nothing heavy in light paths; import-linter checks the order of layers."""

import subprocess
import sys

import grimp
import pytest

HEAVY = {"torch", "polars", "pyarrow", "duckdb", "pyspark", "lightgbm", "scipy", "sklearn"}


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
        "from importlib import import_module\nfrom nextquery.cli.main import MODULES\n"
        "for name in MODULES.values(): import_module(name)",
        "from nextquery.suggesters import loading, neural, adjacency, qvmm, cacb, rescue",
        "import nextquery.feedback.reranker",
        "import nextquery.service.app",
    ],
)
def test_light_paths_import_nothing_heavy(statement: str) -> None:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) & HEAVY == set()
