import json
from dataclasses import replace
from pathlib import Path

import pytest

from nextquery.artifacts import open_artifact
from nextquery.errors import ArtifactError, InputError
from nextquery.evaluation.experiment import COUNT_MODELS, run_experiment
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.evaluation.steps import to_json
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.base import Scorer
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.popularity import Popularity

QUICK = ExperimentSettings(("long_tail",), generation_contexts=5, boundary_queries=100)


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
    assert not (tmp_path / COUNT_MODELS).exists()


def test_a_folder_that_is_no_report_is_left_alone(
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
    assert again() == set()
    labels.write_text("\n".join(["user,query,session", *reversed(rows)]))
    assert again() == {"boundaries"}
    users.write_text("bob\n")
    assert again() == {"long_tail", "new_long_tail"}
    (tmp_path / "weight.txt").write_text("2")
    assert again() == everything


ENCODER = """
import os
from pathlib import Path
def encode(texts):
    weight = float(Path(os.environ["WEIGHT"]).read_text())
    return [[len(text), weight * text.count("a"), 1.0] for text in texts]
"""


def test_files_that_are_not_there_are_refused_before_the_first_step(
    small_data: PreparedData, shared_words: Scorer, tmp_path: Path
) -> None:
    for settings, message in (
        (replace(QUICK, boundary_labels=tmp_path / "none.csv"), r"`boundary_labels` .*none\.csv"),
        (replace(QUICK, boundary_labels=tmp_path), "`boundary_labels`"),
        (replace(QUICK, learning_curve_config="none.toml"), r"none\.toml"),
    ):
        with pytest.raises(InputError, match=message):
            run_experiment(small_data, tmp_path / "a", {"mine": shared_words}, settings=settings)
        assert not (tmp_path / "a" / "steps").exists()


def test_an_encoder_that_is_not_there_is_refused_before_anything_is_fitted(
    small_data: PreparedData, shared_words: Scorer, tmp_path: Path
) -> None:
    settings = replace(QUICK, encoder="no_such_module:encode")
    with pytest.raises(InputError, match=r"`encoder` no_such_module:encode"):
        run_experiment(small_data, tmp_path / "a", {"mine": shared_words}, settings=settings)
