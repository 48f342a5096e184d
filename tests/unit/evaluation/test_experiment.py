"""Experiments: settings, steps that are kept and resumed, learning curves."""

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nextquery.artifacts import open_artifact
from nextquery.errors import ArtifactError, InputError
from nextquery.evaluation.comparison import RankingResult
from nextquery.evaluation.experiment import ExperimentRun, run_experiment
from nextquery.evaluation.learning_curve import (
    SHARES,
    LearningCurve,
    keep_share,
    learning_curve,
)
from nextquery.evaluation.probes.gates import GateComparison, GateResult
from nextquery.evaluation.results import ExperimentResults
from nextquery.evaluation.scenario_run import ScenarioResult
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.evaluation.steps import (
    FOLDER,
    OPTIONAL,
    Finish,
    Steps,
    StepStore,
    from_json,
    to_json,
)
from nextquery.evaluation.systems import Systems
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.base import Scorer
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.popularity import Popularity

QUICK = ExperimentSettings(
    ("long_tail",), generation_contexts=5, completion_contexts=5, boundary_queries=100
)


@pytest.mark.slow
def test_the_report_folder_holds_the_results_and_nothing_half_done(
    small_data: PreparedData, shared_words: Scorer, tmp_path: Path
) -> None:
    results = run_experiment(small_data, tmp_path, {"mine": shared_words}, settings=QUICK)

    document = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert document == json.loads(json.dumps(to_json(results)))
    report = open_artifact(tmp_path, "report")
    assert report.manifest["complete"] is True
    assert report.manifest["settings"]["scenarios"] == ["long_tail"]
    assert report.manifest["machine"]["threads"] >= 1
    assert {"lightgbm", "scipy", "scikit-learn"} <= set(report.manifest["packages"])
    data_manifest = small_data.artifact.manifest
    assert report.manifest["data"]["files"] == data_manifest["files"]
    assert report.manifest["data"]["logs"][0]["sha256"] == data_manifest["logs"][0]["sha256"]
    assert report.manifest["models"] == {"mine": None}, "an object has no files"
    assert (tmp_path / "index.html").is_file()
    assert not (tmp_path / "count_models").exists()


def test_a_folder_that_is_not_a_report_is_left_alone(
    small_data: PreparedData, shared_words: Scorer, tmp_path: Path
) -> None:
    (tmp_path / "thesis.txt").write_text("mine")

    with pytest.raises(ArtifactError, match="not an artifact"):
        run_experiment(small_data, tmp_path, {"mine": shared_words}, settings=QUICK)


ALL_SESSIONS = replace(QUICK, visitors="new", new_visitor_cases="all", min_followers=5000)


def test_a_model_is_not_tested_on_the_sessions_it_has_learnt_from(
    small_data: PreparedData, tmp_path: Path
) -> None:
    fit_model(Popularity, small_data).save(tmp_path / "model")
    models = {"trained": tmp_path / "model"}
    with pytest.raises(InputError, match="'trained' has learnt from them"):
        run_experiment(small_data, tmp_path / "report", models, settings=ALL_SESSIONS)


@pytest.mark.slow
def test_all_sessions_are_looked_at_with_new_visitors(
    small_data: PreparedData, shared_words: Scorer, tmp_path: Path
) -> None:
    settings = replace(ALL_SESSIONS, scenarios=("every_context",), ranker_cases=150, seeds=1)
    results = run_experiment(small_data, tmp_path, {"mine": shared_words}, settings=settings)

    splits = ("background", "training", "validation", "test")
    evaluable = [s for split in splits for s in small_data.sessions(split) if len(s.queries) > 1]
    assert not results.scenarios
    assert results.new_visitors["every_context"].cases["test"] == len(evaluable)


def steps_taken_again(
    data: PreparedData, out: Path, model: Path, settings: ExperimentSettings
) -> set[str]:
    """The steps that a run does although an earlier one has done them."""
    before = {file.name: file.stat().st_mtime_ns for file in (out / "steps").glob("*.json")}
    run_experiment(data, out, {"mine": model}, settings=settings)
    after = {file.name: file.stat().st_mtime_ns for file in (out / "steps").glob("*.json")}
    return {name.removesuffix(".json") for name in after if before.get(name) != after[name]}


@pytest.mark.slow
def test_a_step_is_done_again_when_a_file_that_it_uses_has_changed(
    small_data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit_model(Popularity, small_data).save(tmp_path / "model")
    labels = tmp_path / "labels.csv"
    rows = [f"u{number // 9},word {number},{number // 3}" for number in range(99)]
    labels.write_text("\n".join(["user,query,session", *rows]))
    (tmp_path / "the_encoder.py").write_text(ENCODER)
    (tmp_path / "weight.txt").write_text("1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("WEIGHT", str(tmp_path / "weight.txt"))
    users = tmp_path / "users.txt"
    users.write_text("ann\n")
    settings = replace(
        QUICK,
        boundary_labels=labels,
        encoder="the_encoder:encode",
        seeds=1,
        users_apart={"staff": users},
    )

    def again() -> set[str]:
        return steps_taken_again(small_data, tmp_path / "out", tmp_path / "model", settings)

    everything = again()
    assert {"boundaries", "long_tail", "generation"} <= everything
    labels.write_text("\n".join(["user,query,session", *reversed(rows)]))
    users.write_text("bob\n")
    assert again() == {"boundaries", "long_tail", "new_long_tail"}
    (tmp_path / "weight.txt").write_text("2")
    assert again() == everything


ENCODER = """
import os
from pathlib import Path
def encode(texts):
    weight = float(Path(os.environ["WEIGHT"]).read_text())
    return [[len(text), weight * text.count("a"), 1.0] for text in texts]
"""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"boundary_labels": Path("none.csv")}, r"`boundary_labels` .*none\.csv"),
        ({"boundary_labels": Path()}, "`boundary_labels`"),
        ({"learning_curve_config": "none.toml"}, r"none\.toml"),
    ],
)
def test_files_that_do_not_exist_are_refused_before_the_first_step(
    small_data: PreparedData,
    shared_words: Scorer,
    tmp_path: Path,
    changes: dict[str, Any],
    message: str,
    steps: Steps,
) -> None:
    systems, settings = Systems({}, {"mine": shared_words}), replace(QUICK, **changes)
    with pytest.raises(InputError, match=message):
        ExperimentRun(small_data, systems, settings, tmp_path, StepStore(tmp_path, 1), steps)


def test_an_encoder_that_is_not_there_is_refused_before_anything_is_fitted(
    small_data: PreparedData, shared_words: Scorer, tmp_path: Path
) -> None:
    settings = replace(QUICK, encoder="no_such_module:encode")
    with pytest.raises(InputError, match=r"`encoder` no_such_module:encode"):
        run_experiment(small_data, tmp_path / "a", {"mine": shared_words}, settings=settings)


@pytest.mark.slow
def test_every_step_is_kept_and_taken_up_again(
    small_data: PreparedData, shared_words: Scorer, tmp_path: Path, steps: Steps
) -> None:
    systems = Systems({"adj": fit_model(Adjacency, small_data)}, {"mine": shared_words})
    results, stores = [], []
    for _ in range(2):
        stores.append(StepStore(tmp_path, "the same basis"))
        run = ExperimentRun(small_data, systems, QUICK, tmp_path, stores[-1], steps)
        results.append(run.results({}))

    assert results[0] == results[1]
    assert stores[0].reused == []
    assert stores[1].reused == [
        "long_tail", "new_long_tail", "generation", "unseen_generation", "completion",
        "returning", "samples", "paper_examples", "ngrams", "gates", "hidden_intent", "boundaries",
        "projections", "decoding", "list_times",
    ]  # fmt: skip
    # a system that only scores takes part in no list, gate or projection
    assert list(results[0].generation.systems) == ["adj"]
    assert results[0].completion is not None
    assert list(results[0].completion.systems) == ["adj"]
    assert not results[0].gates
    assert not results[0].ngrams
    assert not results[0].paper_examples
    assert list(results[0].hidden_intent) == ["mine"]
    assert not results[0].projections
    assert not results[0].decoding
    assert results[0].boundaries.gaps > 0

    # What a report quotes was typed by K users.
    rows = small_data.counts("queries").filter(pl.col("users") >= small_data.min_users)
    known = set(rows.select("query").collect()["query"])
    quoted = [{*item.context, item.next_query} for item in results[0].samples.contexts]
    assert all(queries <= known for queries in quoted)


def test_a_run_has_one_file_per_scenario() -> None:
    first, second = Path("robust.a.run"), Path("next_query.a.run")
    settings = ExperimentSettings(runs={"a": [first, second], "b": first})
    assert settings.run_files() == {"a": (first, second), "b": (first,)}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"min_followers": 0}, "`min_followers` 0: must be at least 1"),
        ({"test_users": 0}, "`test_users` 0: must be at least 1"),
        ({"folds": 1}, "`folds` 1: must be at least 2"),
        ({"seed": -1}, "`seed` -1: must be at least 0"),
        ({"seed": 2**32}, "`seed` 4294967296: must be at most 4,294,967,295"),
        ({"ranker_positions": "first"}, "`ranker_positions` 'first': must be one of last, every"),
        ({"new_visitor_cases": "some"}, "`new_visitor_cases` 'some': must be one of test, all"),
        ({"visitors": "all"}, "`visitors` 'all': must be one of known, new, both"),
        ({"earlier_queries": 11}, "`earlier_queries` 11: must be at most 10"),
        ({"earlier_queries": 3, "visitors": "new"}, "new visitors have none"),
        ({"users_apart": {"a": Path("gone.txt")}}, "`users_apart` gone.txt: no such file"),
        ({"scenarios": ("nowhere",)}, "nowhere.*must be one of next_query"),
        ({"exports": ("all",)}, "`exports` 'all': must be one of seeds, learning"),
        ({"runs": {"a": Path("mine.run")}}, "its name must begin with its scenario"),
        ({"runs": {"a+b": Path("robust.a.run")}}, r"'a\+b': a name must not be empty or have"),
        (
            {"runs": {"a": [Path("robust.a.run"), Path("robust.b.run")]}},
            r"`runs` a: given twice for robust \(robust.a.run and robust.b.run",
        ),
    ],
)
def test_values_outside_the_limits_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ExperimentSettings(**values)


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


def test_a_step_is_done_again_unless_its_result_is_there_and_fits(tmp_path: Path) -> None:
    runs: list[int] = []
    another, none = {"data": "b"}, None
    for basis in ({"data": "a"}, another, none, none):
        StepStore(tmp_path, basis).run("step", Result, lambda: computed(runs))
    assert len(runs) == 4
    (tmp_path / FOLDER / "step.json").write_text('{"fingerprint": "')
    StepStore(tmp_path, another).run("step", Result, lambda: computed(runs))
    assert len(runs) == 5
    StepStore(tmp_path, 1).run("step", Part, lambda: Part(1))
    assert StepStore(tmp_path, 1).run("step", Result, lambda: computed(runs)).runs == 6


def test_a_step_in_two_halves_is_kept_when_the_second_is_done(tmp_path: Path) -> None:
    begun: list[str] = []

    def start() -> Finish[Part]:
        begun.append("first half")
        return Finish(lambda: Part(len(begun)), lambda: False)

    second = StepStore(tmp_path, 1).begin("step", Part, start)
    assert begun == ["first half"]
    assert not second.ready()
    assert not (tmp_path / FOLDER / "step.json").exists()
    assert second.result() == second.result() == Part(1)

    again = StepStore(tmp_path, 1).begin("step", Part, start)
    assert again.ready()
    assert again.result() == Part(1)
    assert begun == ["first half"]


def test_the_cpu_time_of_a_step_is_kept_with_it(tmp_path: Path) -> None:
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


def test_times_are_in_the_order_in_which_steps_begin(tmp_path: Path) -> None:
    """So that a run that was stopped writes the same report as one that was not."""
    whole, stopped = (StepStore(tmp_path / name, {}) for name in ("whole", "stopped"))
    whole_steps = [
        whole.begin(name, int, lambda: Finish(lambda: 1, lambda: True)) for name in "abc"
    ]
    for finish in reversed(whole_steps):
        finish.result()
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


@pytest.mark.parametrize(
    ("value", "document"),
    [
        (RankingResult(40), {"cases": 40}),
        (RankingResult(3, "few"), {"cases": 3, "too_few": "few"}),
        # optional fields are left out, others are null
        (
            GateResult(contexts=1, by_position={}, example=None),
            {"contexts": 1, "by_position": {}, "example": None},
        ),
        # no tuples, paths or infinite numbers
        ({1: (math.nan, Path("a") / "b", math.inf, 2.5)}, {"1": [None, "a/b", None, 2.5]}),
    ],
)
def test_results_as_json(value: object, document: object) -> None:
    assert to_json(value) == document


def test_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="cases"):
        from_json(RankingResult, {"systems": {}})


def test_the_documented_keys_are_all_there(results: ExperimentResults) -> None:
    document = to_json(results)

    assert list(document) == [
        "scenarios", "generation", "samples", "gates", "hidden_intent", "boundaries",
        "projections", "decoding", "data", "systems", "settings", "versions", "training",
        "new_visitors",
    ]  # fmt: skip
    result = document["scenarios"]["next_query"]
    keys = {"mrr", "mrr_low", "mrr_high", "hit_1", "hit_5", "mrr_by_seed", "cases"}
    assert keys | {"mrr_low_by_user", "mrr_high_by_user"} == set(result["systems"]["adj"])
    assert {"a", "b", "relative", "p"} <= set(result["comparisons"][0])
    assert document["scenarios"]["long_tail"]["systems"] == {}
    assert "rankers" not in document["scenarios"]["long_tail"]


def test_only_scenarios_with_enough_cases_are_reported(results: ExperimentResults) -> None:
    assert list(results.reported) == ["next_query"]
    assert results.main_systems == ["adj", "baseline", "baseline+hred:sum", "baseline+hred"]


def test_it_pays_from_where_every_larger_size_gains(curve: LearningCurve) -> None:
    assert curve.begins_to_pay("hred") == 2000
    assert curve.begins_to_pay("hred", level=0.0005) == 4000
    worse = replace(curve.points[-1], comparisons=())
    assert replace(curve, points=(*curve.points, worse)).begins_to_pay("hred") is None


def test_smaller_shares_of_the_users_are_part_of_larger_ones() -> None:
    users = [f"user {number}" for number in range(3000)]
    kept = [{user for user in users if keep_share(share)(user)} for share in SHARES]

    assert kept[-1] == set(users)
    for share, smaller, larger in zip(SHARES, kept, kept[1:], strict=False):
        assert smaller < larger
        assert len(smaller) == pytest.approx(share * 3000, rel=0.2)


@pytest.mark.slow
def test_count_systems_are_fitted_anew_and_a_given_one_is_not(
    small_data: PreparedData,
    shared_words: Scorer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps: Steps,
) -> None:
    monkeypatch.setattr("nextquery.evaluation.learning_curve.SHARES", (1 / 16, 1 / 4, 1.0))
    settings = ExperimentSettings(seeds=1, ranker_cases=200, generation_contexts=40)
    result = learning_curve(small_data, tmp_path, {"mine": shared_words}, settings, steps)

    sessions = [point.sessions for point in result.points]
    assert sessions == sorted(sessions)
    assert sessions[-1] == len(list(small_data.sessions("background")))
    assert "mine" not in result.refitted
    reciprocal_ranks = [point.ranking["mine"].mrr for point in result.points]
    # the same cases and system at every size, but for ties, which go by frequency
    assert max(reciprocal_ranks) - min(reciprocal_ranks) < 0.02
    assert result.points[0].ranking["adj"].mrr < result.points[-1].ranking["adj"].mrr
    coverage = [point.alone["adj"].coverage for point in result.points]
    assert coverage[0] is not None
    assert coverage[-1] is not None
    assert coverage[0] < coverage[-1]
    perplexity = [point.alone["qvmm"].perplexity for point in result.points]
    assert perplexity[0] is not None
    assert perplexity[-1] is not None
    assert perplexity[0] > perplexity[-1]
    assert result.points[0].alone["mine"].coverage is None
    assert not list(tmp_path.iterdir())
