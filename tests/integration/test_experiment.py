"""The whole experiment on a small made-up log: its files, its shape, and going on after a stop."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ir_measures
import pytest
import torch
from ir_measures import RR
from typer.testing import CliRunner

from nextquery.artifacts import publish
from nextquery.cli.main import app
from nextquery.evaluation.experiment import run_experiment
from nextquery.evaluation.scenarios import SCENARIOS, Rules, Scenario, every_context_cases
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.evaluation.steps import FOLDER
from nextquery.guard.tables import write_tables
from nextquery.inference.native import native_library
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log
from nextquery.model.hred import HRED
from nextquery.model.settings import KIND, ModelConfig
from nextquery.ranking.cases import Backgrounds, CaseSet
from nextquery.records import ScoredQuery, Session
from nextquery.text.vocabulary import Vocabulary

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

QUICK = ("--min-followers", "5", "--seeds", "1", "--generation-contexts", "20")
KNOWN = "known"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("experiment")
    write_log(folder / "log.tsv", 10_000, seed=1, shuffled=False)
    settings = PrepareSettings(spelling=False, holdout_users=0.1)
    prepare([folder / "log.tsv"], folder / "data", settings)
    return folder / "data"


@pytest.fixture(scope="module")
def model(data: Path) -> Path:
    """An untrained model: all its parts are there, and quick."""
    config = ModelConfig(embedding_size=8, query_size=12, session_size=16, copy=True)
    torch.manual_seed(1)
    hred = HRED(config, Vocabulary(PreparedData(data).words()))
    with publish(data.parent / "model", KIND, hred.manifest_entries()) as folder:
        hred.write_files(folder)
        write_tables(PreparedData(data), folder)
    return data.parent / "model"


@pytest.fixture(scope="module")
def report(data: Path, model: Path) -> Path:
    out = data.parent / "report"
    command = ["experiment", str(data), "--model", str(model), "--out", str(out), *QUICK]
    answer = CliRunner().invoke(app, [*command, "--json"])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout) == results_of(out)
    return out


def results_of(report: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((report / "results.json").read_text(encoding="utf-8"))
    return found


def test_results_have_the_documented_shape(report: Path) -> None:
    results = results_of(report)

    assert set(results["scenarios"]) == set(SCENARIOS)
    for found in results["scenarios"].values():
        assert {"training", "validation", "test", "unseen_users"} <= set(found["cases"])
        assert {"adj", "baseline", "baseline+hred", "hred", "qvmm", "cacb", "ss"} <= set(
            found["systems"]
        )
        assert {"baseline_authors", "baseline_authors+hred:sum"} <= set(found["systems"])
        for figures in found["systems"].values():
            assert 0 < figures["mrr_low"] <= figures["mrr"] <= figures["mrr_high"] <= 1
        assert {"a", "b", "relative", "p"} <= set(found["comparisons"][0])
    assert "systems" in results["scenarios"]["every_context"]["unseen_users"]
    assert set(results["new_visitors"]) == set(SCENARIOS)
    new = results["new_visitors"]["every_context"]
    assert new["cases"] == results["scenarios"]["every_context"]["cases"]
    assert "cacb" not in new["systems"]
    assert (
        new["systems"]["adj"]["mrr"]
        < results["scenarios"]["every_context"]["systems"]["adj"]["mrr"]
    )
    assert results["settings"]["min_followers"] == 5
    assert results["gates"]["hred"]["contexts"] > 30
    assert "hred gates" in results["boundaries"]["systems"]
    assert len(results["projections"]["hred"]["words"]) == 300
    assert results["decoding"]["hred"]["contexts"] == 20
    assert results["decoding"]["hred"]["median_ms"] > 0


def test_no_single_feature_gives_the_answer_of_every_context_away(report: Path) -> None:
    found = results_of(report)["scenarios"]["every_context"]

    assert max(found["single_features"].values()) < 0.5
    assert found["single_features"]["frequency"] < 0.25


@pytest.mark.parametrize("system", ["adj", "baseline", "baseline+hred", "hred", "ss"])
def test_ir_measures_agrees_with_the_report(report: Path, system: str) -> None:
    for scenario, found in results_of(report)["scenarios"].items():
        qrels = report / "trec" / f"{scenario}.qrels"
        run = report / "trec" / f"{scenario}.{system}.run"
        theirs = ir_measures.calc_aggregate(
            [RR],
            ir_measures.read_trec_qrels(str(qrels)),  # type: ignore[no-untyped-call]
            ir_measures.read_trec_run(str(run)),  # type: ignore[no-untyped-call]
        )
        assert theirs[RR] == pytest.approx(found["systems"][system]["mrr_by_seed"][0], abs=1e-12)


def test_the_page_opens_offline_with_all_its_figures(report: Path) -> None:
    page = (report / "index.html").read_text(encoding="utf-8")

    assert not re.findall(r"(?:src|href)=[\"'](?:https?:)?//", page)
    files = re.findall(r'<img src="([^"]+)"', page)
    assert len(files) > 8
    for file in files:
        assert (report / file).read_text(encoding="utf-8").startswith("<?xml")
    assert "0.5563" in page  # the paper's own figure stands beside ours


def test_a_stopped_run_goes_on_and_gives_the_same(data: Path, model: Path, report: Path) -> None:
    before = without_times(report)
    (report / FOLDER / "robust.json").unlink()
    (report / FOLDER / "gates.json").unlink()
    kept = (report / FOLDER / "next_query.json").stat().st_mtime_ns
    command = ["experiment", str(data), "--model", str(model), "--out", str(report), *QUICK]

    answer = CliRunner().invoke(app, command)

    assert answer.exit_code == 0, answer.output
    assert without_times(report) == before
    assert (report / FOLDER / "next_query.json").stat().st_mtime_ns == kept


def without_times(report: Path) -> str:
    """What was found and in which order, without how long it took."""
    results = results_of(report)
    assert set(results.pop("seconds")) >= {"robust", "gates"}
    for scenario in (*results["scenarios"].values(), *results["new_visitors"].values()):
        scenario.pop("ranker_seconds", None)
    return json.dumps(results)


class SharedWords:
    """A system of one's own: counts the words that a candidate shares with the context."""

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        known = {word for query in context for word in query.split()}
        return [
            ScoredQuery(text, float(len(known & set(text.split()))), len(text.split()))
            for text in candidates
        ]


def test_a_system_of_ones_own_takes_part(data: Path, tmp_path: Path) -> None:
    settings = ExperimentSettings(("every_context",), seeds=1, ranker_cases=500, visitors=KNOWN)
    results = run_experiment(
        PreparedData(data), tmp_path, {"mine": SharedWords()}, settings=settings
    )

    found = results.scenarios["every_context"]
    assert found.cases["training"] == 500
    assert found.systems["mine"].mrr > 0.2
    assert "baseline+mine" in found.systems


def test_a_scenario_with_too_few_cases_says_so(data: Path, tmp_path: Path) -> None:
    settings = ExperimentSettings(("long_tail",), min_followers=2000, generation_contexts=5)
    systems = {"mine": SharedWords()}
    results = run_experiment(PreparedData(data), tmp_path, systems, settings=settings)

    assert "0 training cases" in (results.scenarios["long_tail"].too_few or "")
    assert results.scenarios["long_tail"].systems == {}
    assert results_of(tmp_path)["scenarios"]["long_tail"]["systems"] == {}
    assert "Too few cases" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_a_further_scenario_is_one_function_and_one_row(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def two_queries(sessions: Sequence[Session], backgrounds: Backgrounds, rules: Rules) -> CaseSet:
        short = [session for session in sessions if len(session.queries) == 2]
        return every_context_cases(short, backgrounds, rules)

    monkeypatch.setitem(SCENARIOS, "two_queries", Scenario("Sessions of two queries", two_queries))
    settings = ExperimentSettings(("two_queries",), seeds=1, generation_contexts=5, visitors=KNOWN)
    results = run_experiment(
        PreparedData(data), tmp_path, {"mine": SharedWords()}, settings=settings
    )

    assert results.scenarios["two_queries"].session_lengths["short"] == 1.0
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "<h3>Sessions of two queries</h3>" in page


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
    data: Path, model: Path, tmp_path: Path, options: list[str], complaint: str
) -> None:
    given = [option.replace("MODEL", str(model)) for option in options]
    answer = CliRunner().invoke(app, ["experiment", str(data), "--out", str(tmp_path), *given])

    assert answer.exit_code != 0
    assert complaint in str(answer.exception)


def test_rankers_are_the_same_with_and_without_compiled_kernels(
    data: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HRED's scores differ in their last bits; trees, choices and MRRs of the rankers do not."""
    settings = ExperimentSettings(
        ("every_context",),
        seeds=1,
        ranker_cases=100,
        visitors=KNOWN,
        generation_contexts=5,
        completion_contexts=5,
    )
    if native_library() is None:
        pytest.skip("nextquery-native is not installed")
    compiled = run_experiment(
        PreparedData(data), tmp_path / "1", {"hred": model}, settings=settings
    )
    monkeypatch.setattr("nextquery.inference.hred_network.native_library", lambda: None)
    arrays = run_experiment(PreparedData(data), tmp_path / "2", {"hred": model}, settings=settings)

    first, second = compiled.scenarios["every_context"], arrays.scenarios["every_context"]
    assert first.rankers == second.rankers
    assert first.form_choices == second.form_choices
    for system in ("baseline", "baseline+hred:sum", "baseline+hred", "baseline_authors+hred:sum"):
        assert first.systems[system] == second.systems[system]
