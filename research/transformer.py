"""HRED and the session Transformer on one log, each with the same CPU time.

Every network is trained with one thread until its steps and validations have used SECONDS of CPU
time; its best validated weights are kept. `experiment` then compares all models, the hidden intent
of a synthetic log is probed, and lists are timed in turns. `python -m research transformer WORK
DATA SECONDS [SEED...]` keeps what is finished and writes docs/results/transformer.json.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from itertools import islice
from pathlib import Path
from signal import SIGTERM
from typing import Any

import torch

from nextquery.artifacts import publish
from nextquery.cli.fit import config_of
from nextquery.config import load_config
from nextquery.errors import InputError
from nextquery.evaluation import scenarios
from nextquery.evaluation.probes.hidden_intent import intent_result
from nextquery.evaluation.scenarios import Rules
from nextquery.guard.tables import write_tables
from nextquery.logs.data_folder import PreparedData
from nextquery.model.networks import new_model
from nextquery.model.settings import RunConfig
from nextquery.ranking.cases import BackgroundCounts, Backgrounds, reciprocal_ranks
from nextquery.ranking.scoring import log_likelihoods
from nextquery.records import Session
from nextquery.suggesters.loading import load
from nextquery.suggesters.neural import NeuralSuggester
from nextquery.text.vocabulary import Vocabulary
from nextquery.training.distributed import processes
from nextquery.training.run import train
from nextquery.training.trainer import StopRequest
from research.commands import make, save
from research.summary import scenarios_of

KINDS = ("hred", "transformer")
CONFIG = "tiny"
TRAINING = ("train.validate_every=400", "train.validation_sessions=1000", "train.patience=8")
MIN_FOLLOWERS = 5
EXPERIMENT = (
    f"--min-followers={MIN_FOLLOWERS}",
    *("--visitors=known", "--completion-contexts=0"),
    *("--seeds=2", "--ranker-cases=800", "--generation-contexts=100"),
)
SCENARIOS = ("next_query", "robust", "long_tail", "every_context")
LISTS = 40
"""Test contexts whose lists are timed."""
ROUNDS = 3


class CPUBudget(StopRequest):
    """Asks a run to stop when its process has used some seconds of CPU time."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._start = seconds, time.process_time()

    @property
    def used(self) -> float:
        """CPU seconds since it was made."""
        return time.process_time() - self._start

    @property
    def signal(self) -> int:  # type: ignore[override]
        """What the training loop looks at between steps."""
        return SIGTERM if self.used > self._seconds else 0


def study(work: Path, data: Path, seconds: float, seeds: Sequence[int] = (1, 2, 3)) -> None:
    """Train and compare; then write the aggregates."""
    work.mkdir(parents=True, exist_ok=True)
    names = [f"{kind}-{seed}" for seed in seeds for kind in KINDS]
    for name in names:
        kind, seed = name.split("-")
        if not (work / f"{name}.json").exists():
            record = train_for(seconds, kind, int(seed), data, work / name)
            (work / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    models = [f"--model={name}={work / name}" for name in names]
    report = work / "report"
    make(report, ["experiment", str(data), *models, *EXPERIMENT, "--out", str(report)])
    save("transformer", collect(work, data, seconds, names))


def collect(work: Path, data: Path, seconds: float, names: Sequence[str]) -> dict[str, Any]:
    """The aggregates of finished runs and of the finished scenarios of the report in `work`."""
    prepared = PreparedData(data)
    sessions = list(prepared.sessions("test"))
    first = {kind: next(work / name for name in names if name.startswith(kind)) for kind in KINDS}
    small = {kind: untrained(kind, "small", prepared, work / f"small-{kind}") for kind in KINDS}
    steps = {path.stem: path for path in sorted((work / "report" / "steps").glob("*.json"))}
    measured = {
        name: json.loads(steps[name].read_text())["result"] for name in SCENARIOS if name in steps
    }
    models = sorted({model for found in measured.values() for model in found["form_choices"]})
    return {
        "date": date.today().isoformat(),
        "config": CONFIG,
        "sessions": prepared.artifact.manifest["counts"]["sessions"],
        "cpu_seconds": seconds,
        "training": {name: _record(work / f"{name}.json") for name in names},
        "hidden_intent": {name: intent(work / name, sessions) for name in names},
        "mrr_alone": {name: mrr_alone(work / name, prepared, sessions) for name in names},
        "scenarios": scenarios_of(measured, models),
        "milliseconds_per_list": {
            CONFIG: time_lists(first, sessions),
            "small, untrained": time_lists(small, sessions),
        },
        "megabytes": {
            CONFIG: {kind: serving_megabytes(folder) for kind, folder in first.items()},
            "small, untrained": {kind: serving_megabytes(path) for kind, path in small.items()},
        },
    }


def _record(file: Path) -> dict[str, Any]:
    record = json.loads(file.read_text())
    kept = ("cpu_seconds", "steps", "words", "words_per_cpu_second", "perplexity")
    return {key: record[key] for key in kept}


def untrained(kind: str, config: str, data: PreparedData, folder: Path) -> Path:
    """A model folder of this size with random weights, for times and memory."""
    if not folder.exists():
        torch.manual_seed(0)
        settings = load_config(RunConfig, config_of(kind, config), ())
        words = Vocabulary(data.words()[: settings.model.vocabulary_size])
        model = new_model(settings.model, words)
        with publish(folder, model.kind, model.manifest_entries()) as partial:
            model.write_files(partial)
            write_tables(data, partial)
    return folder


def train_for(seconds: float, kind: str, seed: int, data: Path, out: Path) -> dict[str, Any]:
    """Train a network for some seconds of CPU time, and say how far it came."""
    torch.set_num_threads(1)
    sets = [f"train.seed={seed}", *TRAINING]
    budgets: list[CPUBudget] = []

    @contextmanager
    def listen() -> Iterator[CPUBudget]:
        budgets.append(CPUBudget(seconds))
        yield budgets[0]

    settings = partial(load_config, RunConfig, config_of(kind, CONFIG))
    with processes("cpu") as group:
        run = partial(train, PreparedData(data), out, processes=group, say=print)
        outcome = run(config=settings([*sets, "train.epochs=1000"]), stopping=listen)
        used, position = budgets[0].used, outcome.position
        if outcome.facts is None:
            if position.epoch < 1:
                raise InputError(f"{seconds} CPU seconds are less than an epoch of {kind}")
            # The epochs are over: the last step is validated and the best weights are published.
            ended = settings([*sets, f"train.epochs={position.epoch}"])
            outcome = run(config=ended, resume=True)
    assert outcome.facts is not None
    facts = outcome.facts.entries()
    return {
        "cpu_seconds": round(used, 1),
        "steps": position.step,
        "words": position.words,
        "words_per_cpu_second": round(position.words / used),
        "perplexity": facts["validation_perplexity_by_context"],
    }


def intent(folder: Path, sessions: Sequence[Session]) -> dict[str, Any] | None:
    """How well a model tells the hidden intent; None unless the log is synthetic."""
    model = load(folder)
    assert isinstance(model, NeuralSuggester)
    result = intent_result(model, sessions, most=1000)
    if result is None:
        return None
    return {"cases": result.cases, "nats": result.nats, "intent": result.intent}


def mrr_alone(folder: Path, data: PreparedData, sessions: Sequence[Session]) -> dict[str, float]:
    """The MRR of a model's likelihoods without a ranker, in the paper's scenarios."""
    backgrounds = Backgrounds(BackgroundCounts.read(data))
    model = load(folder)
    assert isinstance(model, NeuralSuggester)
    mrr = {}
    for name in SCENARIOS[:3]:
        cases = scenarios.SCENARIOS[name].build(sessions, backgrounds, Rules(MIN_FOLLOWERS))
        mrr[name] = float(reciprocal_ranks(cases, log_likelihoods(model, cases)).mean())
    return mrr


def time_lists(folders: dict[str, Path], sessions: Sequence[Session]) -> dict[str, float]:
    """CPU milliseconds of a default list with one thread: in turns, least of some rounds."""
    contexts = [session.queries[:-1] for session in islice(sessions, LISTS)]
    models: dict[str, NeuralSuggester] = {}
    for kind, folder in folders.items():
        model = load(folder)
        assert isinstance(model, NeuralSuggester)
        models[kind] = model
    least = {kind: [float("inf")] * len(contexts) for kind in models}
    for _ in range(ROUNDS):
        for index, context in enumerate(contexts):
            for kind, model in models.items():
                start = time.process_time()
                model.suggest(context, 5)
                least[kind][index] = min(least[kind][index], time.process_time() - start)
    return {kind: 1000 * statistics.fmean(values) for kind, values in least.items()}


_LOADED = """
import sys
from pathlib import Path
from nextquery import load
model = load(Path(sys.argv[1]))
model.suggest([], 5)
status = Path("/proc/self/status").read_text()
print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))
"""


def serving_megabytes(folder: Path) -> float:
    """Resident memory of a process that has loaded a model and made a list."""
    command = [sys.executable, "-c", _LOADED, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout) / 1024
