"""No import cycles and nothing heavy in light paths; import-linter checks the order of layers."""

import subprocess
import sys

import grimp

HEAVY = {"torch", "polars", "pyarrow", "duckdb", "pyspark", "lightgbm", "scipy", "sklearn"}


def test_no_import_cycles() -> None:
    graph = grimp.build_graph("nextquery")
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    ordered: set[str] = set()
    while ready := {name for name, needs in imports.items() if needs <= ordered} - ordered:
        ordered |= ready
    assert set(imports) - ordered == set()


LIGHT = """
import sys
from importlib import import_module
from nextquery import load
from nextquery.cli.main import MODULES
names = ["cli.entry", "feedback.reranker", "model.settings", "service.app"]
suggesters = ("loading", "neural", "adjacency", "qvmm", "cacb", "rescue")
names += [f"suggesters.{name}" for name in suggesters]
for name in (*MODULES.values(), *(f"nextquery.{name}" for name in names)):
    import_module(name)
    heavy = set(sys.argv[1:]) & set(sys.modules)
    assert not heavy, (name, heavy)
"""


def test_light_paths_import_nothing_heavy() -> None:
    run = subprocess.run([sys.executable, "-c", LIGHT, *HEAVY], capture_output=True, text=True)
    assert not run.returncode, run.stderr
