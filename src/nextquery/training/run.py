"""A training run from data folder to model folder. Knows the files; the loop is in `training`.

While it trains, a run keeps everything in `OUT.training/` beside the model folder to be made:
checkpoints, metrics and the encoded sessions. The model folder appears once, complete; the folder
of the run is removed then.
"""

import hashlib
import json
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError

from nextquery.errors import TrainingError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.usefulness import usefulness
from nextquery.model.compiled_recurrence import recurrence_kernels
from nextquery.model.distillation import DistilledLikelihood
from nextquery.model.hred import HRED
from nextquery.model.initialisation import initialise_as_authors, take_word_vectors
from nextquery.model.likelihood import SessionLikelihood
from nextquery.model.sampled_softmax import CandidateSampler
from nextquery.model.settings import RunConfig, TrainConfig
from nextquery.text.corpus import EncodedSessions, SessionLimits, encode_sessions
from nextquery.text.query_vectors import QueryVectorTable, begin_table
from nextquery.text.vocabulary import SPECIAL, Vocabulary
from nextquery.text.word_vectors import read_word_vectors
from nextquery.training.checkpoint import CheckpointFolder, Position
from nextquery.training.continuing import Chosen, Continuation, choose_sessions, take_weights
from nextquery.training.distributed import Processes
from nextquery.training.feed import Feed, Order
from nextquery.training.perplexity import Perplexity, measure, measure_usefulness
from nextquery.training.publishing import Earlier, RunFacts, publish_model
from nextquery.training.run_folder import check_folders, claimed, folder_of_run, remove, run_id
from nextquery.training.teachers import open_teachers
from nextquery.training.trainer import StopListener, Trainer, never_stop
from nextquery.training.training_log import TrainingLog

CONTEXTS: tuple[int | None, ...] = (0, 1, 2, None)
"""The numbers of earlier queries with which the finished model is measured; None: all."""
_FREE_TO_CHANGE = {"epochs", "patience", "checkpoint_minutes", "checkpoint_every", "report_every"}
"""Training keys that a resumed run may be given anew: they do not change what a step does."""


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

    With `continuation` it goes on from an earlier model, with the sessions that are new since.
    """
    check(data, out, processes, resume)
    run = Run(data, out, config, processes, continuation)
    claim = claimed(run.folder) if processes.leads else nullcontext()
    with _disk_errors(run.folder), claim:
        trainer, validation = run.set_up(say)
        signal = run.take_steps(trainer, stopping)
        if signal:
            return Outcome(trainer.position, None, signal)
        return Outcome(trainer.position, run.publish(trainer, validation), 0)


def check(data: PreparedData, out: Path, processes: Processes, resume: bool) -> None:
    """Refuse what cannot go well, before anything is written."""
    if processes.leads:
        check_folders(out, resume=resume)
        data.artifact.verify()
    processes.agree(0)  # no process writes before the leading one has looked


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
        self._table = _query_vectors(data, config)
        self._teachers = open_teachers(config.train.teachers, config.model, self._vocabulary, data)
        self._checkpoints = CheckpointFolder(
            self.folder / "checkpoints",
            {
                **identity(config, data, self._vocabulary, continuation),
                "teachers": [teacher.facts.run for teacher in self._teachers] or None,
            },
            _fixed_settings(RunConfig()),
        )

    def set_up(self, say: Callable[[str], None]) -> tuple[Trainer, EncodedSessions]:
        """Encode the sessions, build the model, and take up the newest checkpoint if any."""
        config = self._config.train
        if self._processes.leads:
            compiled = recurrence_kernels() is not None
            self._id = run_id(self.folder, torch.get_num_threads(), compiled, say)
        sessions, validation = self._encode()
        torch.manual_seed(config.seed)
        model = HRED(self._config.model, self._vocabulary, self._table)
        if config.initialisation == "authors":
            initialise_as_authors(model)
        likelihood = self._likelihood(model)
        feed = _feed(likelihood.model, config, sessions, self._processes)
        watched = validation.sample(config.validation_sessions)
        trainer = Trainer(likelihood, config, feed, watched, self._checkpoints, self._processes)
        newest = self._checkpoints.newest(say) if self._processes.leads else 0
        step = self._processes.agree(newest)
        if step:
            trainer.restore(self._checkpoints.load(step))
            say(f"resuming after step {step}, epoch {trainer.position.epoch + 1}")
        elif self._continuation is not None:
            self._go_on_from(model, self._continuation, say)
        elif config.word_vectors:
            _begin_with(model, Path(config.word_vectors), say)
        if self._processes.leads:
            self._checkpoints.clean_up(step)
        return trainer, validation

    def _likelihood(self, model: HRED) -> SessionLikelihood:
        """The model as it is trained: by itself, or with teachers."""
        config, device = self._config.train, self._processes.device
        likelihood = SessionLikelihood(model, config.chunk, config.usefulness_weight)
        if self._teachers:
            teachers = [teacher.model.to(device) for teacher in self._teachers]
            likelihood = DistilledLikelihood(likelihood, teachers, config.distillation)
        return likelihood.to(device)

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
        contexts = {
            context: measure(trainer.likelihood, validation, processes, context)
            for context in CONTEXTS
        }
        useful = measure_usefulness(trainer.likelihood, validation, processes)
        facts = _facts(trainer.position, contexts, processes, self._id)
        taught_by = tuple(teacher.facts for teacher in self._teachers)
        facts = replace(facts, usefulness=useful, teachers=taught_by)
        if processes.leads:
            model = trainer.likelihood.model
            publish_model(
                self._out, model, self._config, self._data, self.folder, facts, self._earlier()
            )
            remove(self.folder)
        processes.agree(0)  # no process ends before the folder is there
        return facts

    def _encode(self) -> tuple[EncodedSessions, EncodedSessions]:
        """Background and validation; every process reads for itself: they may share no disk."""
        limits = SessionLimits(self._config.train.max_queries, self._config.train.max_words)
        folder = self.folder / f"sessions-{self._processes.rank}"
        background, validation = (
            self._with_use(
                encode_sessions(
                    self._data.sessions(each),
                    self._vocabulary,
                    limits,
                    folder / each,
                    self._table,
                    self._config.model.character_ngrams,
                ),
                each,
            )
            for each in ("background", "validation")
        )
        if self._continuation is not None:
            seed = self._config.train.seed
            self._chosen = choose_sessions(self._continuation, self._data, background, seed)
            background = self._chosen.sessions
        return background, validation

    def _go_on_from(
        self, model: HRED, continuation: Continuation, say: Callable[[str], None]
    ) -> None:
        """Begin with the weights of the earlier model."""
        assert self._chosen is not None
        new = take_weights(model, HRED.from_pretrained(continuation.path))
        say(
            f"going on from {continuation.path}: {self._chosen.new:,} new sessions, "
            f"{self._chosen.replayed:,} older ones, {new:,} new words"
        )

    def _earlier(self) -> Earlier | None:
        """What the finished folder says of the model that it went on from."""
        if self._continuation is None or self._chosen is None:
            return None
        counts = self._chosen.new, self._chosen.replayed
        return Earlier(self._continuation.manifest, self._continuation.run, *counts)

    def _with_use(self, sessions: EncodedSessions, split: str) -> EncodedSessions:
        """The sessions with how useful their queries were, if that is learnt."""
        if not self._config.train.usefulness_weight:
            return sessions
        queries = len(sessions.query_starts) - 1
        useful = np.fromiter(usefulness(self._data, split), np.float32, queries)
        return replace(sessions, useful=useful)


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


def _begin_with(model: HRED, path: Path, say: Callable[[str], None]) -> None:
    """Give the model the word vectors of a file, and say how many words it has."""
    found = read_word_vectors(path, set(model.vocabulary.words))
    take_word_vectors(model, found)
    known = len(model.vocabulary) - len(SPECIAL)
    say(f"word vectors of {len(found.words):,} of {known:,} words from {path}")


def _query_vectors(data: PreparedData, config: RunConfig) -> QueryVectorTable | None:
    """The vectors of the log's words and known queries that the session encoder is to read."""
    if not config.train.query_vectors:
        return None
    known = data.counts("queries").select("query").collect()["query"]
    wanted = {*data.words(), *known}
    return begin_table(Path(config.train.query_vectors), wanted, config.model.query_vectors)


def _feed(
    model: HRED, config: TrainConfig, sessions: EncodedSessions, processes: Processes
) -> Feed:
    """The batches, with sampled candidates if the loss is sampled; decides sparse gradients."""
    sampled = config.sampled(len(model.vocabulary))
    if model.word_vectors is not None:
        model.word_vectors.sparse = sampled or not model.config.tied
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
    order = Order(config.seed, config.batch_words, config.sort_window)
    return Feed(sessions, order, sampler, share)


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    """Say what to do when the disk is full or goes away."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise TrainingError(
            f"{folder}: cannot be written ({error}); the checkpoints there are good: "
            "free some space and run again with `resume`"
        ) from error


def _facts(
    position: Position,
    contexts: dict[int | None, Perplexity],
    processes: Processes,
    run: str,
) -> RunFacts:
    # Kilobytes on Linux, bytes on macOS.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return RunFacts(
        steps=position.step,
        epochs=position.epoch,
        best_step=position.best_step,
        words=position.words,
        seconds=position.seconds,
        peak_memory_bytes=peak if sys.platform == "darwin" else peak * 1024,
        processes=processes.count,
        threads=torch.get_num_threads(),
        compiled=recurrence_kernels() is not None,
        device=str(processes.device),
        run=run,
        perplexity=contexts,
    )
