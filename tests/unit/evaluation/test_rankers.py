"""Rankers, their processes, whole scenarios and TREC files."""

import json
import time
from collections.abc import Sequence
from multiprocessing.connection import Pipe
from pathlib import Path
from threading import Thread

import ir_measures
import numpy as np
import polars as pl
import pytest
from ir_measures import RR, Success

from nextquery.errors import InputError, NextqueryError
from nextquery.evaluation import rankers
from nextquery.evaluation.comparison import ADJ, BASELINE, SystemRanks, qualities
from nextquery.evaluation.rankers import (
    FORM_SETS,
    RankerJob,
    RankerProcesses,
    train_here,
    train_rankers,
)
from nextquery.evaluation.scenario_features import (
    EvaluationData,
    as_new_visitors,
    read_evaluation_data,
)
from nextquery.evaluation.scenario_run import ScenarioResult, begin_scenario
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.evaluation.steps import Steps
from nextquery.evaluation.systems import Systems
from nextquery.evaluation.trec import (
    read_run,
    topics,
    user_hash,
    write_cases,
    write_qrels,
    write_ranks,
    write_run,
)
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.privacy import pseudonym
from nextquery.ranking.cases import CaseSet, RankingCase, user_fold
from nextquery.ranking.features import BASELINE_FEATURES, FeatureTable, QueryVectors
from nextquery.ranking.lambdamart import RankedPart
from nextquery.ranking.scoring import FORMS
from nextquery.records import ScoredQuery
from nextquery.suggesters.base import Scorer
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.qvmm import QVMM

WITH_FORMS = (*BASELINE_FEATURES, *(f"hred:{form}" for form in FORMS), "other:sum")


def part(
    cases: int,
    seed: int,
    names: Sequence[str] = tuple(BASELINE_FEATURES),
    telling: str = "adj_count",
    difference: float = 1.0,
) -> RankedPart:
    """Ten candidates per case; one feature tells which of them is right, the others are noise."""
    generator = np.random.default_rng(seed)
    texts = tuple(f"q{number}" for number in range(10))
    targets = generator.integers(10, size=cases)
    made = CaseSet(
        RankingCase(n, ("a",), "a", texts, int(target), 2) for n, target in enumerate(targets)
    )
    values = generator.normal(size=(made.rows, len(names)))
    values[made.targets, names.index(telling)] += difference
    return RankedPart(made, FeatureTable(tuple(names), values))


def part_with_lift(cases: int, seed: int) -> RankedPart:
    """Only the lift of the model's score says which of ten candidates is right."""
    return part(cases, seed, WITH_FORMS, "hred:lift", 3.0)


@pytest.fixture
def job() -> RankerJob:
    return RankerJob(part(150, 1), part(80, 2), (1, 2), (), ())


@pytest.mark.slow
def test_a_process_of_its_own_trains_the_same_rankers(
    job: RankerJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = train_here(job).result()
    monkeypatch.setattr(rankers, "WORTH_A_PROCESS", 0)
    with RankerProcesses() as processes:
        apart = processes.train(job).result()

    test = part(50, 3).features
    assert apart.seconds > 0
    assert here.seconds == 0
    assert apart.choices == here.choices
    assert np.array_equal(apart.groups[BASELINE].scores(test), here.groups[BASELINE].scores(test))
    assert apart.groups[BASELINE].importances() == here.groups[BASELINE].importances()


def test_little_to_learn_from_is_learnt_at_once(job: RankerJob) -> None:
    with RankerProcesses() as processes:
        result = processes.train(job)
        assert result.done()
    assert result.result().seconds == 0


FAILING_PROCESS = """
import sys
from multiprocessing.connection import Connection
asker = Connection(int(sys.argv[1]))
asker.recv_bytes()
asker.send(ValueError("not in tuple"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "error", "message"),
    [(FAILING_PROCESS, ValueError, "not in tuple"), ("pass", NextqueryError, "trained rankers")],
)
def test_an_error_in_the_process_or_its_end_is_raised_here(
    job: RankerJob,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.setattr(rankers, "WORTH_A_PROCESS", 0)
    monkeypatch.setattr(rankers, "PROCESS", program)
    with RankerProcesses() as processes, pytest.raises(error, match=message):
        processes.train(job).result()


@pytest.mark.slow
def test_leaving_ends_what_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rankers, "WORTH_A_PROCESS", 0)
    long = RankerJob(part(4000, 1), part(4000, 2), tuple(range(100)), (), ())
    begin = time.perf_counter()
    with RankerProcesses() as processes:
        waiting = [processes.train(long) for _ in range(3)]
    # All rankers would take ten minutes.
    assert time.perf_counter() - begin < 60
    assert all(item.done() for item in waiting)
    assert waiting[2].cancelled()
    with pytest.raises(NextqueryError):
        waiting[0].result()


@pytest.mark.parametrize("asker_is_gone", [False, True])
def test_a_process_answers_an_error_unless_its_asker_is_gone(
    monkeypatch: pytest.MonkeyPatch, asker_is_gone: bool
) -> None:
    ours, theirs = Pipe()
    monkeypatch.setattr("sys.argv", ["-c", str(theirs.fileno())])
    monkeypatch.setattr(rankers, "Connection", lambda _: theirs)
    if asker_is_gone:
        ours.close()
        rankers.answer()
    else:
        thread = Thread(target=rankers.answer)
        thread.start()
        for _ in range(2):  # it waits for the next job
            ours.send("no job")
            assert isinstance(ours.recv(), AttributeError)
        ours.close()
        thread.join()
    assert theirs.closed


@pytest.mark.slow
def test_the_forms_that_help_on_the_validation_part_are_chosen() -> None:
    parts = part_with_lift(150, 1), part_with_lift(80, 2)
    trained = train_rankers(RankerJob(*parts, (1, 2, 3, 4), ("hred",), ("other",)))

    choices = trained.choices
    groups = {system.key: group for system, group in trained.groups.items()}
    assert set(groups) == {"baseline", "baseline+hred:sum", "baseline+hred", "baseline+other"}
    assert "lift" in groups["baseline+hred"].forms
    assert groups["baseline+hred:sum"].forms == ("sum",)
    assert set(choices["hred"]) == {"+".join(forms) for forms in FORM_SETS}
    assert choices["hred"]["lift"] > choices["hred"]["sum"] + 0.2
    assert {len(group.rankers) for group in groups.values()} == {4}, "one per seed"
    assert len({group.shape for group in groups.values()}) == 1, "that of the baseline"
    test = part_with_lift(50, 3)
    assert groups["baseline+hred"].scores(test.features).shape == (4, 500)


@pytest.mark.slow
@pytest.mark.parametrize("helps", [True, False])
def test_earlier_queries_are_used_where_validation_gains_by_them(helps: bool) -> None:
    """Without the earlier queries the lift is worth something, with them much or nothing."""

    def with_earlier(cases: int, seed: int) -> RankedPart:
        made = part_with_lift(cases, seed)
        generator = np.random.default_rng([seed, 1])
        names = [f"hred:earlier_{form}" for form in FORMS]
        columns = {name: generator.normal(size=made.cases.rows) for name in names}
        columns["hred:earlier_lift"][made.cases.targets] += 6.0 if helps else 0.0
        similar = {"earlier_similarity_1": generator.normal(size=made.cases.rows)}
        return RankedPart(made.cases, made.features.with_columns(columns | similar))

    parts = with_earlier(150, 1), with_earlier(80, 2)
    trained = train_rankers(RankerJob(*parts, (1, 2, 3), ("hred",), ()))

    choices = trained.choices
    groups = {system.key: group for system, group in trained.groups.items()}
    chosen = groups["baseline+hred:earlier"]
    assert ("earlier_lift" in chosen.forms) == helps
    assert (chosen.forms == groups["baseline+hred"].forms) == (not helps)
    assert set(choices["hred:earlier"]) > set(choices["hred"])
    assert groups["baseline_earlier+hred"].forms == chosen.forms
    assert "earlier_similarity_1" in groups["baseline_earlier"].rankers[0].names
    assert "earlier_similarity_1" not in chosen.rankers[0].names


@pytest.fixture(scope="module")
def qvmm(small_data: PreparedData) -> QVMM:
    return fit_model(QVMM, small_data)


@pytest.fixture(scope="module")
def evaluation(small_data: PreparedData) -> EvaluationData:
    return read_evaluation_data(small_data)


@pytest.fixture(scope="module")
def first(
    evaluation: EvaluationData,
    qvmm: QVMM,
    shared_words: Scorer,
    steps: Steps,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[ScenarioResult, Path]:
    """A whole scenario of one model and a sentence encoder, and the folder of its runs."""
    vectors = QueryVectors(lambda texts: [[text.count(c) for c in "aeiou"] for text in texts])
    systems = Systems({"qvmm": qvmm}, {"mine": shared_words}, query_vectors=vectors)
    settings = ExperimentSettings(seeds=2, ranker_cases=150, exports=("seeds", "learning"))
    folder = tmp_path_factory.mktemp("trec")
    finish = begin_scenario("every_context", evaluation, systems, settings, folder, steps)
    return finish.result(), folder


@pytest.mark.slow
def test_a_scenario_from_cases_to_results(
    first: tuple[ScenarioResult, Path], evaluation: EvaluationData
) -> None:
    result, folder = first
    assert set(result.systems) == {
        "adj", "baseline", "baseline+mine:sum", "baseline+mine", "mine", "mine:per_word",
        "mine:lift", "qvmm", "baseline_semantic", "baseline_semantic+mine",
    }  # fmt: skip
    assert result.systems["adj"].cases == result.cases["test"]
    assert result.unseen_users is not None
    assert set(result.unseen_users.systems) == set(result.systems)
    assert 0 < result.unseen_users.users <= result.cases["unseen_users"]
    with_meaning = {"baseline_semantic", "baseline_semantic+mine"}
    assert set(result.rankers) == {"baseline", "baseline+mine:sum", "baseline+mine"} | with_meaning
    assert "meaning_last" in result.rankers["baseline_semantic"].importances
    assert "mine:sum" not in result.rankers["baseline_semantic"].importances
    assert result.by_context_length["mine"].cases > 0
    assert result.users == len({item.user for item in evaluation.sessions["test"]})
    gain = result.comparison("baseline_semantic+mine", "baseline_semantic")
    assert gain is not None
    assert gain.p_by_user is not None
    assert gain.p_by_user != gain.p
    suffixes = {".qrels", ".run", ".ndjson", ".parquet", ".txt"}
    assert {file.suffix for file in folder.iterdir()} == suffixes
    runs = [file for file in folder.glob("*.run") if ".seed-" not in file.name]
    assert len(runs) == len(result.systems)


@pytest.mark.slow
def test_runs_agree_with_the_results_and_are_private(first: tuple[ScenarioResult, Path]) -> None:
    result, folder = first
    quality = result.systems["baseline+mine"]
    assert mrr_of(folder, "baseline+mine") == pytest.approx(quality.run_mrr)
    for seed, expected in enumerate(quality.mrr_by_seed, start=1):
        assert mrr_of(folder, f"baseline+mine.seed-{seed}") == pytest.approx(expected)
    assert result.systems["adj"].run_mrr is None
    assert mrr_of(folder, "adj") == pytest.approx(result.systems["adj"].mrr)
    private = list(folder.glob("*.cases.ndjson"))  # sessions of single visitors
    assert private
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in private)
    assert "0600" in (folder / "README.txt").read_text()


@pytest.mark.slow
def test_external_runs_are_compared_with_the_systems_and_can_feed_a_ranker(
    first: tuple[ScenarioResult, Path],
    small_data: PreparedData,
    evaluation: EvaluationData,
    qvmm: QVMM,
    shared_words: Scorer,
    tmp_path: Path,
    steps: Steps,
) -> None:
    """`again` is the run of a system, `theirs` has the learning cases, too."""
    systems = Systems({"qvmm": qvmm}, {"mine": shared_words})
    theirs = tmp_path / "every_context.theirs.run"
    theirs.write_text(run_of_shared_words(first[1], shared_words))
    runs = {
        "again": (first[1] / "every_context.mine.run",),
        "theirs": (theirs,),
        "other": (tmp_path / "robust.run",),
    }
    log = pl.read_csv(small_data.path.with_name("log.tsv"), separator="\t", infer_schema=False)
    ids = log["AnonID"].unique().sort()[::3]
    (tmp_path / "some.txt").write_text("\n".join(ids))
    settings = ExperimentSettings(
        seeds=2, ranker_cases=150, runs=runs, users_apart={"some": tmp_path / "some.txt"}
    )
    inputs = "every_context", evaluation, systems, settings, tmp_path, steps
    result = begin_scenario(*inputs, context_lengths=False).result()
    lines = theirs.read_text().splitlines(keepends=True)
    theirs.write_text("".join(lines[: len(lines) // 2]))
    with pytest.raises(InputError, match=r"lacks \d+ of"):
        begin_scenario(*inputs).result()

    assert result.systems["again"] == result.systems["theirs"] == result.systems["mine"]
    assert "other" not in result.systems, "it is of another scenario"
    assert {pair.b for pair in result.comparisons if pair.a == "again"} == {
        "adj", "baseline", "mine",
    }  # fmt: skip
    assert "baseline+again" not in result.systems, "it lacks the learning cases"
    top = result.systems["baseline+theirs"], result.systems["baseline+mine:sum"]
    assert top[0].mrr_by_seed == top[1].mrr_by_seed
    pairs = {(pair.a, pair.b): pair for pair in result.comparisons}
    assert pairs["baseline+theirs", "baseline+mine:sum"].difference == 0.0
    assert pairs["theirs", "mine"].p_holm == 1.0
    assert pairs["baseline+theirs", "baseline"].difference_low_by_user is not None
    assert not result.by_context_length, "it was not asked for"
    apart, some = result.by_user_group["some"], {str(pseudonym(text)) for text in ids}
    assert apart.cases == sum(item.user in some for item in evaluation.sessions["test"])
    assert apart.cases < result.cases["test"]
    assert set(apart.systems) == set(result.systems)


def test_too_few_cases_end_before_anything_is_scored(
    evaluation: EvaluationData, shared_words: Scorer, tmp_path: Path, steps: Steps
) -> None:
    settings = ExperimentSettings(min_followers=5000, seeds=1, ranker_cases=200)
    systems = Systems({}, {"mine": shared_words})
    result = begin_scenario("next_query", evaluation, systems, settings, tmp_path, steps).result()

    assert result.too_few is not None
    assert result.too_few.startswith("0 training cases, 100 needed; 0 validation cases")
    assert not result.systems
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_new_visitors_are_ranked_by_rankers_of_other_users(
    small_data: PreparedData, evaluation: EvaluationData, qvmm: QVMM, tmp_path: Path, steps: Steps
) -> None:
    """A model that gives away the answers of one half of the users must not help the other."""
    answers = {
        (session.queries[:-1], session.queries[-1])
        for split in ("training", "validation")
        for session in small_data.sessions(split)
        if user_fold(session.user, 2) == 0
    }

    class Insider:
        def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
            return [
                ScoredQuery(text, float((tuple(context), text) in answers), 2)
                for text in candidates
            ]

    evaluation = as_new_visitors(evaluation, small_data, tmp_path, 2)
    systems = Systems({"qvmm": qvmm}, {"insider": Insider()}).for_new_visitors()
    settings = ExperimentSettings(seeds=1, ranker_cases=400)
    result = begin_scenario(
        "every_context", evaluation, systems, settings, tmp_path, steps
    ).result()

    # one ranker learns from the insider's users, the other from the rest
    assert result.rankers["baseline+insider:sum"].importances["insider:sum"] == 0
    assert result.cases["test"] > 50
    assert not result.by_context_length
    assert (tmp_path / "new_every_context.qrels").is_file()


def mrr_of(folder: Path, system: str) -> float:
    qrels, run = (
        map(str.split, (folder / f"every_context.{name}").read_text().splitlines())
        for name in ("qrels", f"{system}.run")
    )
    answers = {(topic, document) for topic, _, document, _ in qrels}
    ranks = [int(rank) for topic, _, document, rank, *_ in run if (topic, document) in answers]
    return sum(1 / rank for rank in ranks) / len(ranks)


def run_of_shared_words(folder: Path, scorer: Scorer) -> str:
    lines = []
    for file in sorted(folder.glob("every_context.*cases.ndjson")):
        for topic in map(json.loads, file.read_text().splitlines()):
            for index, scored in enumerate(scorer.score(topic["context"], topic["candidates"])):
                lines.append(f"{topic['topic']} Q0 c{index} 1 {scored.log_likelihood} theirs\n")
    return "".join(lines)


def test_ir_measures_finds_the_same_figures_even_with_ties(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    texts = tuple(f"q{number}" for number in range(20))
    made = [
        RankingCase(n, ("a",), "a", texts[:size], int(generator.integers(size)), 2)
        for n, size in enumerate(generator.integers(5, 21, size=300))
    ]
    cases = CaseSet(made)
    scores = generator.integers(0, 6, size=cases.rows).astype(np.float64)
    write_qrels(tmp_path / "qrels", cases)
    write_run(tmp_path / "run", cases, scores, "coin")

    theirs = ir_measures.calc_aggregate(
        [RR, Success @ 1, Success @ 5],
        ir_measures.read_trec_qrels(str(tmp_path / "qrels")),  # type: ignore[no-untyped-call]
        ir_measures.read_trec_run(str(tmp_path / "run")),  # type: ignore[no-untyped-call]
    )

    [ours] = qualities({ADJ: cases.ranks(scores)[None]}, ["u"] * len(cases)).values()
    assert theirs[RR] == pytest.approx(ours.mrr, abs=1e-12)
    assert theirs[Success @ 1] == pytest.approx(ours.hit_1, abs=1e-12)
    assert theirs[Success @ 5] == pytest.approx(ours.hit_5, abs=1e-12)


CASES = CaseSet(RankingCase(number, ("a",), "a", ("q0", "q1", "q2"), 1, 2) for number in (7, 9))


def test_a_run_that_was_written_is_read_with_the_same_order(tmp_path: Path) -> None:
    scores = np.array([0.5, 2.0, 1.0, 3.0, 3.0, 9.0])
    write_run(tmp_path / "run", CASES, scores, "mine")
    result = read_run(tmp_path / "run").of(CASES)
    assert CASES.ranks(result).tolist() == CASES.ranks(scores).tolist()


def test_candidates_that_a_run_leaves_out_come_last(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("7 Q0 c1 1 -5.5 x\n\n8 Q0 c99 1 1 other-case\n9 Q0 c2 1 3 x\n")
    scores = read_run(tmp_path / "run").of(CASES)
    assert scores.tolist() == [-np.inf, -5.5, -np.inf, -np.inf, -np.inf, 3.0]
    assert CASES.ranks(scores)[0] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7 Q0 c1 1 2\n", "line 1: must be TOPIC Q0 cNUMBER RANK SCORE NAME"),
        ("7 Q0 c1 1 high x\n", "line 1: must be TOPIC Q0 cNUMBER RANK SCORE NAME"),
        ("7 Q0 1 1 2 x\n", "line 1: topic 7 has no candidate 1"),
        ("7 Q0 c1 1 2 x\n9 Q0 c3 1 2 x\n", "topic 9 has no candidate c3"),
        ("7 Q0 c1 1 nan x\n", "line 1: the score of c1 is not a number"),
        ("7 Q0 c1 1 2 x\n7 Q0 c1 2 1 x\n", "line 2: topic 7 has c1 twice"),
        ("8 Q0 c1 1 2 x\n", "lacks 2 of 2 topics, such as 7"),
        ("7 Q0 c1 1 2 x\n", "lacks 1 of 2 topics, such as 9"),
    ],
)
def test_a_wrong_run_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "run").write_text(text)
    with pytest.raises(InputError, match=message):
        read_run(tmp_path / "run").of(CASES)


def test_cases_say_what_a_run_is_made_from(tmp_path: Path) -> None:
    write_cases(tmp_path / "cases", CASES)
    first, _ = map(json.loads, (tmp_path / "cases").read_text().splitlines())
    assert first == {"topic": "7", "context": ["a"], "candidates": ["q0", "q1", "q2"]}
    assert (tmp_path / "cases").stat().st_mode & 0o777 == 0o600  # sessions of single visitors


def test_a_session_with_several_cases_has_several_topics() -> None:
    made = [
        RankingCase(n, ("a",), "a", ("q",), 0, length) for n, length in ((7, 2), (7, 3), (8, 2))
    ]
    assert topics(CaseSet(made)) == ["7-2", "7-3", "8"]


def test_the_table_of_ranks_has_every_case_by_system_and_seed(tmp_path: Path) -> None:
    path = tmp_path / "next_query.ranks.parquet"
    ranks = {ADJ: np.array([[1, 2]]), BASELINE: np.array([[1, 4], [2, 4]])}
    write_ranks(path, {"test": SystemRanks(CASES, ranks)})

    assert path.stat().st_mode & 0o777 == 0o600
    table = pl.read_parquet(path)
    assert table.columns == [
        "split", "case", "user", "length", "system", "seed", "reciprocal_rank",
    ]  # fmt: skip
    second = table.filter(system="baseline", seed=2)
    assert second["reciprocal_rank"].to_list() == [0.5, 0.25]
    assert second["case"].to_list() == ["7", "9"]
    assert set(table["user"]) == {user_hash("")}
    assert len(table) == 6
