"""An experiment on a synthetic log with a trained HRED: the paper's claims, the report, resuming.

The sessions of the log have a hidden intent that the context shows better than the last query. In
the control the same queries are dealt to the sessions at random, so that a context is worth
nothing. The figures of docs/results come from a larger log.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ir_measures
import pytest
import torch
from ir_measures import RR
from tests.conftest import run_command
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.config import load_config
from nextquery.evaluation.experiment import run_experiment
from nextquery.evaluation.probes.likelihood import KneserNey
from nextquery.evaluation.scenario_run import ScenarioResult
from nextquery.evaluation.scenarios import SCENARIOS, Rules, Scenario, every_context_cases
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.evaluation.steps import FOLDER
from nextquery.inference.native import native_library
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log
from nextquery.model.settings import RunConfig
from nextquery.ranking.cases import Backgrounds, CaseSet
from nextquery.records import ScoredQuery, Session
from nextquery.text.corpus import SessionLimits, encode_sessions
from nextquery.text.vocabulary import Vocabulary
from nextquery.training.distributed import Processes
from nextquery.training.run import train
from nextquery.training.trainer import Perplexity

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

QUICK = ("--min-followers", "5", "--seeds", "1", "--ranker-cases", "500",
         "--generation-contexts", "20", "--completion-contexts", "5")  # fmt: skip
FEW = ExperimentSettings(
    ("every_context",),
    seeds=1,
    ranker_cases=300,
    visitors="known",
    generation_contexts=1,
    completion_contexts=1,
    boundary_queries=500,
)


@dataclass(frozen=True)
class Learnt:
    """A prepared synthetic log and an HRED trained on it."""

    folder: Path
    perplexity: Mapping[int | None, Perplexity]
    """Of the validation sessions, by the number of earlier queries that the model sees."""

    @property
    def data(self) -> PreparedData:
        return PreparedData(self.folder / "data")

    @property
    def model(self) -> Path:
        return self.folder / "model"

    def context_gain(self) -> float:
        """What the whole context adds to the last query alone, in nats per symbol."""
        return self.perplexity[1].nll - self.perplexity[None].nll


def learn(folder: Path, sessions: int, epochs: int, *, shuffled: bool) -> Learnt:
    write_log(folder / "log.tsv", sessions, seed=1, shuffled=shuffled)
    settings = PrepareSettings(spelling=False, holdout_users=0.1)
    prepare([folder / "log.tsv"], folder / "data", settings)
    config = load_config(RunConfig, "tiny", (f"train.epochs={epochs}", "train.rate=0.008"))
    alone = Processes(0, 1, torch.device("cpu"))
    outcome = train(PreparedData(folder / "data"), folder / "model", config, alone, say=print)
    assert outcome.facts is not None
    return Learnt(folder, dict(outcome.facts.perplexity))


@pytest.fixture
def no_projections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the figure that takes longest."""
    monkeypatch.setattr("nextquery.evaluation.probes.gates.POINTS", 1)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Learnt:
    return learn(tmp_path_factory.mktemp("learnt"), 10_000, 3, shuffled=False)


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Learnt:
    return learn(tmp_path_factory.mktemp("control"), 5000, 2, shuffled=True)


def test_perplexity_is_well_below_ngrams(learnt: Learnt, tmp_path: Path) -> None:
    config = load_config(RunConfig, "tiny")
    vocabulary = Vocabulary(learnt.data.words()[: config.model.vocabulary_size])
    limits = SessionLimits(config.train.max_queries, config.train.max_words)
    background, validation = (
        encode_sessions(learnt.data.sessions(split), vocabulary, limits, tmp_path / split)
        for split in ("background", "validation")
    )
    unigrams, bigrams = (KneserNey(background, n).measure(validation).perplexity for n in (1, 2))
    assert learnt.perplexity[None].perplexity < 0.1 * unigrams
    assert learnt.perplexity[None].perplexity < 0.8 * bigrams


def test_only_real_sessions_have_a_context_to_use(learnt: Learnt, control: Learnt) -> None:
    assert learnt.context_gain() > 0.08
    seen = learnt.perplexity
    assert seen[0].nll > seen[1].nll > seen[2].nll
    assert abs(control.context_gain()) < 0.02


# The report of the trained model, made once by the command.


@pytest.fixture(scope="module")
def report(learnt: Learnt) -> Path:
    out = learnt.folder / "report"
    answer = experiment(learnt, out, "--json")
    assert json.loads(answer) == results_of(out)
    return out


def experiment(learnt: Learnt, out: Path, *more: str) -> str:
    words = [learnt.data.path, "--model", f"hred={learnt.model}", "--out", out]
    return run_command("experiment", *words, *QUICK, *more)


def results_of(report: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((report / "results.json").read_text(encoding="utf-8"))
    return results


def gain(comparisons: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What HRED adds to the Baseline Ranker."""
    pairs = {(pair["a"], pair["b"]): pair for pair in comparisons}
    return pairs["baseline+hred", "baseline"]


def test_hred_improves_the_baseline_ranker(report: Path) -> None:
    results = results_of(report)
    known, new = (results[part]["every_context"] for part in ("scenarios", "new_visitors"))
    assert known["cases"]["test"] > 500
    assert gain(known["comparisons"])["relative"] > 0.03
    assert gain(known["comparisons"])["p"] < 0.01
    assert gain(new["comparisons"])["relative"] > 0.05
    assert gain(new["comparisons"])["p"] < 0.001


def test_long_sessions_gain_more_than_short_ones(report: Path) -> None:
    parts = results_of(report)["new_visitors"]["every_context"]["by_session_length"]
    short, long = (gain(parts[length]["comparisons"]) for length in ("short", "long"))
    assert long["difference"] > short["difference"] + 0.03
    assert long["p"] < 0.001


def test_the_whole_context_beats_the_last_query(report: Path) -> None:
    seen = results_of(report)["scenarios"]["every_context"]["by_context_length"]["hred"]
    mrr = {number: systems["baseline+hred"]["mrr"] for number, systems in seen["queries"].items()}
    assert mrr["all"] > mrr["1"] + 0.03
    [p] = [pair["p"] for pair in seen["comparisons"] if (pair["a"], pair["b"]) == ("all", "1")]
    assert p < 0.001


def few_cases(learnt: Learnt, name: str) -> ScenarioResult:
    """A quick experiment."""
    models, out = {"hred": learnt.model}, learnt.folder / name
    return run_experiment(learnt.data, out, models, settings=FEW).scenarios["every_context"]


@pytest.fixture(scope="module")
def control_result(control: Learnt) -> ScenarioResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nextquery.evaluation.probes.gates.POINTS", 1)
        return few_cases(control, "report")


def test_without_context_structure_hred_gains_nothing(control_result: ScenarioResult) -> None:
    result = control_result
    assert result.cases["test"] > 300
    [difference] = [
        pair.difference
        for pair in result.comparisons
        if (pair.a, pair.b) == ("baseline+hred", "baseline")
    ]
    assert abs(difference) < 0.03
    assert result.systems["hred:lift"].mrr < 0.25


def test_results_have_the_documented_shape(report: Path) -> None:
    results = results_of(report)
    assert set(results["scenarios"]) == set(results["new_visitors"]) == set(SCENARIOS)
    for result in results["scenarios"].values():
        assert {"training", "validation", "test", "unseen_users"} <= set(result["cases"])
        assert {
            *("adj", "baseline", "baseline+hred", "hred", "qvmm", "cacb", "ss"),
            *("baseline_authors", "baseline_authors+hred:sum"),
        } <= set(result["systems"])
        for figures in result["systems"].values():
            assert 0 < figures["mrr_low"] <= figures["mrr"] <= figures["mrr_high"] <= 1
        assert {"a", "b", "relative", "p"} <= set(result["comparisons"][0])
    every, new = results["scenarios"]["every_context"], results["new_visitors"]["every_context"]
    assert "systems" in every["unseen_users"]
    assert new["cases"] == every["cases"]
    assert "cacb" not in new["systems"]
    assert new["systems"]["adj"]["mrr"] < every["systems"]["adj"]["mrr"]
    assert results["settings"]["min_followers"] == 5
    assert results["gates"]["hred"]["contexts"] > 30
    assert "hred gates" in results["boundaries"]["systems"]
    assert len(results["projections"]["hred"]["words"]) == 300
    assert results["decoding"]["hred"]["contexts"] == 20
    assert results["decoding"]["hred"]["median_ms"] > 0
    # No single feature gives the answer away.
    assert max(every["single_features"].values()) < 0.5
    assert every["single_features"]["frequency"] < 0.25


@pytest.mark.parametrize("system", ["adj", "baseline+hred", "hred"])
def test_ir_measures_agrees_with_the_report(report: Path, system: str) -> None:
    for scenario, result in results_of(report)["scenarios"].items():
        qrels = report / "trec" / f"{scenario}.qrels"
        run = report / "trec" / f"{scenario}.{system}.run"
        theirs = ir_measures.calc_aggregate(
            [RR],
            ir_measures.read_trec_qrels(str(qrels)),  # type: ignore[no-untyped-call]
            ir_measures.read_trec_run(str(run)),  # type: ignore[no-untyped-call]
        )
        assert theirs[RR] == pytest.approx(result["systems"][system]["mrr_by_seed"][0], abs=1e-12)


def test_the_page_opens_offline_with_all_its_figures(report: Path) -> None:
    page = (report / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r"(?:src|href)=[\"'](?:https?:)?//", page)
    files = re.findall(r'<img src="([^"]+)"', page)
    assert len(files) > 8
    assert all((report / file).is_file() for file in files)
    assert "0.5563" in page  # the paper's own figure is next to ours


def test_a_stopped_run_resumes_with_the_same_results(learnt: Learnt, report: Path) -> None:
    before = without_times(report)
    (report / FOLDER / "robust.json").unlink()
    (report / FOLDER / "gates.json").unlink()
    kept = (report / FOLDER / "next_query.json").stat().st_mtime_ns
    experiment(learnt, report)
    assert without_times(report) == before
    assert (report / FOLDER / "next_query.json").stat().st_mtime_ns == kept


def without_times(report: Path) -> str:
    """All results in their order, without how long they took."""
    results = results_of(report)
    assert set(results.pop("seconds")) >= {"robust", "gates"}
    for scenario in (*results["scenarios"].values(), *results["new_visitors"].values()):
        scenario.pop("ranker_seconds", None)
    return json.dumps(results)


# Short experiments on a part of the log.


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    folder = tmp_path_factory.mktemp("small")
    write_log(folder / "log.tsv", 6000, seed=1)
    prepare([folder / "log.tsv"], folder / "data", PrepareSettings(spelling=False, min_users=1))
    return PreparedData(folder / "data")


class SharedWords:
    """A system of a user: counts the words that a candidate shares with the context."""

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        known = {word for query in context for word in query.split()}
        return [
            ScoredQuery(text, float(len(known & set(text.split()))), len(text.split()))
            for text in candidates
        ]


def test_a_system_and_a_scenario_can_be_added_and_too_few_cases_are_reported(
    small: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def two_queries(sessions: Sequence[Session], backgrounds: Backgrounds, rules: Rules) -> CaseSet:
        short = [session for session in sessions if len(session.queries) == 2]
        return every_context_cases(short, backgrounds, rules)

    monkeypatch.setitem(SCENARIOS, "two_queries", Scenario("Sessions of two queries", two_queries))
    settings = replace(
        FEW, scenarios=("two_queries", "long_tail"), min_followers=2000, ranker_cases=100
    )
    results = run_experiment(small, tmp_path, {"mine": SharedWords()}, settings=settings)
    added, empty = results.scenarios["two_queries"], results.scenarios["long_tail"]
    assert added.session_lengths["short"] == 1.0
    assert added.cases["training"] == 100
    assert added.systems["mine"].mrr > 0.2
    assert "baseline+mine" in added.systems
    assert "0 training cases" in (empty.too_few or "")
    assert empty.systems == {}
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "<h3>Sessions of two queries</h3>" in page
    assert "Too few cases" in page


def test_rankers_are_the_same_with_and_without_compiled_kernels(
    control: Learnt,
    control_result: ScenarioResult,
    monkeypatch: pytest.MonkeyPatch,
    no_projections: None,
) -> None:
    """HRED's scores differ in their last bits; trees, choices and MRRs of the rankers do not."""
    if native_library() is None:
        pytest.skip("nextquery-native is not installed")
    monkeypatch.setattr("nextquery.inference.hred_network.native_library", lambda: None)
    first, second = control_result, few_cases(control, "arrays")
    assert first.rankers == second.rankers
    assert first.form_choices == second.form_choices
    for system in ("baseline", "baseline+hred:sum", "baseline+hred", "baseline_authors+hred:sum"):
        assert first.systems[system] == second.systems[system]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--model", "adj=MODEL"], "none of adj"),
        (["--model", "MODEL", "--model", "MODEL"], "is taken"),
        (["--model", "MODEL", "--scenario", "nowhere"], "must be one of"),
        (["--model", "nothing/here"], "no such folder"),
        (["--model", "MODEL", "--visitors", "old"], "must be one of known, new, both"),
        (["--model", "MODEL", "--fold-config", "tiny"], "write NAME=CONFIG"),
        (["--model", "MODEL", "--fold-config", "x=tiny"], "no model under study"),
        (["--model", "MODEL", "--new-visitor-cases", "all"], "has learnt from them"),
        (["--model", "MODEL", "--new-visitor-cases", "some"], "must be one of test, all"),
    ],
)
def test_bad_input_is_one_clear_line(
    learnt: Learnt, tmp_path: Path, options: list[str], complaint: str
) -> None:
    words = [option.replace("MODEL", str(learnt.model)) for option in options]
    command = ["experiment", str(learnt.data.path), "--out", str(tmp_path), *words]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code != 0
    assert complaint in str(answer.exception)
