"""Steps: results kept as JSON, resuming, progress."""

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nextquery.errors import ArtifactError
from nextquery.evaluation.comparison import RankingResult
from nextquery.evaluation.learning_curve import LearningCurve
from nextquery.evaluation.probes.gates import GateComparison, GateResult
from nextquery.evaluation.results import ExperimentResults
from nextquery.evaluation.scenario_run import ScenarioResult
from nextquery.evaluation.steps import (
    FOLDER,
    OPTIONAL,
    Finish,
    StepStore,
    from_json,
    show_steps,
    to_json,
)


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


def test_a_record_comes_back_from_its_json(results: ExperimentResults) -> None:
    for name, kind in {
        "scenarios": Mapping[str, ScenarioResult],
        "gates": dict[str, GateComparison | GateResult],
        "generation": type(results.generation),
        "samples": type(results.samples),
        "boundaries": type(results.boundaries),
    }.items():
        record = getattr(results, name)
        written = json.loads(json.dumps(to_json(record)))
        assert from_json(kind, written) == record


def test_a_learning_curve_comes_back(curve: LearningCurve) -> None:
    assert from_json(LearningCurve, json.loads(json.dumps(to_json(curve)))) == curve


def test_a_result_without_comparison_stays_one() -> None:
    alone = GateResult(contexts=1, by_position={"1": 0.5}, example=None)

    assert from_json(GateComparison | GateResult, to_json(alone)) == alone


def test_optional_fields_are_left_out_and_others_are_null() -> None:
    assert to_json(RankingResult(40)) == {"cases": 40}
    assert to_json(RankingResult(3, "few")) == {"cases": 3, "too_few": "few"}
    alone = GateResult(contexts=1, by_position={}, example=None)
    assert to_json(alone) == {"contexts": 1, "by_position": {}, "example": None}


def test_json_has_no_tuples_paths_or_infinite_numbers() -> None:
    value = {1: (math.nan, Path("a") / "b", math.inf, 2.5)}

    assert to_json(value) == {"1": [None, "a/b", None, 2.5]}


def test_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="cases"):
        from_json(RankingResult, {"systems": {}})


def test_tracking_passes_every_step_on() -> None:
    with show_steps() as steps:
        steps.begin("a step")
        assert list(steps.track("detail")(range(0, 10, 4))) == [0, 4, 8]
        assert list(steps.track("nothing")(range(0))) == []


def test_the_documented_keys_are_all_there(results: ExperimentResults) -> None:
    document = to_json(results)

    assert list(document) == [
        "scenarios", "generation", "samples", "gates", "hidden_intent", "boundaries",
        "projections", "decoding", "data", "systems", "settings", "versions", "training",
        "new_visitors",
    ]  # fmt: skip
    found = document["scenarios"]["next_query"]
    assert {"mrr", "mrr_low", "mrr_high", "hit_1", "hit_5", "mrr_by_seed", "cases"} == set(
        found["systems"]["adj"]
    )
    assert {"a", "b", "relative", "p"} <= set(found["comparisons"][0])
    assert document["scenarios"]["long_tail"]["systems"] == {}
    assert "rankers" not in document["scenarios"]["long_tail"]


def test_only_scenarios_with_enough_cases_are_reported(results: ExperimentResults) -> None:
    assert list(results.reported) == ["next_query"]
    assert results.main_systems == ["adj", "baseline", "baseline+hred:sum", "baseline+hred"]
