"""The paper's claims on a made-up log whose sessions have a hidden intent, and on its control.

Smaller than the log of docs/results/synthetic.md; the floors are far below its figures. In the
control the same queries are dealt to the sessions at random: there is nothing for a context to say.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from nextquery.config import load_config
from nextquery.evaluation.comparison import Comparison
from nextquery.evaluation.experiment import run_experiment
from nextquery.evaluation.scenario_run import ScenarioResult, find_comparison
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log
from nextquery.model.settings import RunConfig
from nextquery.training.distributed import Processes
from nextquery.training.run import train

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

THREE = ("next_query", "robust", "long_tail")


def scenarios(
    folder: Path, sessions: int, epochs: int, settings: ExperimentSettings, *, shuffled: bool
) -> Mapping[str, ScenarioResult]:
    """The scenarios of a made-up log with an HRED trained on it."""
    write_log(folder / "log.tsv", sessions, seed=1, shuffled=shuffled)
    prepare([folder / "log.tsv"], folder / "data", PrepareSettings(spelling=False))
    data = PreparedData(folder / "data")
    config = load_config(RunConfig, "tiny", (f"train.epochs={epochs}",))
    train(data, folder / "model", config, Processes(0, 1, torch.device("cpu")), say=print)
    results = run_experiment(data, folder / "report", {"hred": folder / "model"}, settings=settings)
    return results.scenarios


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, ScenarioResult]:
    settings = ExperimentSettings(
        THREE, seeds=1, generation_contexts=20, boundary_queries=1000, visitors="known"
    )
    folder = tmp_path_factory.mktemp("learnt")
    return scenarios(folder, 26_000, 6, settings, shuffled=False)


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, ScenarioResult]:
    settings = ExperimentSettings(
        ("every_context",),
        seeds=1,
        ranker_cases=1000,
        visitors="known",
        generation_contexts=20,
        boundary_queries=1000,
    )
    folder = tmp_path_factory.mktemp("control")
    return scenarios(folder, 6000, 3, settings, shuffled=True)


def gain(comparisons: tuple[Comparison, ...]) -> Comparison:
    """What HRED adds to the Baseline Ranker."""
    found = find_comparison(comparisons, "baseline+hred", "baseline")
    assert found is not None
    return found


@pytest.mark.parametrize("scenario", THREE)
def test_hred_improves_the_baseline_ranker(
    learnt: Mapping[str, ScenarioResult], scenario: str
) -> None:
    found = gain(learnt[scenario].comparisons)

    assert learnt[scenario].cases["test"] > 200
    assert found.relative > 0.10
    assert found.p < 0.01


def test_long_sessions_gain_more_than_short_ones(learnt: Mapping[str, ScenarioResult]) -> None:
    """Over the three scenarios together: one of them has only some 50 short sessions here."""
    by_length = {
        name: [gain(learnt[scenario].by_session_length[name].comparisons) for scenario in THREE]
        for name in ("short", "long")
    }
    short, long = (sum(each.difference for each in found) for found in by_length.values())

    assert long > short + 0.1
    assert all(each.p < 0.01 for each in by_length["long"])


@pytest.mark.parametrize("scenario", THREE)
def test_the_whole_context_beats_the_last_query(
    learnt: Mapping[str, ScenarioResult], scenario: str
) -> None:
    queries = learnt[scenario].by_context_length["hred"].queries

    assert queries["all"]["baseline+hred"].mrr > queries["1"]["baseline+hred"].mrr + 0.05
    assert queries["all"]["hred"].mrr > queries["2"]["hred"].mrr


def test_without_context_structure_hred_gains_nothing(
    control: Mapping[str, ScenarioResult],
) -> None:
    found = control["every_context"]

    assert found.cases["test"] > 300
    assert abs(gain(found.comparisons).difference) < 0.03
    assert found.systems["hred:lift"].mrr < 0.25
