"""The training loop: steps, validation, early stopping, checkpoints, progress and metrics."""

import json
import math
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from nextquery.errors import TrainingError
from nextquery.model.likelihood import Candidates, CandidateSampler, SessionLikelihood
from nextquery.model.settings import TrainConfig
from nextquery.text.batching import Batch, build_batch, cut, epoch_batches
from nextquery.text.corpus import EncodedSessions
from nextquery.training.checkpoint import Checkpoint, CheckpointFolder, Position
from nextquery.training.distributed import Processes
from nextquery.training.optimiser import Optimiser

T = TypeVar("T")
_ORDER, _CANDIDATES, _DROPOUT = 0, 1, 2
"""What a random stream is for, so that no two are the same."""


@dataclass(frozen=True)
class TrainingStep:
    """What one process needs for one step."""

    batch: Batch
    candidates: Candidates | None
    members: NDArray[np.int64]
    """The sessions of the whole batch, over all processes."""
    words: int
    """The symbols that the whole batch predicts."""
    counts: bool
    """Whether this process's share counts; a batch may have fewer sessions than processes."""


class Feed:
    """The batches of every epoch, for one of several processes."""

    def __init__(
        self,
        corpus: EncodedSessions,
        seed: int,
        batch_words: int,
        sort_window: int = 64,
        sampler: CandidateSampler | None = None,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        """`sort_window`: how many batches' sessions are sorted by length together."""
        self._corpus = corpus
        self._seed, self._batch_words, self._sort_window = seed, batch_words, sort_window
        self._sampler = sampler
        self._rank, self._processes = share
        self._lengths, self._queries = corpus.lengths(), corpus.queries()

    def epoch(self, epoch: int) -> list[NDArray[np.int64]]:
        """The sessions of each batch of an epoch, in order."""
        rng = np.random.default_rng((self._seed, _ORDER, epoch))
        return epoch_batches(
            self._lengths, self._queries, self._batch_words, rng, self._sort_window
        )

    def ids(self, members: NDArray[np.int64]) -> list[int]:
        """The ids that sessions have in the prepared data."""
        return [int(identifier) for identifier in self._corpus.ids[members]]

    def steps(
        self, batches: list[NDArray[np.int64]], start: int, step: int
    ) -> Iterator[TrainingStep]:
        """The batches from number `start` on, the first being step number `step`."""
        numbered = enumerate(batches[start:], start=step)
        return prefetched(self._step(members, number) for number, members in numbered)

    def _step(self, members: NDArray[np.int64], step: int) -> TrainingStep:
        own_members = members[self._rank :: self._processes]
        full_batch = build_batch(self._corpus, members)
        candidates = None
        if self._sampler is not None:
            rng = np.random.default_rng((self._seed, _CANDIDATES, step))
            candidates = self._sampler.draw(full_batch.targets, rng)
        batch = full_batch
        if self._processes > 1:
            batch = build_batch(self._corpus, own_members if len(own_members) else members[:1])
        return TrainingStep(
            batch, candidates, members, len(full_batch.targets), len(own_members) > 0
        )


def dropout_seed(seed: int, step: int, rank: int) -> int:
    """The seed of a step's dropout: it need not be stored to resume a run."""
    return int(np.random.SeedSequence((seed, _DROPOUT, step, rank)).generate_state(1)[0])


def prefetched(items: Iterator[T], depth: int = 4) -> Iterator[T]:
    """The items, which are not None; a thread makes up to `depth` of them in advance."""
    thread = ThreadPoolExecutor(1, "batches")
    try:
        ahead = deque(thread.submit(next, items, None) for _ in range(depth))
        while (item := ahead.popleft().result()) is not None:
            ahead.append(thread.submit(next, items, None))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)


METRICS, EVENTS = "metrics.jsonl", "events"


class TrainingLog(AbstractContextManager["TrainingLog"]):
    """Takes reports of steps and validations; keeps those up to `step` of an earlier run."""

    def __init__(self, folder: Path, step: int, steps_per_epoch: int, epochs: int) -> None:
        self._file = folder / METRICS
        lines_to_keep = [line for line in read_metrics(self._file) if line["step"] <= step]
        self._file.write_text("".join(_line(entry) for entry in lines_to_keep), encoding="utf-8")
        self._stream = self._file.open("a", encoding="utf-8")
        self._events = SummaryWriter(str(folder / EVENTS), purge_step=step + 1)
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("epoch {task.fields[epoch]}/" + str(epochs)),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[facts]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not sys.stderr.isatty(),
        )
        total = steps_per_epoch * epochs
        self._task = self._bar.add_task("", total=total, completed=step, epoch=1, facts="")
        self._facts = {"training perplexity": "-", "validation perplexity": "-", "words/s": "-"}

    def __enter__(self) -> "TrainingLog":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()
        self._stream.close()
        self._events.close()

    def advance(self, step: int, epoch: int) -> None:
        """Move the progress bar."""
        self._bar.update(self._task, completed=step, epoch=epoch + 1, facts=self._facts_text())

    def report(self, step: int, values: dict[str, Any]) -> None:
        """Write a report of the steps since the last one."""
        self._facts["training perplexity"] = f"{math.exp(min(values['loss'], 50)):.1f}"
        self._facts["words/s"] = f"{values['words_per_second']:.0f}"
        self._write(step, values, "training")

    def validation(self, step: int, values: dict[str, Any]) -> None:
        """Write the result of a validation; without a terminal it is also a line on stderr."""
        self._facts["validation perplexity"] = f"{values['validation_perplexity']:.1f}"
        self._write(step, values, "validation")
        if not sys.stderr.isatty():
            self.say(f"step {step}: epoch {values['epoch']}, {self._facts_text()}")

    def say(self, text: str) -> None:
        """Print a line on stderr, above the progress bar."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def _facts_text(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self._facts.items())

    def _write(self, step: int, values: dict[str, Any], group: str) -> None:
        self._stream.write(_line({"step": step, **values}))
        self._stream.flush()
        for name, value in values.items():
            self._events.add_scalar(f"{group}/{name}", value, step)


def read_metrics(file: Path) -> Iterator[dict[str, Any]]:
    """The entries of a `metrics.jsonl`; a last line cut off by a crash is left out."""
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            yield json.loads(line)


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry) + "\n"


@dataclass(frozen=True)
class Perplexity:
    """Natural-log likelihoods summed over symbols, end-of-query symbols included."""

    log_likelihood: float
    symbols: int
    known_log_likelihood: float
    """The part of the targets that are in the vocabulary."""
    known_symbols: int

    @property
    def nll(self) -> float:
        """Negative log-likelihood per symbol."""
        return -self.log_likelihood / self.symbols

    @property
    def perplexity(self) -> float:
        """Per symbol, words outside the vocabulary included."""
        return math.exp(self.nll)

    @property
    def known_perplexity(self) -> float:
        """Per symbol of the vocabulary."""
        return math.exp(-self.known_log_likelihood / self.known_symbols)


def measure(
    likelihood: SessionLikelihood,
    corpus: EncodedSessions,
    processes: Processes,
    context: int | None = None,
    batch_words: int = 2048,
) -> Perplexity:
    """The perplexity of every query of every session, each process doing its share.

    With `context`, a query is predicted from at most that many queries before it.
    """
    sums = np.zeros(4)
    training = likelihood.training
    likelihood.eval()
    with torch.no_grad():
        for batch in _batches(corpus, context, batch_words, processes):
            _, rows = likelihood(batch)
            rows = rows.double().cpu().numpy()
            in_vocabulary = batch.extended_targets < corpus.vocabulary_size
            sums += (rows.sum(), len(rows), rows[in_vocabulary].sum(), in_vocabulary.sum())
    likelihood.train(training)
    total, symbols, known_total, known_symbols = processes.total(sums.tolist())
    return Perplexity(total, int(symbols), known_total, int(known_symbols))


@dataclass(frozen=True)
class UsefulnessLoss:
    """How well a usefulness head separates useful queries from the rest, in nats per query."""

    queries: int
    nll: float
    share_nll: float
    """Of saying the same of every query: the share of useful ones."""


def measure_usefulness(
    likelihood: SessionLikelihood, corpus: EncodedSessions, processes: Processes
) -> UsefulnessLoss | None:
    """The loss of the usefulness head on every query; None where the model has none."""
    if likelihood.model.usefulness is None:
        return None
    sums = np.zeros(3)
    training = likelihood.training
    likelihood.eval()
    with torch.no_grad():
        for batch in _batches(corpus, None, 2048, processes):
            assert batch.useful is not None
            total = float(likelihood.usefulness(batch).double().sum())
            sums += (len(batch.useful), total, batch.useful.sum())
    likelihood.train(training)
    queries, total, useful = processes.total(sums.tolist())
    share = useful / queries
    entropy = -sum(p * math.log(p) for p in (share, 1 - share) if p > 0)
    return UsefulnessLoss(int(queries), -total / queries, entropy)


def _batches(
    corpus: EncodedSessions, context: int | None, batch_words: int, processes: Processes
) -> Iterator[Batch]:
    sessions = corpus if context is None else corpus.windows(context)
    lengths, queries = sessions.lengths(), sessions.queries()
    order: NDArray[np.int64] = np.lexsort((lengths, queries))
    own_batches = list(cut(order, lengths, batch_words))[processes.rank :: processes.count]
    for members in own_batches:
        yield build_batch(sessions, members, last_only=context is not None)


@dataclass
class StopRequest:
    """Set to stop training; the loop reads it between steps."""

    signal: int = 0


StopListener = Callable[[], AbstractContextManager[StopRequest]]
"""Opened while steps are taken: what it gives may be set at any time, by a signal for example."""


@contextmanager
def never_stop() -> Iterator[StopRequest]:
    """A request that nobody makes."""
    yield StopRequest()


class Trainer:
    """Trains a model from a position on."""

    def __init__(
        self,
        likelihood: SessionLikelihood,
        config: TrainConfig,
        feed: Feed,
        validation: EncodedSessions,
        checkpoints: CheckpointFolder,
        processes: Processes,
    ) -> None:
        self.likelihood = likelihood
        self._shared = processes.share(likelihood)
        self._config = config
        self._feed = feed
        self._validation = validation
        self._checkpoints = checkpoints
        self._processes = processes
        self._optimiser = Optimiser(likelihood, config.optimiser, config.rate)
        self.position = Position(rate=config.rate)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint."""
        self.load_weights(checkpoint.weights)
        self._optimiser.restore(checkpoint.optimiser)
        self.position = checkpoint.position

    def load_weights(self, weights: dict[str, Tensor]) -> None:
        """Give the model these weights."""
        with torch.no_grad():
            for name, parameter in self.likelihood.model.named_parameters():
                parameter.copy_(weights[name])

    def steps_per_epoch(self) -> int:
        """About how many batches an epoch has: every epoch is cut into batches again."""
        return len(self._feed.epoch(self.position.epoch))

    def run(self, training_log: TrainingLog | None, stopping: StopListener = never_stop) -> int:
        """Train until epochs or steps are over, validation stops improving, or a signal arrives.

        Returns the signal, 0 if there was none.
        """
        self._training_log = training_log
        self._started = time.monotonic() - self.position.seconds
        self._saved = self._reported = time.monotonic()
        self._waited = 0.0
        self._stopped = False  # only if all processes agree: otherwise one would wait forever
        with stopping() as request:
            while not self._finished() and not self._stopped:
                self._epoch(request)
            if not self._stopped and self.position.validated_step < self.position.step:
                self._validate()
        self._save()
        return (request.signal or signal.SIGTERM) if self._stopped else 0

    def _finished(self) -> bool:
        over = self.position.epoch >= self._config.epochs
        enough = 0 < self._config.max_steps <= self.position.step
        return over or enough or self.position.stale >= self._config.patience

    def _epoch(self, request: StopRequest) -> None:
        """Train on the rest of the epoch."""
        batches = self._feed.epoch(self.position.epoch)
        self._validate_if_due(batches)
        steps = self._feed.steps(batches, self.position.batch, self.position.step + 1)
        for training_step in self._timed(steps):
            self._take(training_step, request)
            if self._stopped:
                return
            self._validate_if_due(batches)
            if self._finished():
                return
            interval = self._config.checkpoint_every
            minutes = (time.monotonic() - self._saved) / 60
            by_step = interval and self.position.step % interval == 0
            if minutes > self._config.checkpoint_minutes or by_step:
                self._save()
        self._move(epoch=self.position.epoch + 1, batch=0)

    def _timed(self, steps: Iterator[TrainingStep]) -> Iterator[TrainingStep]:
        """The steps, adding up how long the model waited for its input."""
        while True:
            started = time.monotonic()
            step = next(steps, None)
            self._waited += time.monotonic() - started
            if step is None:
                return
            yield step

    def _take(self, training_step: TrainingStep, request: StopRequest) -> None:
        """One step: gradients of the whole batch's loss, clipped, and the update.

        The loss that is reported is per symbol, whatever the gradient is of.
        """
        number, rank = self.position.step + 1, self._processes.rank
        torch.manual_seed(dropout_seed(self._config.seed, number, rank))
        self._optimiser.clear()
        total, rows = self._shared(training_step.batch, training_step.candidates)
        counts, words = float(training_step.counts), training_step.words
        units = words if self._config.loss_per == "word" else len(training_step.members)
        # Gradients are averaged over the processes: undo that.
        (total * (-(counts / units) * self._processes.count)).backward()
        own_loss = -float(rows.sum()) * (counts / words)
        loss, stop_votes = self._processes.total([own_loss, float(request.signal)])
        norm = self._optimiser.clip(self._config.clip)
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise TrainingError(self._describe(training_step.members, loss, norm))
        self._optimiser.step(self._rate(number))
        self._stopped = stop_votes > 0
        self._move(
            step=number,
            batch=self.position.batch + 1,
            words=self.position.words + words,
            loss_sum=self.position.loss_sum + loss * words,
            loss_words=self.position.loss_words + words,
        )
        self._report(norm)

    def _rate(self, step: int) -> float:
        """The learning rate of a step: the position's, less while it warms up."""
        return self.position.rate * min(1.0, step / max(1, self._config.warmup_steps))

    def _describe(self, members: NDArray[np.int64], loss: float, norm: float) -> str:
        ids = ", ".join(str(identifier) for identifier in self._feed.ids(members)[:5])
        more = f" and {len(members) - 5} more" if len(members) > 5 else ""
        return (
            f"step {self.position.step + 1}: loss {loss}, gradient norm {norm}: not finite; "
            f"epoch {self.position.epoch + 1}, batch {self.position.batch + 1} "
            f"(sessions {ids}{more}); the checkpoints before it are kept: "
            "train a new model with a lower train.rate"
        )

    def _report(self, norm: float) -> None:
        position, now = self.position, time.monotonic()
        if self._training_log is not None:
            self._training_log.advance(position.step, position.epoch)
        if position.step % self._config.report_every:
            return
        seconds = now - self._reported
        if self._training_log is not None:
            self._training_log.report(
                position.step,
                {
                    "epoch": position.epoch + 1,
                    "loss": position.loss_sum / position.loss_words,
                    "words": position.words,
                    "words_per_second": position.loss_words / seconds,
                    "waiting_share": self._waited / seconds,
                    "gradient_norm": norm,
                    "rate": self._rate(position.step),
                    "seconds": now - self._started,
                },
            )
        self._reported, self._waited = now, 0.0
        self._move(loss_sum=0.0, loss_words=0)

    def _validate_if_due(self, batches: list[NDArray[np.int64]]) -> None:
        position, interval = self.position, self._config.validate_every
        due = position.step % interval == 0 if interval else position.batch == len(batches)
        if due and position.validated_step < position.step:
            self._validate()

    def _validate(self) -> None:
        """Measure the validation sessions, remember the best result and write a checkpoint."""
        position = self.position
        result = measure(self.likelihood, self._validation, self._processes)
        improved = position.best_nll is None or result.nll < position.best_nll
        self._move(
            validated_step=position.step,
            best_step=position.step if improved else position.best_step,
            best_nll=result.nll if improved else position.best_nll,
            stale=0 if improved else position.stale + 1,
            rate=position.rate if improved else position.rate * self._config.decay,
        )
        if self._training_log is not None:
            self._training_log.validation(
                position.step,
                {
                    "epoch": position.epoch + 1,
                    "validation_nll": result.nll,
                    "validation_perplexity": result.perplexity,
                    "validation_perplexity_known": result.known_perplexity,
                    "seconds": time.monotonic() - self._started,
                },
            )
        self._save()

    def _save(self) -> None:
        """Write a checkpoint; the other processes have nothing of their own to keep."""
        self._saved = time.monotonic()
        self._move(seconds=self._saved - self._started)
        if self._processes.leads:
            weights = dict(self.likelihood.model.named_parameters())
            self._checkpoints.save(
                self.position,
                {name: tensor.detach() for name, tensor in weights.items()},
                self._optimiser.tensors(),
            )

    def _move(self, **changes: Any) -> None:
        self.position = replace(self.position, **changes)
