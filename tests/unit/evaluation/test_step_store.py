import math
from pathlib import Path
from typing import Any

from nextquery.evaluation.step_store import StepStore


def counted(results: list[Any]) -> Any:
    results.append(1)
    return {"runs": len(results), "nothing": math.nan, "pair": (1, 2)}


def test_a_finished_step_is_not_done_again(tmp_path: Path) -> None:
    runs: list[Any] = []
    first = StepStore(tmp_path, {"data": "a"}).run("step", lambda: counted(runs))
    store = StepStore(tmp_path, {"data": "a"})
    second = store.run("step", lambda: counted(runs))

    assert first == second == {"runs": 1, "nothing": None, "pair": [1, 2]}
    assert store.reused == ["step"]


def test_another_basis_or_none_means_another_run(tmp_path: Path) -> None:
    runs: list[Any] = []
    for basis in ({"data": "a"}, {"data": "b"}, None, None):
        StepStore(tmp_path, basis).run("step", lambda: counted(runs))

    assert len(runs) == 4


def test_a_damaged_step_is_done_again(tmp_path: Path) -> None:
    runs: list[Any] = []
    StepStore(tmp_path, 1).run("step", lambda: counted(runs))
    (tmp_path / "steps" / "step.json").write_text('{"fingerprint": "')
    StepStore(tmp_path, 1).run("step", lambda: counted(runs))

    assert len(runs) == 2
