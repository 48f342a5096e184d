"""A training run from data folder to model folder. Knows the files; the loop is in `training`.

While it trains, a run keeps everything in `OUT.training/` beside the model folder to be made:
checkpoints, metrics and the encoded sessions. The model folder appears once, complete; the folder
of the run is removed then.
"""

import hashlib
import json
import resource
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from nextquery.artifacts import check_target
from nextquery.errors import ArtifactError, TrainingError
from nextquery.logs.prepared import PreparedData
from nextquery.model.candidates import CandidateSampler
from nextquery.model.checkpoint import CheckpointFolder, Position
from nextquery.model.distributed import Processes
from nextquery.model.feed import Feed
from nextquery.model.hred import HRED
from nextquery.model.journal import Journal
from nextquery.model.likelihood import SessionLikelihood
from nextquery.model.perplexity import Perplexity, measure
from nextquery.model.publishing import RunFacts, publish_model
from nextquery.model.settings import TrainConfig, TrainingConfig
from nextquery.model.training import Trainer
from nextquery.text.corpus import EncodedSessions, SessionLimits, encode_sessions
from nextquery.text.vocabulary import Vocabulary

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
    config: TrainingConfig,
    processes: Processes,
    *,
    resume: bool = False,
    say: Callable[[str], None],
) -> Outcome:
    """Train a model on the background sessions of `data` and publish it at `out`."""
    folder = out.with_name(f"{out.name}.training")
    if processes.leads:
        _check_folders(out, folder, resume)
        data.artifact.verify()
    processes.agree(0)  # no process writes before the folders were checked
    vocabulary = Vocabulary(data.words()[: config.model.vocabulary_size])
    checkpoints = CheckpointFolder(folder / "checkpoints", identity(config, data, vocabulary))
    # Every process reads for itself: on several machines they may share no disk but this.
    encoded = folder / f"sessions-{processes.rank}"
    sessions, validation = _encode(data, vocabulary, config.train, encoded)
    torch.manual_seed(config.train.seed)
    likelihood = SessionLikelihood(HRED(config.model, vocabulary), config.train.chunk)
    likelihood.to(processes.device)
    feed = _feed(likelihood.model, config.train, sessions, processes)
    trainer = Trainer(
        likelihood,
        config.train,
        feed,
        validation.first(config.train.validation_sessions),
        checkpoints,
        processes,
    )
    step = processes.agree(checkpoints.newest(say) if processes.leads else 0)
    if step:
        trainer.restore(checkpoints.load(step))
        say(f"resuming after step {step}, epoch {trainer.position.epoch + 1}")
    if processes.leads:
        checkpoints.clean_up(step)
    signal = _run(trainer, folder, feed, config.train, processes)
    if signal:
        return Outcome(trainer.position, None, signal)
    processes.agree(0)  # the leading process has written the last checkpoint
    trainer.load_weights(checkpoints.load(trainer.position.best_step).weights)
    contexts = {
        context: measure(likelihood, validation, processes, context) for context in CONTEXTS
    }
    facts = _facts(trainer.position, contexts, processes)
    if processes.leads:
        publish_model(out, likelihood.model, config, data, folder, facts)
        shutil.rmtree(folder)
    processes.agree(0)
    return Outcome(trainer.position, facts, 0)


def identity(
    config: TrainingConfig, data: PreparedData, vocabulary: Vocabulary
) -> dict[str, object]:
    """What must be the same for a run to be resumed, by the names that a message uses."""
    files = json.dumps(data.artifact.manifest["files"], sort_keys=True)
    words = "\n".join(vocabulary.words)
    fixed = {
        f"train.{key}": value
        for key, value in config.train.model_dump().items()
        if key not in _FREE_TO_CHANGE
    }
    return {
        "vocabulary": hashlib.sha256(words.encode()).hexdigest()[:16],
        "data folder": hashlib.sha256(files.encode()).hexdigest()[:16],
        **{f"model.{key}": v for key, v in config.model.model_dump(by_alias=True).items()},
        **fixed,
    }


def _check_folders(out: Path, folder: Path, resume: bool) -> None:
    check_target(out)
    if folder.exists() and not resume:
        raise ArtifactError(
            f"{folder}: a run that was not finished; add --resume to go on with it, "
            "or delete that folder to start anew"
        )
    if resume and not folder.exists() and out.exists():
        raise ArtifactError(f"{out}: this run is finished; there is nothing to resume")


def _encode(
    data: PreparedData, vocabulary: Vocabulary, config: TrainConfig, folder: Path
) -> tuple[EncodedSessions, EncodedSessions]:
    limits = SessionLimits(config.max_queries, config.max_words)
    background = encode_sessions(
        data.sessions("background"), vocabulary, limits, folder / "background"
    )
    validation = encode_sessions(
        data.sessions("validation"), vocabulary, limits, folder / "validation"
    )
    return background, validation


def _feed(
    model: HRED, config: TrainConfig, sessions: EncodedSessions, processes: Processes
) -> Feed:
    """The batches, with sampled candidates if the loss is sampled; decides sparse gradients."""
    large = len(model.vocabulary) > config.exact_below
    sampled = config.loss == "sampled" or (config.loss == "auto" and large)
    if model.word_vectors is not None:
        model.word_vectors.sparse = sampled or not model.config.tied
    if sampled:
        model.output_vectors.sparse = True
    sampler = (
        CandidateSampler(sessions.word_counts(), config.head_words, config.sampled_words)
        if sampled
        else None
    )
    share = (processes.rank, processes.count)
    return Feed(sessions, config.batch_words, config.seed, sampler, share)


def _run(
    trainer: Trainer, folder: Path, feed: Feed, config: TrainConfig, processes: Processes
) -> int:
    if not processes.leads:
        return trainer.run(None).signal
    steps = len(feed.epoch(trainer.position.epoch))
    try:
        with Journal(folder, trainer.position.step, steps, config.epochs) as journal:
            return trainer.run(journal).signal
    except OSError as error:
        raise TrainingError(
            f"{folder}: cannot be written ({error}); the checkpoints there are good: "
            "free some space and run again with --resume"
        ) from error


def _facts(
    position: Position, contexts: dict[int | None, Perplexity], processes: Processes
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
        device=str(processes.device),
        perplexity=contexts,
    )
