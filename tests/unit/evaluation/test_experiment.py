import json
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


def test_all_sessions_are_tested_only_with_models_that_have_not_learnt_from_them(
    small_data: PreparedData, shared_words: Scorer, tmp_path: Path
) -> None:
    settings = ExperimentSettings(
        ("every_context",),
        seeds=1,
        ranker_cases=200,
        visitors="new",
        new_visitor_cases="all",
        generation_contexts=5,
        boundary_queries=100,
    )
    fit_model(Popularity, small_data).save(tmp_path / "model")
    with pytest.raises(InputError, match="'trained' has learnt from them"):
        run_experiment(
            small_data, tmp_path / "a", {"trained": tmp_path / "model"}, settings=settings
        )

    results = run_experiment(small_data, tmp_path / "b", {"mine": shared_words}, settings=settings)

    found = results.new_visitors["every_context"]
    sessions = [
        each
        for split in ("background", "training", "validation", "test")
        for each in small_data.sessions(split)
        if len(each.queries) > 1
    ]
    assert found.cases["test"] == len(sessions)
    assert found.users == len({each.user for each in sessions})
    gain = found.comparison("baseline+mine", "baseline")
    assert gain is not None
    assert gain.p_by_user is not None
    assert 0 <= gain.p_by_user <= 1
    assert gain.p_by_user != gain.p
