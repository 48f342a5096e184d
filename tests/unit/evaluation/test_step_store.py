import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nextquery.errors import ArtifactError
from nextquery.evaluation.steps import FOLDER, OPTIONAL, Finish, StepStore


@dataclass(frozen=True)
class Part:
    cases: int
    reason: str | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class Result:
    runs: int
    share: float | None
    parts: dict[str, Part]
    pair: tuple[int, ...]


def computed(runs: list[int]) -> Result:
    runs.append(1)
    return Result(len(runs), None, {"short": Part(3, "few"), "long": Part(40)}, (1, 2))


def test_a_finished_step_is_not_done_again_and_comes_back_as_a_record(tmp_path: Path) -> None:
    runs: list[int] = []
    first = StepStore(tmp_path, {"data": "a"}).run("step", Result, lambda: computed(runs))
    store = StepStore(tmp_path, {"data": "a"})
    second = store.run("step", Result, lambda: computed(runs))

    assert first == second == computed([])
    assert len(runs) == 1
    assert store.reused == ["step"]


def test_another_basis_or_none_means_another_run(tmp_path: Path) -> None:
    runs: list[int] = []
    for basis in ({"data": "a"}, {"data": "b"}, None, None):
        StepStore(tmp_path, basis).run("step", Result, lambda: computed(runs))

    assert len(runs) == 4


def test_a_damaged_step_is_done_again(tmp_path: Path) -> None:
    runs: list[int] = []
    StepStore(tmp_path, 1).run("step", Result, lambda: computed(runs))
    (tmp_path / FOLDER / "step.json").write_text('{"fingerprint": "')
    StepStore(tmp_path, 1).run("step", Result, lambda: computed(runs))

    assert len(runs) == 2


def test_a_step_of_another_shape_is_done_again(tmp_path: Path) -> None:
    runs: list[int] = []
    StepStore(tmp_path, 1).run("step", Part, lambda: Part(1))
    found = StepStore(tmp_path, 1).run("step", Result, lambda: computed(runs))

    assert found.runs == 1


def test_a_step_in_two_halves_is_kept_when_the_second_is_done(tmp_path: Path) -> None:
    begun: list[str] = []

    def start() -> Finish[Part]:
        begun.append("first half")
        return Finish(lambda: Part(len(begun)), lambda: False)

    second = StepStore(tmp_path, 1).begin("step", Part, start)
    assert begun == ["first half"]
    assert not second.ready()
    assert not (tmp_path / FOLDER / "step.json").exists()
    assert second() == second() == Part(1)

    again = StepStore(tmp_path, 1).begin("step", Part, start)
    assert again.ready()
    assert again() == Part(1)
    assert begun == ["first half"]


def test_the_processor_time_of_a_step_is_kept_with_it(tmp_path: Path) -> None:
    def busy() -> Part:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        return Part(1)

    first, second = StepStore(tmp_path, 1), StepStore(tmp_path, 1)
    first.run("step", Part, busy)
    second.run("step", Part, busy)
    assert first.seconds == second.seconds
    assert 0.2 <= first.seconds["step"] < 2


def test_times_stand_in_the_order_in_which_steps_begin(tmp_path: Path) -> None:
    """So that a run that was stopped writes the same report as one that was not."""
    whole, stopped = (StepStore(tmp_path / name, {}) for name in ("whole", "stopped"))
    whole_steps = [
        whole.begin(name, int, lambda: Finish(lambda: 1, lambda: True)) for name in "abc"
    ]
    for finish in reversed(whole_steps):
        finish()
    for name in "ab":
        stopped.run(name, int, lambda: 1)
    resumed = StepStore(tmp_path / "stopped", {})
    for name in "abc":
        resumed.run(name, int, lambda: 1)
    assert list(whole.seconds) == list(resumed.seconds) == ["a", "b", "c"]


def test_a_step_depends_on_what_it_alone_uses(tmp_path: Path) -> None:
    runs: list[int] = []
    for uses in ("a file", "a file", "the file edited"):
        StepStore(tmp_path, 1).run("step", Result, lambda: computed(runs), uses)
        StepStore(tmp_path, 1).run("other", Part, lambda: Part(1))

    assert len(runs) == 2


def test_nothing_is_kept_whose_basis_has_changed_meanwhile(tmp_path: Path) -> None:
    def check() -> None:
        raise ArtifactError("replaced while it was in use")

    with pytest.raises(ArtifactError):
        StepStore(tmp_path, 1, check).run("step", Part, lambda: Part(1))
    assert not list(tmp_path.rglob("*.json"))
