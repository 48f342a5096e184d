"""The notebooks of the documentation run from top to bottom; count models print what is saved."""

from pathlib import Path

import pytest
from nbformat import NotebookNode, reads

SMALLER = {
    '["train.epochs=5"]': '["train.epochs=1"]',
    "seeds=1,": "seeds=1, ranker_cases=300, boundary_queries=500,",
    "generation_contexts=20": "generation_contexts=5",
    "completion_contexts=20": "completion_contexts=5",
}
"""What makes training and experiment quick enough for a test."""
NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


def _read(path: Path) -> NotebookNode:
    notebook: NotebookNode = reads(path.read_text("utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    return notebook


def _tables(notebook: NotebookNode) -> list[str]:
    return [
        output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output["output_type"] == "execute_result"
    ]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_from_a_log_to_a_report(tmp_path: Path) -> None:
    from nbclient import NotebookClient  # takes seconds, which every process would pay

    [path] = NOTEBOOKS
    saved = _tables(_read(path))
    notebook = _read(path)
    for text, smaller in SMALLER.items():
        cells = [cell for cell in notebook.cells if text in cell.source]
        assert cells, text
        for cell in cells:
            cell.source = cell.source.replace(text, smaller)
    NotebookClient(
        notebook, timeout=1000, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    tables = _tables(notebook)

    assert tables[:3] == saved[:3]  # the log, its splits, a count model
    assert all("source" in table.splitlines()[0] for table in tables[3:5])
    systems = [line.split() for line in tables[5].splitlines()[1:]]
    assert [name for name, _ in systems] == ["adj", "baseline", "hred", "baseline+hred"]
    assert all(0 < float(mrr) < 1 for _, mrr in systems)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_saved_as_small_text(path: Path) -> None:
    assert len(_tables(_read(path))) == 6
    assert path.stat().st_size < 20_000
