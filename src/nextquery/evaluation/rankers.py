"""The learnt systems of a scenario, trained in processes of their own."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, Pipe
from typing import Any, Self

import numpy as np

from nextquery.errors import NextqueryError
from nextquery.evaluation.comparison import BASELINE, RankedSystem
from nextquery.inference.native import keep_freed_memory
from nextquery.ranking.cases import Floats
from nextquery.ranking.features import (
    AUTHORS_FEATURES,
    BASELINE_FEATURES,
    SEMANTIC_FEATURES,
    SIMILARITY,
    FeatureTable,
)
from nextquery.ranking.lambdamart import (
    SHAPES,
    RankedPart,
    Ranker,
    RankerData,
    TreeShape,
    train_ranker,
)
from nextquery.ranking.scoring import EARLIER

FORM_SETS: tuple[tuple[str, ...], ...] = (
    ("sum",),
    ("sum", "per_word"),
    ("share", "per_word"),
    ("lift",),
    ("sum", "per_word", "lift", "share"),
)
"""The forms of a score that are tried as features; the paper has the first."""

CHOICE_SEEDS = 3
"""How many seeds decide between shapes or sets of forms; one seed's luck must not decide. The other
seeds are trained for the chosen one only."""


EARLIER_SETS: tuple[tuple[str, ...], ...] = tuple(
    (*session_forms, *(f"{EARLIER}{form}" for form in forms))
    for forms in FORM_SETS
    for session_forms in ((), forms)
)
"""The same of a score given the user's earlier queries, too: alone, and with that without them."""


@dataclass(frozen=True)
class RankerGroup:
    """One system: the same features and shape, one ranker per seed."""

    forms: tuple[str, ...]
    rankers: tuple[Ranker, ...]

    @property
    def validation_mrr(self) -> float:
        """The mean over the seeds."""
        return float(np.mean([ranker.validation_mrr for ranker in self.rankers]))

    @property
    def shape(self) -> TreeShape:
        """The shape of all its trees."""
        return self.rankers[0].shape

    def scores(self, features: FeatureTable) -> Floats:
        """The scores by each seed's ranker: (seeds, candidates)."""
        return np.stack([ranker.scores(features) for ranker in self.rankers])

    def importances(self) -> dict[str, float]:
        """The mean share of the gain that each feature brought."""
        shares = [ranker.importances() for ranker in self.rankers]
        return {name: float(np.mean([share[name] for share in shares])) for name in shares[0]}


@dataclass(frozen=True)
class Task:
    """The features and the shape of the rankers of one group."""

    forms: tuple[str, ...]
    names: tuple[str, ...]
    shape: TreeShape

    @property
    def data_key(self) -> tuple[tuple[str, ...], int]:
        """What tasks have in common that learn from the same `RankerData`."""
        return self.names, self.shape.smallest_leaf


@dataclass(frozen=True)
class RankerJob:
    """What the rankers of one scenario, and one fold of users, learn from."""

    training: RankedPart
    validation: RankedPart
    seeds: tuple[int, ...]
    models: tuple[str, ...]
    features: tuple[str, ...]


@dataclass(frozen=True)
class TrainedRankers:
    """The result of a job."""

    groups: dict[RankedSystem, RankerGroup]
    choices: dict[str, dict[str, float]]
    """By model: the validation MRR of every set of forms."""
    seconds: float = 0.0
    """CPU time in the process that trained them, if it was a separate one."""


class RankerTrainer:
    """Trains the rankers of one job, none of them twice."""

    def __init__(self, job: RankerJob) -> None:
        self._job = job
        self._shape: TreeShape | None = None
        self._data: dict[tuple[tuple[str, ...], int], RankerData] = {}
        self._trained: dict[Task, tuple[Ranker, ...]] = {}

    def baseline(self) -> RankerGroup:
        """The Baseline Ranker, whose shape is tuned and then the shape of all."""
        tasks = [Task((), tuple(BASELINE_FEATURES), shape) for shape in SHAPES]
        tried = self._train(tasks, CHOICE_SEEDS)
        self._shape = max(tried, key=lambda group: group.validation_mrr).shape
        return self.ranker(BASELINE_FEATURES)

    def ranker(
        self, features: Iterable[str], model: str = "", forms: tuple[str, ...] = ()
    ) -> RankerGroup:
        """A ranker with these features and a model's score in the given forms, for all seeds."""
        return self._train([self._task(features, model, forms)], len(self._job.seeds))[0]

    def with_best_forms(
        self, model: str, sets: Sequence[tuple[str, ...]] = FORM_SETS
    ) -> tuple[RankerGroup, dict[str, float]]:
        """The set of forms that is best on the validation part, and what each set reached."""
        tasks = [self._task(BASELINE_FEATURES, model, forms) for forms in sets]
        tried = self._train(tasks, CHOICE_SEEDS)
        reached = {"+".join(group.forms): group.validation_mrr for group in tried}
        best = max(tried, key=lambda group: group.validation_mrr)
        return self.ranker(BASELINE_FEATURES, model, best.forms), reached

    def _task(self, features: Iterable[str], model: str, forms: tuple[str, ...]) -> Task:
        assert self._shape is not None, "the Baseline Ranker is trained first"
        return Task(forms, (*features, *(f"{model}:{form}" for form in forms)), self._shape)

    def _train(self, tasks: Sequence[Task], seeds: int) -> list[RankerGroup]:
        """A group for each task, with the first `seeds` seeds; all at once, a core for each."""
        missing = {
            task: self._job.seeds[len(self._trained.get(task, ())) : seeds] for task in tasks
        }
        # What the last call learnt from is kept: of several tasks one is trained with more seeds.
        self._data = {
            key: self._data.get(key) or self._read(*key)
            for key in dict.fromkeys(task.data_key for task in tasks if missing[task])
        }
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            waiting = {
                task: [
                    pool.submit(train_ranker, self._data[task.data_key], task.shape, seed)
                    for seed in missing[task]
                ]
                for task in tasks
            }
        for task, added in waiting.items():
            known = self._trained.get(task, ())
            self._trained[task] = (*known, *(future.result() for future in added))
        return [RankerGroup(task.forms, self._trained[task][:seeds]) for task in tasks]

    def _read(self, names: tuple[str, ...], smallest_leaf: int) -> RankerData:
        training, validation = self._job.training, self._job.validation
        return RankerData(training.restricted(names), validation.restricted(names), smallest_leaf)


def train_rankers(job: RankerJob) -> TrainedRankers:
    """Train every learnt system of a job, side by side.

    `baseline+NAME:sum` has the paper's feature alone, `baseline+NAME` the chosen forms;
    `baseline_authors` and `baseline_authors+NAME:sum` use the features of the authors' code,
    `baseline_semantic` and `baseline_semantic+NAME` (chosen forms) on a sentence encoder's as well.
    Where the user's earlier queries are looked at, `baseline+NAME:earlier` is the best of all sets,
    those without them included: a log on which they do harm does without. `baseline_earlier` and
    `baseline_earlier+NAME` know them by their trigrams as well.
    """
    trainer = RankerTrainer(job)
    present = job.training.features.names
    groups = {BASELINE: trainer.baseline()}
    choices = {}
    if set(AUTHORS_FEATURES) <= set(present):
        groups[RankedSystem("baseline_authors")] = trainer.ranker(AUTHORS_FEATURES)
        for model in job.models:
            system = RankedSystem("baseline_authors", model, "sum")
            groups[system] = trainer.ranker(AUTHORS_FEATURES, model, ("sum",))
    for model in job.models:
        system = RankedSystem("baseline", model)
        groups[system.with_form("sum")] = trainer.ranker(BASELINE_FEATURES, model, ("sum",))
        groups[system], choices[model] = trainer.with_best_forms(model)
    if set(SEMANTIC_FEATURES) <= set(present):
        semantic = (*BASELINE_FEATURES, *SEMANTIC_FEATURES)
        groups[RankedSystem("baseline_semantic")] = trainer.ranker(semantic)
        for model in job.models:
            forms = groups[RankedSystem("baseline", model)].forms
            system = RankedSystem("baseline_semantic", model)
            groups[system] = trainer.ranker(semantic, model, forms)
    if similarities := [name for name in present if name.startswith(SIMILARITY)]:
        earlier = (*BASELINE_FEATURES, *similarities)
        groups[RankedSystem("baseline_earlier")] = trainer.ranker(earlier)
        for model in job.models:
            system = RankedSystem("baseline", model, "earlier")
            scored = RankedSystem(model=model, form="earlier").key
            groups[system], choices[scored] = trainer.with_best_forms(
                model, (*FORM_SETS, *EARLIER_SETS)
            )
            forms = groups[system].forms
            groups[RankedSystem("baseline_earlier", model)] = trainer.ranker(earlier, model, forms)
    for model in job.features:
        groups[RankedSystem("baseline", model)] = trainer.ranker(BASELINE_FEATURES, model, ("sum",))
    return TrainedRankers(groups, choices)


AT_ONCE = 2
"""Jobs at a time: while one waits for its last ranker, the other one runs."""

WORTH_A_PROCESS = 20_000
"""Candidates to learn from; fewer are learnt sooner than a process has started."""


PROCESS = "from nextquery.evaluation.rankers import answer; answer()"
"""The program of a process that trains rankers."""

Train = Callable[[RankerJob], "Future[TrainedRankers]"]


def train_here(job: RankerJob) -> "Future[TrainedRankers]":
    """Train in this process, before anything else."""
    future: Future[TrainedRankers] = Future()
    future.set_result(train_rankers(job))
    return future


class RankerProcesses:
    """Gives jobs to processes of their own; leaving ends those that still run."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE)
        self._of_thread = threading.local()
        """Each thread keeps its process for all its jobs: to start one takes five CPU seconds."""
        self._processes: list[subprocess.Popen[bytes]] = []
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._closed = True
        for process in tuple(self._processes):
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.wait()

    def train(self, job: RankerJob) -> "Future[TrainedRankers]":
        """Begin to train, in this process only if there is little to learn from."""
        if job.training.cases.rows < WORTH_A_PROCESS:
            return train_here(job)
        return self._threads.submit(self._train_apart, job)

    def _train_apart(self, job: RankerJob) -> TrainedRankers:
        if not hasattr(self._of_thread, "connection"):
            self._of_thread.connection = self._start()
        try:
            self._of_thread.connection.send(job)
            result = self._of_thread.connection.recv()
        except (EOFError, OSError):
            raise NextqueryError(
                "a process that trained rankers ended; if memory ran out, `ranker_cases` bounds it"
            ) from None
        if isinstance(result, BaseException):
            raise result
        assert isinstance(result, TrainedRankers)
        return result

    def _start(self) -> "Connection[Any, Any]":
        # Both ends are this program, and the socket has no name: nobody else's data is unpickled.
        ours, theirs = Pipe()
        command = [sys.executable, "-c", PROCESS, str(theirs.fileno())]
        with theirs:
            process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
        self._processes.append(process)
        if self._closed:
            process.kill()
        return ours


def answer() -> None:
    """Train the rankers of the jobs that the socket gives; an error is sent back, too."""
    keep_freed_memory()
    seconds_before = 0.0
    with Connection(int(sys.argv[1])) as asker, contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            job = asker.recv()
            try:
                trained = train_rankers(job)
                seconds = time.process_time()
                asker.send(replace(trained, seconds=seconds - seconds_before))
                seconds_before = seconds
            except Exception as error:
                asker.send(error)
