import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from nextquery.evaluation.comparison import RankingResult
from nextquery.evaluation.learning_curve import LearningCurve
from nextquery.evaluation.probes.gates import GateComparison, GateResult
from nextquery.evaluation.results import ExperimentResults
from nextquery.evaluation.scenario_run import ScenarioResult
from nextquery.evaluation.steps import from_json, to_json


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
