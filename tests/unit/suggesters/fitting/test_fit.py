import subprocess
import sys
from pathlib import Path
from typing import Any

from nextquery.suggesters.fit import FITTERS, fit_model
from nextquery.suggesters.loading import COUNT_MODELS, count_model, load

SESSIONS = [(f"u{n}", ["red shoes", "red boots"]) for n in range(3)]
CLICKS = [("u1", "red boots", "http://a")]


def test_every_count_model_has_a_function_that_counts() -> None:
    assert set(FITTERS) == set(COUNT_MODELS)
    assert all(kind == count_model(kind).kind for kind in FITTERS)


def test_a_fitted_model_saves_what_its_guard_needs(
    prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    data = prepared(tiny_log(SESSIONS, CLICKS, min_users=2))
    fit_model(count_model("adjacency"), data).save(tmp_path / "fitted")
    load(tmp_path / "fitted").save(tmp_path / "again")
    for file in (tmp_path / "fitted" / "guard").iterdir():
        assert file.read_bytes() == (tmp_path / "again" / "guard" / file.name).read_bytes()


def test_asking_a_model_needs_no_table_engine(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    data = prepared(tiny_log(SESSIONS, CLICKS))
    for kind in COUNT_MODELS:
        fit_model(count_model(kind), data).save(tmp_path / kind)
    code = (
        "import sys, nextquery\n"
        "for folder in sys.argv[1:]: nextquery.load(folder).suggest(['red shoes'])\n"
        "engines = ('polars', 'pyarrow', 'narwhals', 'duckdb')\n"
        "print([name for name in engines if name in sys.modules])"
    )
    folders = [str(tmp_path / kind) for kind in COUNT_MODELS]
    done = subprocess.run(
        [sys.executable, "-c", code, *folders], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
