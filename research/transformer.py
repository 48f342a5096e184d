"""HRED and the session Transformer on the same logs, each with the same CPU time.

Every network is trained with one thread until its steps and validations have used the CPU seconds
of its study; its best validated weights are kept. `python -m research transformer WORK NAME
[LOG...]` runs one of `STUDIES` in WORK/NAME, keeps what is finished and replaces the entry NAME of
docs/results/transformer.json.
"""

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
from nextquery.evaluation import scenarios
from nextquery.evaluation.probes.likelihood import intent_result
from nextquery.evaluation.scenarios import Rules
from nextquery.logs.data_folder import PreparedData
from nextquery.model.likelihood import new_model
from nextquery.model.settings import RunConfig
from nextquery.ranking.cases import BackgroundCounts, Backgrounds, reciprocal_ranks
from nextquery.ranking.scoring import log_likelihoods
from nextquery.records import Session
from nextquery.suggesters.loading import load
from nextquery.suggesters.neural import NeuralSuggester
from nextquery.text.vocabulary import Vocabulary
from nextquery.training.checkpoint import CheckpointFolder
from nextquery.training.distributed import processes
from nextquery.training.run import Run, claimed, folder_of_run
from nextquery.training.trainer import StopRequest, never_stop
from research.aol import LAST_WEEKS
from research.commands import make, save
from research.pooled_seeds import compared
from research.summary import CONTEXTS as CONTEXTS_SEEN
from research.tables import RESULTS, read

KINDS = ("hred", "transformer")
VALIDATION_SESSIONS = 1000
VALIDATION = (
    "train.validate_every=400",
    f"train.validation_sessions={VALIDATION_SESSIONS}",
    "train.patience=8",
)
HELD_OUT = ("--split-at", LAST_WEEKS[1], "--holdout-users", "0.1")
MIN_FOLLOWERS = 5
EXPERIMENT = ("--visitors=known", "--completion-contexts=0", "--seeds=2", "--ranker-cases=500")
LAST_QUERY = (f"--min-followers={MIN_FOLLOWERS}", "--scenario=next_query", "--scenario=robust")
LISTS = 40
"""Test contexts whose lists are timed."""
ROUNDS = 3


@dataclass(frozen=True)
class Study:
    """Networks of one config on one log."""

    config: str
    seconds: float
    """CPU seconds of each training."""
    seeds: Sequence[int] = (1, 2, 3)
    synth: Sequence[str] = ()
    """Options of `nextquery synth`; none: the AOL logs are given."""
    tested_on: str = ""
    """The study whose test sessions are ranked by likelihood alone; none: its own."""
    reports: Mapping[str, Sequence[str]] | None = None
    """Options of an experiment with all models, by the name of its report."""
    probed_steps: bool = False
    """Whether the hidden intent is probed at every validation of the training."""


STUDIES = {
    "aol": Study(
        "small",
        200,
        reports={
            "last": (*LAST_QUERY, "--generation-contexts=100"),
            "every": (
                f"--min-followers={MIN_FOLLOWERS}",
                "--scenario=every_context",
                "--test-users=100",
                "--generation-contexts=0",
            ),
        },
    ),
    "synthetic-60000": Study(
        "tiny",
        70,
        synth=("--sessions=60000", "--seed=1"),
        reports={
            "last": (
                *LAST_QUERY,
                "--scenario=long_tail",
                "--test-users=1500",
                "--generation-contexts=100",
            ),
        },
        probed_steps=True,
    ),
    "shuffled-60000": Study(
        "tiny",
        20,
        synth=("--sessions=60000", "--seed=1", "--shuffled"),
        reports={"last": (*LAST_QUERY, "--generation-contexts=0")},
    ),
    **{
        f"synthetic-{sessions}": Study(
            "tiny",
            40,
            synth=(f"--sessions={sessions}", "--seed=2"),
            tested_on="synthetic-60000",
        )
        for sessions in (3000, 15000, 50000)
    },
    "synthetic-220000": Study(
        "tiny",
        120,
        synth=("--sessions=220000", "--seed=2"),
        tested_on="synthetic-60000",
    ),
}


def study(work: Path, name: str, logs: Sequence[Path] = ()) -> None:
    """Train and compare the networks of one study; then write its aggregates."""
    chosen, folder = STUDIES[name], work / name
    data, counts = prepared(folder, chosen, logs)
    tested = work / chosen.tested_on / "data" if chosen.tested_on else counts
    models = {
        f"{kind}-{seed}": folder / f"{kind}-{seed}" for seed in chosen.seeds for kind in KINDS
    }
    prepared_data = PreparedData(data)
    training = {model: trained(chosen, prepared_data, out) for model, out in models.items()}
    named = [f"--model={model}={out}" for model, out in models.items()]
    reports = {
        report: report_of(folder / f"report-{report}", [str(counts), *named, *EXPERIMENT, *options])
        for report, options in (chosen.reports or {}).items()
    }
    sessions = list(PreparedData(tested).sessions("test"))
    first = {kind: models[f"{kind}-{chosen.seeds[0]}"] for kind in KINDS}
    entry = {
        "date": date.today().isoformat(),
        "config": chosen.config,
        "cpu_seconds": chosen.seconds,
        "sessions": prepared_data.artifact.manifest["counts"]["sessions"],
        "training": training,
        "mrr_alone": {}
        if reports
        else {model: mrr_alone(out, tested, sessions) for model, out in models.items()},
        "hidden_intent": {model: intent(out, sessions) for model, out in models.items()},
        "scenarios": {
            scenario: compared(folder / f"report-{report}" / "trec" / f"{scenario}.ranks.parquet")
            for report, results in reports.items()
            for scenario in results["scenarios"]
        },
        "queries_seen": {
            scenario: queries_seen(result["by_context_length"])
            for scenario, result in reports.get("last", {"scenarios": {}})["scenarios"].items()
        },
        "lists": lists_of(reports["last"], models) if reports else {},
        "milliseconds_per_list": time_lists(first, sessions),
        "megabytes": {kind: serving_megabytes(out) for kind, out in first.items()},
    }
    entries = read("transformer") if (RESULTS / "transformer.json").is_file() else {}
    entries[name] = rounded(entry)
    save("transformer", {study: entries[study] for study in STUDIES if study in entries})


def prepared(folder: Path, chosen: Study, logs: Sequence[Path]) -> tuple[Path, Path]:
    """The data folder that networks learn from, and the one that an experiment counts in.

    On AOL networks learn from queries of at least three users, and counts are those of the paper.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data, counts = folder / "data", folder / "data-counts"
    if chosen.synth:
        log = folder / "log.tsv"
        make(log, ["synth", str(log), *chosen.synth])
        make(data, ["prepare", str(log), "--out", str(data), "--no-spelling"])
        return data, data
    paths = [str(log) for log in logs]
    make(data, ["prepare", *paths, "--out", str(data), *HELD_OUT])
    make(counts, ["prepare", *paths, "--out", str(counts), *LAST_WEEKS, *HELD_OUT[2:]])
    return data, counts


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


class KeptCheckpoints(CPUBudget):
    """The same, and copies every checkpoint of the run: the run itself keeps the newest only."""

    def __init__(self, seconds: float, run: Path, copies: Path) -> None:
        super().__init__(seconds)
        self._checkpoints, self._copies = run / "checkpoints", copies

    @property
    def signal(self) -> int:  # type: ignore[override]
        """What the training loop looks at between steps."""
        for checkpoint in self._checkpoints.glob("step-*"):
            copy = self._copies / checkpoint.name
            if not copy.exists():
                shutil.copytree(checkpoint, copy)
        return super().signal


def trained(chosen: Study, data: PreparedData, out: Path, options: Sequence[str] = ()) -> Any:
    """How far the training of a network came, which is done unless it was before."""
    record = out.with_suffix(".json")
    if not record.exists():
        record.write_text(json.dumps(train_for(chosen, data, out, options), indent=1) + "\n")
    return json.loads(record.read_text())


def train_for(
    chosen: Study, data: PreparedData, out: Path, options: Sequence[str]
) -> dict[str, Any]:
    """Train the network KIND-SEED for the CPU time of its study, and say how far it came."""
    torch.set_num_threads(1)
    copies = out.with_suffix(".checkpoints")
    for unfinished in (out, folder_of_run(out), copies):  # it would get more than its CPU time
        shutil.rmtree(unfinished, ignore_errors=True)
    kind, *_, seed = out.name.split("-")
    sets = [f"train.seed={seed}", *VALIDATION, *options]
    budgets: list[CPUBudget] = []

    @contextmanager
    def listen() -> Iterator[CPUBudget]:
        budgets.append(
            KeptCheckpoints(chosen.seconds, folder_of_run(out), copies)
            if chosen.probed_steps
            else CPUBudget(chosen.seconds)
        )
        yield budgets[0]

    settings = partial(load_config, RunConfig, config_of(kind, chosen.config))
    with processes("cpu") as group, claimed(folder_of_run(out)):
        learning = settings([*sets, "train.epochs=1000"])
        run = Run(data, out, learning, group, None)
        trainer, _ = run.set_up(print)
        run.take_steps(trainer, listen)
        used, position = budgets[0].used, trainer.position
        ended = settings([*sets, f"train.max_steps={position.step}"])
        run = Run(data, out, ended, group, None)  # validates the last step
        trainer, validation = run.set_up(print)
        run.take_steps(trainer, never_stop)
        measured = run.publish(trainer, validation.sample(VALIDATION_SESSIONS))
    facts = {
        "cpu_seconds": used,
        "steps": position.step,
        "words": position.words,
        "words_per_cpu_second": round(position.words / used),
        "perplexity": measured.entries()["validation_perplexity_by_context"],
    }
    if chosen.probed_steps:
        facts["intent_by_step"] = intent_by_step(settings(sets), data, copies, out)
    return facts


def intent_by_step(
    config: RunConfig, data: PreparedData, copies: Path, trained: Path
) -> dict[str, float]:
    """The probability of the hidden intent by the number of steps that a network was trained."""
    sessions = list(data.sessions("validation"))
    folder, by_step = CheckpointFolder(copies, {}), {}
    for step in sorted(folder.steps()):
        model = new_model(config.model, Vocabulary(data.words()[: config.model.vocabulary_size]))
        model.load_state_dict(folder.load(step).weights)
        out = copies / f"model-{step}"
        with publish(out, model.kind, model.manifest_entries()) as unfinished:
            model.write_files(unfinished)
            shutil.copytree(trained / "guard", unfinished / "guard")
        probed = intent(out, sessions, 500)
        if probed is not None:
            by_step[str(step)] = probed["intent"]
    return by_step


def intent(folder: Path, sessions: Sequence[Session], cases: int = 1000) -> dict[str, Any] | None:
    """How well a model tells the hidden intent; None unless the log is synthetic."""
    result = intent_result(loaded(folder), sessions, most=cases)
    if result is None:
        return None
    return {"cases": result.cases, "nats": result.nats, "intent": result.intent}


def loaded(folder: Path) -> NeuralSuggester:
    """The model of a folder, which is a network."""
    model = load(folder)
    assert isinstance(model, NeuralSuggester)
    return model


def mrr_alone(folder: Path, data: Path, sessions: Sequence[Session]) -> dict[str, float]:
    """The MRR of a model's likelihoods without a ranker, in the paper's scenarios."""
    backgrounds = Backgrounds(BackgroundCounts.read(PreparedData(data)))
    model = loaded(folder)
    mrr = {}
    for name in ("next_query", "robust"):
        cases = scenarios.SCENARIOS[name].build(sessions, backgrounds, Rules(MIN_FOLLOWERS))
        mrr[name] = float(reciprocal_ranks(cases, log_likelihoods(model, cases)).mean())
        mrr[f"{name} cases"] = len(cases)
    return mrr


def queries_seen(by_context_length: Mapping[str, Any]) -> dict[str, Any]:
    """The ranker's MRR on long sessions by the number of queries that each model is given."""
    return {
        model: {seen: result["queries"][seen][f"baseline+{model}"]["mrr"] for seen in CONTEXTS_SEEN}
        | {"cases": result["cases"]}
        for model, result in by_context_length.items()
        if result.get("queries")
    }


def lists_of(results: Mapping[str, Any], models: Mapping[str, Path]) -> dict[str, Any]:
    """Hits and text quality of the lists that every model makes itself."""
    lists = {}
    systems = (results["generation"] or {}).get("systems", {})
    for model in models:
        system = systems.get(model, {})
        if "all" not in system:
            continue
        quality, text = system["all"], system["text"]
        kept = {key: quality[key] for key in ("contexts", "mrr", "hit_5", "informational_mrr")}
        flaws = ("repeated_word", "dangling", "fragment", "disfluent", "misspelt")
        shares = {key: text[key] for key in ("unknown", "shortened", "frequent", "places")}
        lists[model] = {**kept, **shares, "junk": sum(text[flaw] for flaw in flaws)}
    return lists


def time_lists(folders: Mapping[str, Path], sessions: Sequence[Session]) -> dict[str, float]:
    """CPU milliseconds of a default list with one thread: in turns, least of some rounds."""
    contexts = [session.queries[:-1] for session in islice(sessions, LISTS)]
    models = {kind: loaded(folder) for kind, folder in folders.items()}
    least = {kind: [float("inf")] * len(contexts) for kind in models}
    for _ in range(ROUNDS):
        for index, context in enumerate(contexts):
            for kind, model in models.items():
                start = time.process_time()
                model.suggest(context, 5)
                least[kind][index] = min(least[kind][index], time.process_time() - start)
    return {kind: 1000 * statistics.fmean(values) for kind, values in least.items()}


_EXPERIMENT = """
import sys
from dataclasses import replace
from nextquery.cli.entry import run
from nextquery.evaluation import experiment
UNUSED = ("paper_examples", "ngrams", "gates", "hidden_intent", "projections", "decoding")
experiment.PROBES = tuple(
    replace(probe, run=lambda inputs: {}) if probe.name in (*UNUSED, "list_times") else probe
    for probe in experiment.PROBES
)
run()
"""
"""`nextquery experiment` without the probes that no table shows: with six networks of AOL they take
longer than the scenarios."""


def report_of(folder: Path, arguments: Sequence[str]) -> Any:
    """The results of an experiment with few probes; a stopped one is resumed."""
    command = [sys.executable, "-c", _EXPERIMENT, "experiment", *arguments, "--out", str(folder)]
    subprocess.run(command, check=True)
    return json.loads((folder / "results.json").read_text())


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


def rounded(value: Any) -> Any:
    """A document whose numbers have four significant digits.

    >>> rounded({"a": [0.123456, 12345.6, 3]})
    {'a': [0.1235, 12350.0, 3]}
    """
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: rounded(entry) for key, entry in value.items()}
    return [rounded(entry) for entry in value] if isinstance(value, list) else value
