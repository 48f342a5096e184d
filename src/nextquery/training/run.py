"""A training run from data folder to model folder, and its working folder `OUT.training/`."""

import hashlib
import json
import os
import re
import resource
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError

from nextquery.artifacts import check_target, open_artifact, write_text
from nextquery.artifacts.files import try_lock, unlock
from nextquery.errors import ArtifactError, TrainingError
from nextquery.logs.counting import usefulness
from nextquery.logs.data_folder import PreparedData
from nextquery.model.hred import HRED, initialise_as_authors
from nextquery.model.likelihood import (
    CandidateSampler,
    SessionLikelihood,
    SessionModel,
    new_model,
    open_model,
)
from nextquery.model.settings import KIND, RunConfig, TrainConfig
from nextquery.model.stored import take_word_vectors
from nextquery.text.corpus import EncodedSessions, SessionLimits, encode_sessions
from nextquery.text.vectors import read_word_vectors
from nextquery.text.vocabulary import SPECIAL, Vocabulary
from nextquery.training.checkpoint import CheckpointFolder, Position, advice
from nextquery.training.continuing import Chosen, Continuation, choose_sessions, take_weights
from nextquery.training.distributed import Processes
from nextquery.training.publishing import RunFacts, publish_model
from nextquery.training.trainer import (
    Feed,
    StopListener,
    Trainer,
    TrainingLog,
    measure,
    measure_usefulness,
    never_stop,
)

RUN = "run.json"


def folder_of_run(out: Path) -> Path:
    """Where a run keeps its files while it trains the model for `out`.

    >>> folder_of_run(Path("models/hred")).name
    'hred.training'
    """
    return out.with_name(f"{out.name}.training")


def check_folders(out: Path, *, resume: bool) -> None:
    """Refuse to begin where a run is unfinished, and to resume where none is."""
    check_target(out, KIND)
    folder = folder_of_run(out)
    remove_finished(out)
    if folder.exists() and not resume:
        raise ArtifactError(
            f"{folder}: a run that was not finished; add `resume` to continue it, "
            "or delete that folder to start again"
        )
    if resume and not folder.exists() and out.exists():
        raise ArtifactError(
            f"{out}: this run is finished; there is nothing to resume"
            if _run_of_model(out)
            else f"{out}: no run of training made it: nothing to resume; leave `resume` out"
        )


def remove_finished(out: Path) -> None:
    """Remove folders of runs that were killed while they cleaned up."""
    folder = folder_of_run(out)
    run = _stored(folder).get("run")
    if run and run == _run_of_model(out):
        remove(folder)
    pattern = re.compile(re.escape(f".{folder.name}.") + r"[0-9a-f]{8}\.finished")
    with suppress(FileNotFoundError):
        for path in list(folder.parent.iterdir()):
            if pattern.fullmatch(path.name):
                shutil.rmtree(path, ignore_errors=True)


def remove(folder: Path) -> None:
    """Remove the folder of a finished run; for other processes it disappears at once."""
    away = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.finished")
    with suppress(FileNotFoundError):
        folder.rename(away)
        shutil.rmtree(away, ignore_errors=True)


def run_id(folder: Path, threads: int, say: Callable[[str], None]) -> str:
    """The id of the run in a folder, made if it has none.

    Says if the run began with another number of threads or with the training kernels of 0.1.
    """
    stored = _stored(folder)
    before = stored.get("threads", threads)
    if before != threads:
        say(f"this run began with {before} threads; with {threads} its weights differ a little")
    if stored.get("compiled"):
        say("this run began with compiled kernels; without them its weights differ a little")
    if "run" not in stored:
        stored = {"run": uuid.uuid4().hex, "threads": threads}
        write_text(folder / RUN, json.dumps(stored) + "\n")
    return str(stored["run"])


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Lock the folder for this run; the system releases the lock however the process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if try_lock(lock) is False:
            raise ArtifactError(f"{folder}: another process is training there")
        yield
    finally:
        unlock(lock)


def _stored(folder: Path) -> dict[str, object]:
    try:
        stored = json.loads((folder / RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _run_of_model(out: Path) -> object:
    """The id of the run that made the model at `out`, if it says."""
    try:
        training = open_artifact(out, verify=False).manifest.get("training")
    except ArtifactError:
        return None
    return training.get("run") if isinstance(training, dict) else None


CONTEXTS: tuple[int | None, ...] = (0, 1, 2, None)
"""The numbers of earlier queries with which the finished model is measured; None: all."""
MOST_SCORES = 10**10
"""Words of the validation sessions times words of the vocabulary. Where there are more, the
finished model is measured on the sessions that it was validated on while it was trained: at the
paper's size all of them take hours."""
_FREE_TO_CHANGE = {
    "epochs", "max_steps", "patience", "checkpoint_minutes", "checkpoint_every", "report_every"
}  # fmt: skip
"""Training keys that may differ in a resumed run: they do not change what a step does."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended: finished with a model folder, or stopped by a signal."""

    position: Position
    facts: RunFacts | None
    signal: int


def train(
    data: PreparedData,
    out: Path,
    config: RunConfig,
    processes: Processes,
    *,
    resume: bool = False,
    continuation: Continuation | None = None,
    say: Callable[[str], None],
    stopping: StopListener = never_stop,
) -> Outcome:
    """Train a model on the background sessions of `data` and publish it at `out`.

    With `continuation` it continues from an earlier model, with the sessions that are new since.
    """
    if processes.leads:
        check_folders(out, resume=resume)
        data.artifact.verify()
    processes.agree(0)  # no process writes before the leading one has looked
    run = Run(data, out, config, processes, continuation)
    claim = claimed(run.folder) if processes.leads else nullcontext()
    with _disk_errors(out), _memory_errors(), claim:
        trainer, validation = run.set_up(say)
        signal = run.take_steps(trainer, stopping)
        if signal:
            return Outcome(trainer.position, None, signal)
        return Outcome(trainer.position, run.publish(trainer, validation), 0)


class Run:
    """The stages of a run, in order."""

    def __init__(
        self,
        data: PreparedData,
        out: Path,
        config: RunConfig,
        processes: Processes,
        continuation: Continuation | None = None,
    ) -> None:
        self.folder = folder_of_run(out)
        self._data = data
        self._out = out
        self._config = config
        self._processes = processes
        self._continuation = continuation
        self._chosen: Chosen | None = None
        self._id = ""
        self._vocabulary = Vocabulary(data.words()[: config.model.vocabulary_size])
        self._checkpoints = CheckpointFolder(
            self.folder / "checkpoints",
            identity(config, data, self._vocabulary, continuation),
            _fixed_settings(RunConfig()),
        )

    def set_up(self, say: Callable[[str], None]) -> tuple[Trainer, EncodedSessions]:
        """Encode the sessions, build the model, and load the newest checkpoint, if any."""
        config = self._config.train
        if self._processes.leads:
            self._id = run_id(self.folder, torch.get_num_threads(), say)
        sessions, validation = self._encode()
        torch.manual_seed(config.seed)
        model = new_model(self._config.model, self._vocabulary)
        if config.initialisation == "authors" and isinstance(model, HRED):
            initialise_as_authors(model)
        likelihood = SessionLikelihood(model, config.chunk, config.usefulness_weight)
        likelihood = likelihood.to(self._processes.device)
        feed = _feed(likelihood.model, config, sessions, self._processes)
        watched = validation.sample(config.validation_sessions)
        trainer = Trainer(likelihood, config, feed, watched, self._checkpoints, self._processes)
        newest = self._checkpoints.newest(say) if self._processes.leads else 0
        step = self._processes.agree(newest)
        if step:
            trainer.restore(self._checkpoints.load(step))
            say(f"resuming after step {step}, epoch {trainer.position.epoch + 1}")
        elif self._continuation is not None:
            chosen, earlier = self._chosen, self._continuation.path
            assert chosen is not None
            new = take_weights(model, open_model(earlier), chosen.background)
            say(
                f"continuing from {earlier}: {chosen.new:,} new sessions, "
                f"{chosen.replayed:,} older ones, {new:,} new words"
            )
        elif config.word_vectors:
            vectors = read_word_vectors(Path(config.word_vectors), set(model.vocabulary.words))
            assert model.word_vectors is not None
            take_word_vectors(model.word_vectors, model.vocabulary, vectors)
            words = len(model.vocabulary) - len(SPECIAL)
            say(
                f"word vectors of {len(vectors.words):,} of {words:,} words from "
                f"{Path(config.word_vectors)}"
            )
        if self._processes.leads:
            self._checkpoints.clean_up(step)
        return trainer, validation

    def take_steps(self, trainer: Trainer, stopping: StopListener) -> int:
        """Train; returns the signal that ended it early, 0 if none did."""
        if not self._processes.leads:
            return trainer.run(None, stopping)
        steps = trainer.steps_per_epoch()
        with TrainingLog(
            self.folder, trainer.position.step, steps, self._config.train.epochs
        ) as training_log:
            return trainer.run(training_log, stopping)

    def publish(self, trainer: Trainer, validation: EncodedSessions) -> RunFacts:
        """Measure the best weights, make the model folder and remove that of the run."""
        processes = self._processes
        processes.agree(0)  # the leading process has written the last checkpoint
        trainer.load_weights(self._checkpoints.load(trainer.position.best_step).weights)
        if len(validation.words) * len(self._vocabulary) > MOST_SCORES:
            validation = validation.sample(self._config.train.validation_sessions)
        contexts = {
            context: measure(trainer.likelihood, validation, processes, context)
            for context in CONTEXTS
        }
        position = trainer.position
        # Kilobytes on Linux, bytes on macOS.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        facts = RunFacts(
            steps=position.step,
            # The last perhaps in part, as `metrics.jsonl` counts.
            epochs=position.epoch + (position.batch > 0),
            best_step=position.best_step,
            words=position.words,
            seconds=position.seconds,
            peak_memory_bytes=peak if sys.platform == "darwin" else peak * 1024,
            processes=processes.count,
            threads=torch.get_num_threads(),
            device=str(processes.device),
            run=self._id,
            perplexity=contexts,
            usefulness=measure_usefulness(trainer.likelihood, validation, processes),
        )
        if processes.leads:
            publish_model(
                self._out,
                trainer.likelihood.model,
                self._config,
                self._data,
                self.folder,
                facts,
                self._continuation,
                self._chosen,
            )
            remove(self.folder)
        processes.agree(0)  # no process ends before the folder is there
        return facts

    def _encode(self) -> tuple[EncodedSessions, EncodedSessions]:
        """Background and validation; every process reads for itself: they may share no disk."""
        limits = SessionLimits(self._config.train.max_queries, self._config.train.max_words)
        folder = self.folder / f"sessions-{self._processes.rank}"
        encoded = []
        for split in ("background", "validation"):
            sessions = encode_sessions(
                self._data.sessions(split),
                self._vocabulary,
                limits,
                folder / split,
                getattr(self._config.model, "character_ngrams", 0),
            )
            if self._config.train.usefulness_weight:
                queries = len(sessions.query_starts) - 1
                useful = np.fromiter(usefulness(self._data, split), np.float32, queries)
                sessions = replace(sessions, useful=useful)
            encoded.append(sessions)
        background, validation = encoded
        if self._continuation is not None:
            seed = self._config.train.seed
            self._chosen = choose_sessions(self._continuation, self._data, background, seed)
            background = self._chosen.sessions
        return background, validation


def identity(
    config: RunConfig,
    data: PreparedData,
    vocabulary: Vocabulary,
    continuation: Continuation | None = None,
) -> dict[str, object]:
    """What must be the same for a run to be resumed, by the names that a message uses."""
    files = json.dumps(data.artifact.manifest["files"], sort_keys=True)
    words = "\n".join(vocabulary.words)
    return {
        "vocabulary": hashlib.sha256(words.encode()).hexdigest()[:16],
        "data folder": hashlib.sha256(files.encode()).hexdigest()[:16],
        **_fixed_settings(config),
        "earlier model": None if continuation is None else [continuation.run, continuation.replay],
    }


def _fixed_settings(config: RunConfig) -> dict[str, object]:
    """The settings that decide what a step does, by their full names."""
    train = config.train.model_dump(mode="json")
    return {
        **{f"model.{key}": v for key, v in config.model.model_dump(by_alias=True).items()},
        **{f"train.{key}": v for key, v in train.items() if key not in _FREE_TO_CHANGE},
    }


def _feed(
    model: SessionModel, config: TrainConfig, sessions: EncodedSessions, processes: Processes
) -> Feed:
    """The batches, with sampled candidates if the loss is sampled; decides sparse gradients."""
    sampled = config.sampled(len(model.vocabulary))
    if model.word_vectors is not None:
        model.word_vectors.sparse = sampled or model.output_vectors is not model.word_vectors
    if model.character_ngrams is not None:
        model.character_ngrams.sparse = True
    if sampled:
        model.output_vectors.sparse = True
    sampler = (
        CandidateSampler(sessions.word_counts(), config.head_words, config.sampled_words)
        if sampled
        else None
    )
    share = (processes.rank, processes.count)
    return Feed(sessions, config.seed, config.batch_words, config.sort_window, sampler, share)


@contextmanager
def _disk_errors(out: Path) -> Iterator[None]:
    """Say what to do when the run's folder or its model cannot be written; other errors pass."""
    try:
        yield
    except ConnectionError:  # of a pipe or another process, not of the disk
        raise
    except (OSError, SafetensorError) as error:
        name = getattr(error, "filename", None)
        path = Path(os.fsdecode(name)) if isinstance(name, str | bytes) else folder_of_run(out)
        if not _of_run(path, out):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise TrainingError(
            f"{path}: {reason}; {advice(error)} and run again with `resume`"
        ) from error


@contextmanager
def _memory_errors() -> Iterator[None]:
    """Say what to do when PyTorch finds no memory, for which it has several errors."""
    try:
        yield
    except RuntimeError as error:
        first = str(error).partition("\n")[0]
        if not re.search(r"(can't allocate|out of) memory", first, re.IGNORECASE):
            raise
        raise TrainingError(
            f"not enough memory ({first}); lower train.batch_words or the sizes of the model"
        ) from error


def _of_run(path: Path, out: Path) -> bool:
    """Whether a path is in `OUT/`, in `OUT.training/` or in what `publish` writes next to them."""
    path, parent = path.absolute(), out.absolute().parent
    if parent not in path.parents:
        return False
    first = path.relative_to(parent).parts[0]
    return first in (out.name, folder_of_run(out).name) or first.startswith(f".{out.name}.")
