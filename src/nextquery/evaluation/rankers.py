"""The learnt systems of a scenario, trained in processes of their own."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, Pipe
from typing import Any, Self

import numpy as np

from nextquery.errors import NextqueryError
from nextquery.evaluation.comparison import RankedSystem
from nextquery.evaluation.scenario_features import EARLIER, SIMILARITY
from nextquery.inference.native import keep_freed_memory
from nextquery.ranking.cases import Floats
from nextquery.ranking.features import (
    AUTHORS_FEATURES,
    BASELINE_FEATURES,
    SEMANTIC_FEATURES,
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

SEMANTIC = (*BASELINE_FEATURES, *SEMANTIC_FEATURES)
"""What a Baseline Ranker sees that has a sentence encoder."""


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
    """What the rankers of one group are to learn from."""

    forms: tuple[str, ...]
    names: tuple[str, ...]
    shape: TreeShape

    @property
    def data_key(self) -> tuple[tuple[str, ...], int]:
        """What tasks have in common that learn from the same `RankerData`."""
        return self.names, self.shape.smallest_leaf


class RankerTrainer:
    """Trains the rankers of one scenario, none of them twice."""

    def __init__(self, training: RankedPart, validation: RankedPart, seeds: Sequence[int]) -> None:
        self._training = training
        self._validation = validation
        self._seeds = tuple(seeds)
        self._shape: TreeShape | None = None
        self._trained: dict[Task, tuple[Ranker, ...]] = {}

    def baseline(self) -> RankerGroup:
        """The Baseline Ranker, with the tuned shape."""
        names = tuple(BASELINE_FEATURES)
        tried = self._train([Task((), names, shape) for shape in SHAPES], CHOICE_SEEDS)
        self._shape = max(tried, key=lambda group: group.validation_mrr).shape
        return self._finish((), names)

    def authors_baseline(self) -> RankerGroup:
        """The Baseline Ranker with the features of the authors' code, in the same shape."""
        return self._finish((), AUTHORS_FEATURES)

    def authors_with(self, model: str) -> RankerGroup:
        """The same with a model's log-likelihood as one more feature."""
        return self._finish(("sum",), (*AUTHORS_FEATURES, f"{model}:sum"))

    @property
    def has_authors_features(self) -> bool:
        """Whether the parts have what the authors' Baseline Ranker sees."""
        return set(AUTHORS_FEATURES) <= set(self._training.features.names)

    def semantic_baseline(self) -> RankerGroup:
        """The Baseline Ranker with the cosines of a sentence encoder, in the same shape."""
        return self._finish((), SEMANTIC)

    def semantic_with(self, model: str, forms: tuple[str, ...]) -> RankerGroup:
        """The same with a model's score in the given forms."""
        return self._finish(forms, (*SEMANTIC, *(f"{model}:{form}" for form in forms)))

    @property
    def has_semantic_features(self) -> bool:
        """Whether the parts have an encoder's cosines."""
        return set(SEMANTIC) <= set(self._training.features.names)

    def earlier_baseline(self) -> RankerGroup:
        """The Baseline Ranker with trigram features of the user's earlier queries."""
        return self._finish((), self._earlier_names)

    def earlier_with(self, model: str, forms: tuple[str, ...]) -> RankerGroup:
        """The same with a model's score in the given forms."""
        return self._finish(forms, (*self._earlier_names, *(f"{model}:{form}" for form in forms)))

    @property
    def has_earlier_queries(self) -> bool:
        """Whether the parts have what comes of the user's earlier queries."""
        return len(self._earlier_names) > len(BASELINE_FEATURES)

    @property
    def _earlier_names(self) -> tuple[str, ...]:
        names = self._training.features.names
        return (*BASELINE_FEATURES, *(name for name in names if name.startswith(SIMILARITY)))

    def with_forms(self, model: str, forms: tuple[str, ...]) -> RankerGroup:
        """The Baseline Ranker with a model's score in the given forms, for all seeds."""
        return self._finish(forms, feature_names(model, forms))

    def with_best_forms(
        self, model: str, sets: Sequence[tuple[str, ...]] = FORM_SETS
    ) -> tuple[RankerGroup, dict[str, float]]:
        """The set of forms that is best on the validation part, and what each set reached."""
        tasks = [Task(forms, feature_names(model, forms), self._tuned_shape) for forms in sets]
        tried = self._train(tasks, CHOICE_SEEDS)
        reached = {"+".join(group.forms): group.validation_mrr for group in tried}
        best = max(tried, key=lambda group: group.validation_mrr)
        return self.with_forms(model, best.forms), reached

    @property
    def _tuned_shape(self) -> TreeShape:
        assert self._shape is not None, "the Baseline Ranker is trained first"
        return self._shape

    def _finish(self, forms: tuple[str, ...], names: tuple[str, ...]) -> RankerGroup:
        """The group with a ranker for each seed."""
        return self._train([Task(forms, names, self._tuned_shape)], len(self._seeds))[0]

    def _train(self, tasks: Sequence[Task], seeds: int) -> list[RankerGroup]:
        """A group for each task, with the first `seeds` seeds; all at once, a core for each."""
        missing = {task: self._seeds[len(self._trained.get(task, ())) : seeds] for task in tasks}
        data = {
            key: self._data(*key)
            for key in dict.fromkeys(task.data_key for task in tasks if missing[task])
        }
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            waiting = {
                task: [
                    pool.submit(train_ranker, data[task.data_key], task.shape, seed)
                    for seed in missing[task]
                ]
                for task in tasks
            }
        for task, added in waiting.items():
            known = self._trained.get(task, ())
            self._trained[task] = (*known, *(future.result() for future in added))
        return [RankerGroup(task.forms, self._trained[task][:seeds]) for task in tasks]

    def _data(self, names: tuple[str, ...], smallest_leaf: int) -> RankerData:
        parts = self._training.restricted(names), self._validation.restricted(names)
        return RankerData(*parts, smallest_leaf)


def feature_names(model: str, forms: Iterable[str]) -> tuple[str, ...]:
    """The baseline's features and a model's score in the given forms."""
    return (*BASELINE_FEATURES, *(f"{model}:{form}" for form in forms))


def train_all(
    trainer: RankerTrainer, models: Collection[str], features: Iterable[str]
) -> tuple[dict[RankedSystem, RankerGroup], Mapping[str, dict[str, float]]]:
    """Every learnt system, and the validation MRR of every set of forms by model.

    `baseline+NAME:sum` has the paper's feature alone, `baseline+NAME` the chosen forms;
    `baseline_authors` and `baseline_authors+NAME:sum` use the features of the authors' code,
    `baseline_semantic` and `baseline_semantic+NAME` (chosen forms) on a sentence encoder's as well.
    Where the user's earlier queries are looked at, `baseline+NAME:earlier` is the best of all sets,
    those without them included: a log on which they do harm does without. `baseline_earlier` and
    `baseline_earlier+NAME` know them by their trigrams as well.
    """
    groups = {RankedSystem("baseline"): trainer.baseline()}
    choices = {}
    if trainer.has_authors_features:
        groups[RankedSystem("baseline_authors")] = trainer.authors_baseline()
        for model in models:
            system = RankedSystem("baseline_authors", model, "sum")
            groups[system] = trainer.authors_with(model)
    for model in models:
        system = RankedSystem("baseline", model)
        groups[system.with_form("sum")] = trainer.with_forms(model, ("sum",))
        groups[system], choices[model] = trainer.with_best_forms(model)
    if trainer.has_semantic_features:
        groups[RankedSystem("baseline_semantic")] = trainer.semantic_baseline()
        for model in models:
            forms = groups[RankedSystem("baseline", model)].forms
            system = RankedSystem("baseline_semantic", model)
            groups[system] = trainer.semantic_with(model, forms)
    if trainer.has_earlier_queries:
        groups[RankedSystem("baseline_earlier")] = trainer.earlier_baseline()
        for model in models:
            system = RankedSystem("baseline", model, "earlier")
            scored = RankedSystem(model=model, form="earlier").key
            groups[system], choices[scored] = trainer.with_best_forms(
                model, (*FORM_SETS, *EARLIER_SETS)
            )
            forms = groups[system].forms
            groups[RankedSystem("baseline_earlier", model)] = trainer.earlier_with(model, forms)
    for model in features:
        groups[RankedSystem("baseline", model)] = trainer.with_forms(model, ("sum",))
    return groups, choices


AT_ONCE = 2
"""Jobs at a time: while one waits for its last ranker, the other one runs."""

WORTH_A_PROCESS = 20_000
"""Candidates to learn from; fewer are learnt sooner than a process has started."""


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
    """What a job gives."""

    groups: dict[RankedSystem, RankerGroup]
    choices: dict[str, dict[str, float]]
    """By model: the validation MRR of every set of forms."""
    seconds: float = 0.0
    """CPU time of the process that trained them, if it was a separate one."""


PROCESS = "from nextquery.evaluation.rankers import answer; answer()"
"""The program of a process that trains the rankers of one job."""

Train = Callable[[RankerJob], "Future[TrainedRankers]"]


def train_here(job: RankerJob) -> "Future[TrainedRankers]":
    """Train in this process, before anything else."""
    future: Future[TrainedRankers] = Future()
    future.set_result(train_rankers(job))
    return future


class RankerProcesses:
    """Gives jobs to processes of their own; leaving ends those that still run."""

    def __init__(self) -> None:
        self._waiting = ThreadPoolExecutor(AT_ONCE)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._closed = True
        for process in tuple(self._running):
            process.kill()
        self._waiting.shutdown(cancel_futures=True)

    def train(self, job: RankerJob) -> "Future[TrainedRankers]":
        """Begin to train, in this process only if there is little to learn from."""
        if job.training.cases.rows < WORTH_A_PROCESS:
            return train_here(job)
        return self._waiting.submit(self._train_apart, job)

    def _train_apart(self, job: RankerJob) -> TrainedRankers:
        # Both ends are this program, and the socket has no name: nobody else's data is unpickled.
        ours, theirs = Pipe()
        command = [sys.executable, "-c", PROCESS, str(theirs.fileno())]
        with ours:
            with theirs:
                process = subprocess.Popen(
                    command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
                )
            self._running.add(process)
            if self._closed:
                process.kill()
            try:
                return _ask(ours, job)
            finally:
                process.wait()
                self._running.discard(process)


def _ask(process: "Connection[Any, Any]", job: RankerJob) -> TrainedRankers:
    try:
        process.send(job)
        result = process.recv()
    except (EOFError, OSError):
        raise NextqueryError(
            "a process that trained rankers ended; if memory ran out, `ranker_cases` bounds it"
        ) from None
    if isinstance(result, BaseException):
        raise result
    assert isinstance(result, TrainedRankers)
    return result


def train_rankers(job: RankerJob) -> TrainedRankers:
    """Train every ranker of a job, side by side."""
    trainer = RankerTrainer(job.training, job.validation, job.seeds)
    groups, choices = train_all(trainer, job.models, job.features)
    return TrainedRankers(groups, dict(choices))


def answer() -> None:
    """Train the rankers of the job that the socket gives; an error is sent back, too."""
    keep_freed_memory()
    with Connection(int(sys.argv[1])) as asker, contextlib.suppress(EOFError, BrokenPipeError):
        job = asker.recv()
        try:
            asker.send(replace(train_rankers(job), seconds=time.process_time()))
        except Exception as error:
            asker.send(error)
