import json
from dataclasses import replace
from pathlib import Path

import pytest

from nextquery.artifacts import open_artifact
from nextquery.errors import ArtifactError, InputError
from nextquery.evaluation.experiment import COUNT_MODELS, run_experiment
from nextquery.evaluation.record_json import to_json
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.base import Scorer
from nextquery.suggesters.fitting.fit import fit_model
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


def test_an_encoder_that_is_not_there_is_refused_before_anything_is_fitted(
    small_data: PreparedData, shared_words: Scorer, tmp_path: Path
) -> None:
    settings = replace(QUICK, encoder="no_such_module:encode")
    with pytest.raises(InputError, match=r"`encoder` no_such_module:encode"):
        run_experiment(small_data, tmp_path / "a", {"mine": shared_words}, settings=settings)
