"""The notebooks of the documents run from top to bottom, and show what their text promises."""

from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode, reads

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


def _read(path: Path) -> NotebookNode:
    found: NotebookNode = reads(path.read_text("utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_from_a_log_to_a_report(tmp_path: Path) -> None:
    [path] = NOTEBOOKS
    notebook = _read(path)
    NotebookClient(
        notebook, timeout=250, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    tables = [
        output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "data" in output
    ]

    assert len(tables) == 5
    assert "AnonID" in tables[0]
    assert "background" in tables[1]
    assert "seen in the log" in tables[2]
    assert "at the end of a simil" in tables[3]  # the column is cut
    assert "baseline+shortcuts" in tables[4]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_are_kept_without_outputs(path: Path) -> None:
    notebook = _read(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]

    assert code
    assert not [cell for cell in code if cell.outputs or cell.execution_count]
