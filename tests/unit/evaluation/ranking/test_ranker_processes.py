"""Rankers trained in separate processes."""

import time
from multiprocessing.connection import Pipe

import numpy as np
import pytest

from nextquery.errors import NextqueryError
from nextquery.evaluation import ranker_process, rankers
from nextquery.evaluation.ranked_system import BASELINE
from nextquery.evaluation.rankers import RankerJob, RankerProcesses, train_here
from nextquery.ranking.cases import CaseSet, RankingCase
from nextquery.ranking.features import BASELINE_FEATURES, FeatureTable
from nextquery.ranking.lambdamart import RankedPart


def part(cases: int, seed: int) -> RankedPart:
    """Ten candidates each; one feature says a little of which is right."""
    generator = np.random.default_rng(seed)
    made = CaseSet(
        tuple(
            RankingCase(number, ("a",), "a", ("q",) * 10, int(generator.integers(10)), 2)
            for number in range(cases)
        )
    )
    values = generator.normal(size=(made.rows, len(BASELINE_FEATURES)))
    values[made.targets, 0] += 1.0
    return RankedPart(made, FeatureTable(tuple(BASELINE_FEATURES), values))


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
        found = processes.train(job)
        assert found.done()
    assert found.result().seconds == 0


@pytest.mark.slow
def test_an_error_in_the_process_is_raised_here(
    job: RankerJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rankers, "WORTH_A_PROCESS", 0)
    unknown = RankerJob(job.training, job.validation, job.seeds, ("nobody",), ())
    with RankerProcesses() as processes, pytest.raises(ValueError, match="not in tuple"):
        processes.train(unknown).result()


@pytest.mark.slow
def test_a_process_that_ends_is_named(job: RankerJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rankers, "WORTH_A_PROCESS", 0)
    monkeypatch.setattr(rankers, "PROCESS", "this")  # prints and ends
    with RankerProcesses() as processes, pytest.raises(NextqueryError, match="trained rankers"):
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
    assert all(each.done() for each in waiting)
    assert waiting[2].cancelled()
    with pytest.raises(NextqueryError):
        waiting[0].result()


def test_an_error_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = Pipe()
    monkeypatch.setattr("sys.argv", ["ranker_process", str(theirs.fileno())])
    monkeypatch.setattr(ranker_process, "Connection", lambda _: theirs)
    ours.send("no job")
    ranker_process.main()

    assert isinstance(ours.recv(), AttributeError)


def test_an_asker_that_has_gone_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = Pipe()
    monkeypatch.setattr("sys.argv", ["ranker_process", str(theirs.fileno())])
    monkeypatch.setattr(ranker_process, "Connection", lambda _: theirs)
    ours.close()
    ranker_process.main()

    assert theirs.closed
