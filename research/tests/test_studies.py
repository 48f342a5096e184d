"""Summaries, tables and studies of `python -m research`."""

import json
from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import InputError
from research import (
    commands,
    leaderboard,
    leaderboard_runs,
    measured_plots,
    tables,
)
from research.summary import summarise


def comparison(a: str, b: str, relative: float) -> dict[str, Any]:
    ends = {"difference_low": 0.1, "difference_high": 0.2}
    return {"a": a, "b": b, "relative": relative, "difference": 0.15, "p": 1.23e-9, **ends}


def quality(mrr: float) -> dict[str, Any]:
    return {"mrr": mrr, "mrr_by_seed": [mrr, mrr + 0.01]}


def test_the_seeds_of_one_form_are_one_row() -> None:
    names = ["adj", "all-1", "all-2", "baseline+all-1:sum", "baseline+all-2:sum"]
    grouped = leaderboard._by_form(dict.fromkeys(names, 0.5))

    assert list(grouped) == ["adj", "all", "baseline+all:sum"]
    assert leaderboard._title("baseline+all:sum").endswith("session at every step, sum only")
    assert leaderboard._shown([0.25, 0.35]) == ".300 (.250-.350)"


def test_a_run_of_the_benchmark_becomes_points_of_the_service(tmp_path: Path) -> None:
    point = {"offered_per_s": 4.26, "answered_per_s": 4.0, "p50_ms": 7.04, "p99_ms": 20.06}
    offered = {workers: {"points": [point | {"share": 0.2}]} for workers in ("1", "2")}
    bench = tmp_path / "bench.json"
    bench.write_text(json.dumps({"quick": False, "machine": {"cores": 2}, "offered": offered}))
    measured_plots.keep_serving(bench, "quiet", tmp_path)

    kept = json.loads((tmp_path / "serving.json").read_text())
    rounded = {"offered": 4.3, "answered": 4.0, "p50_ms": 7.0, "p99_ms": 20.1}
    assert kept["workers"] == {"1": [rounded], "2": [rounded]}
    assert (kept["note"], kept["quick"]) == ("quiet", False)
    bench.write_text('{"offered": {"not_run": "no"}}')
    with pytest.raises(InputError, match="has no section `offered`"):
        measured_plots.keep_serving(bench, "quiet", tmp_path)


def test_the_curves_of_a_model_are_thinned_out_but_for_validation(tmp_path: Path) -> None:
    lines: list[dict[str, float]] = [{"step": step, "loss": 1 / step} for step in range(1, 201)]
    lines.append({"step": 200, "validation_nll": 0.5})
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    measured_plots.keep_training({"a model": tmp_path}, tmp_path)

    run = json.loads((tmp_path / "training.json").read_text())["runs"]["a model"]
    assert run["loss"][:2] == [[1, 1.0], [5, 0.2]]
    assert len(run["loss"]) == 50
    assert run["validation"] == [[200, 0.5]]


def test_a_summary_keeps_the_paper_s_comparisons_and_rounds_them() -> None:
    scenario = {
        "cases": {"test": 40},
        "users": 7,
        "systems": {"adj": quality(0.25), "baseline": quality(0.3), "baseline+m": quality(0.45)},
        "comparisons": [comparison("baseline+m", "baseline", 0.50001), comparison("m", "adj", 9.0)],
        "by_session_length": {
            "long": {"cases": 31, "comparisons": [comparison("baseline+m", "baseline", 0.7)]},
            "short": {"cases": 9, "too_few": "9 cases"},
        },
        "by_context_length": {
            "m": {
                "cases": 31,
                "queries": {seen: {"baseline+m": quality(0.4)} for seen in ("1", "2", "3", "all")},
                "comparisons": [comparison("all", "2", 0.2)],
            }
        },
    }
    few = {"cases": {"test": 3}, "systems": {}, "too_few": "3 test cases, 50 needed"}
    results = {
        "versions": {"nextquery": "1", "torch": "2", "polars": "3"},
        "settings": dict.fromkeys(("min_followers", "seeds", "ranker_cases", "visitors"), 1)
        | {"new_visitor_cases": "all", "ranker_positions": "last", "seed": 5},
        "data": {"counts": {"sessions": {"test": 50}}},
        "systems": {"models": ["m"]},
        "training": {"m": {"training": None}},
        "scenarios": {"next_query": scenario, "long_tail": few},
        "hidden_intent": {},
    }

    kept = summarise(results)

    scenario = kept["scenarios"]["next_query"]
    assert scenario["gains"] == {
        "baseline+m over baseline": {
            "relative": 0.5,
            "difference": 0.15,
            "difference_low": 0.1,
            "difference_high": 0.2,
            "p": 1.2e-9,
        }
    }
    assert scenario["by_session_length"]["long"]["gains"]["m"]["relative"] == 0.7
    assert scenario["by_session_length"]["short"] == {"cases": 9, "gains": {}}
    assert scenario["by_context_length"]["m"]["mrr"] == {"1": 0.4, "2": 0.4, "3": 0.4, "all": 0.4}
    assert kept["scenarios"]["long_tail"]["too_few"] == "3 test cases, 50 needed"
    assert "seed" not in kept["settings"]


@pytest.mark.parametrize(
    ("p", "text"), [(0.0, "< .001"), (0.0042, "= .004"), (0.35, "= .35"), (1.0, "= 1.00")]
)
def test_p_values_are_written_as_in_the_paper(p: float, text: str) -> None:
    assert tables.p_value(p) == text


def test_of_a_small_log_cases_and_every_mrr_are_kept() -> None:
    scenario = {"cases": {"test": 40}, "systems": {"adj": quality(0.25004)}}
    report = {"scenarios": {"robust": scenario}, "data": {"counts": {"sessions": {"test": 90}}}}
    kept = leaderboard_runs.summarise(report)

    assert kept["scenarios"] == {"robust": {"cases": 40, "mrr": {"adj": 0.25}}}
    assert kept["sessions"] == {"test": 90}


def test_every_model_of_the_small_logs_has_its_form_and_seed() -> None:
    for log, models in leaderboard_runs.TRAINED.items():
        for model in models:
            sets = leaderboard_runs._sets(log, model)
            assert f"--set=train.seed={model.rpartition('-')[2]}" in sets
            assert ("--set=model.copy=false" in sets) == model.startswith("plain")


def test_a_shipped_config_is_changed_by_key() -> None:
    text = commands.changed("tiny", {"epochs": "2", "optimiser": '"rmsprop"'})
    assert "\nepochs = 2\n" in text
    assert '\noptimiser = "rmsprop"\n' in text
    with pytest.raises(KeyError):
        commands.changed("tiny", {"epoch": "2"})
