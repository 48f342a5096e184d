"""The JSON log of the service and its Prometheus metrics; neither contains query texts."""

import contextlib
import json
import logging
import os
import sys
import time
import traceback
import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    generate_latest,
)

LOGGER = logging.getLogger("nextquery.service")


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        entry: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0]:
            entry["error"] = record.exc_info[0].__name__
            entry["places"] = code_places(record.exc_info[2])
        return json.dumps(entry, ensure_ascii=False)


def install() -> None:
    """Send the log of the service and of the HTTP server to stderr as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("nextquery", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False


def log_event(message: str, **fields: Any) -> None:
    """Log a message with fields."""
    LOGGER.info(message, extra={"fields": fields})


def log_warning(message: str, **fields: Any) -> None:
    """Log what an operator should look at."""
    LOGGER.warning(message, extra={"fields": fields})


def log_failure(message: str, error: BaseException, **fields: Any) -> None:
    """Log an error that was not expected."""
    LOGGER.error(
        message,
        extra={"fields": fields},
        exc_info=(type(error), error, error.__traceback__),
    )


def code_places(trace: TracebackType | None) -> list[str]:
    """The places in the code that a traceback passes, outermost first."""
    return [
        f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(trace)
    ]


DIRECTORY_VARIABLE = "NEXTQUERY_METRICS_FOLDER"
SECONDS_BETWEEN_COPIES = 1.0
ENDED = "ended.json"
"""The sums of all workers that ended."""
_LATENCY = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_BATCHES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The metrics of one worker."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._file = f"worker-{os.getpid()}-{uuid.uuid4().hex[:8]}.json"
        self._copied_at = float("-inf")
        self._problem = ""
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        # fmt: off
        self.requests = counter(
            "nextquery_requests", "Answers by route and status", ["route", "status"])
        self.latency = histogram(
            "nextquery_request_seconds", "From the first byte to the answer", ["route"],
            buckets=_LATENCY)
        self.in_flight = gauge("nextquery_requests_in_flight", "Requests not yet answered")
        self.cancelled = counter(
            "nextquery_requests_cancelled", "Clients that left before their answer")
        self.feedback_lost = counter("nextquery_feedback_lost", "Lists that could not be recorded")
        self.queue = gauge("nextquery_queue_length", "Requests waiting for a model", ["model"])
        self.batch = histogram(
            "nextquery_batch_size", "Requests answered together", ["model"], buckets=_BATCHES)
        self.model_seconds = histogram(
            "nextquery_model_seconds", "Time of one batch in the model", ["model"],
            buckets=_LATENCY)
        self.model_restarts = counter(
            "nextquery_model_restarts", "Model processes that ended and were started again",
            ["model"])
        self.refused = counter(
            "nextquery_refused", "Requests refused at once: the queue was full", ["model"])
        self.fallbacks = counter(
            "nextquery_fallbacks", "Answers of the fallback model", ["reason"])
        self.arm_failures = counter(
            "nextquery_arm_failures", "Lists that a model of a trial could not make", ["model"])
        self.blocked = counter(
            "nextquery_suggestions_blocked", "Suggestions that a guard held back",
            ["model", "reason"])
        self.reloads = counter("nextquery_reloads", "Attempts to load a new model", ["result"])
        self.sessions = gauge("nextquery_sessions", "Sessions held in memory")
        self.sessions_unavailable = counter(
            "nextquery_sessions_unavailable", "Requests answered without the session store")
        self.feedback = counter("nextquery_feedback", "Feedback events written", ["action"])
        # fmt: on

    def render(self) -> bytes:
        """All metrics as text, those of the other workers included."""
        folder = _folder()
        if folder is None:
            return generate_latest(self.registry)
        other_workers = [
            family
            for path in _copies(folder)
            if path.name != self._file
            for family in _read(path)["metrics"]
        ]
        everyone = CollectorRegistry()
        everyone.register(_Sums([*_families(self.registry), *other_workers]))
        return generate_latest(everyone)

    def share(self, *, at_once: bool = False) -> None:
        """Write a copy for the other workers, if there are any and the last one is old."""
        folder = _folder()
        if folder is None or not (at_once or time.monotonic() >= self._copied_at):
            return
        self._copied_at = time.monotonic() + SECONDS_BETWEEN_COPIES
        try:
            _write(folder / self._file, {"metrics": _families(self.registry)})
        except OSError as error:
            if str(error) != self._problem:
                log_failure("other workers cannot be told of this one's metrics", error)
            self._problem = str(error)
        else:
            self._problem = ""


def add_ended(pid: int | None) -> None:
    """Add the counts of a worker that ended to those of the others that ended, gauges left out."""
    folder = _folder()
    if folder is None:
        return
    for path in folder.glob(f"worker-{pid}-*.json"):
        counts = [family for family in _read(path)["metrics"] if family["type"] != "gauge"]
        summed = _summed([*_read(folder / ENDED)["metrics"], *counts])
        # A worker that reads between these two lines must not count it twice.
        _write(folder / ENDED, {"metrics": list(summed.values()), "last": path.name})
        path.unlink()


class _Sums:
    """The sums of the metrics of several workers."""

    def __init__(self, families: Iterable[Any]) -> None:
        self._families = _summed(families)

    def collect(self) -> Iterator[Metric]:
        for family in self._families.values():
            metric = Metric(family["name"], family["help"], family["type"])
            for name, labels, value in family["samples"]:
                metric.add_sample(name, dict(labels), value)
            yield metric


def _folder() -> Path | None:
    path = os.environ.get(DIRECTORY_VARIABLE)
    return Path(path) if path else None


def _families(registry: CollectorRegistry) -> list[Any]:
    """The metrics of a worker as JSON; when each was created says nothing of a sum."""
    return [
        {
            "name": metric.name,
            "help": metric.documentation,
            "type": metric.type,
            "samples": [
                [sample.name, sorted(sample.labels.items()), sample.value]
                for sample in metric.samples
                if not sample.name.endswith("_created")
            ],
        }
        for metric in registry.collect()
    ]


def _summed(families: Iterable[Any]) -> dict[str, Any]:
    """The metrics by name, equal samples added up."""
    sums: dict[str, dict[tuple[Any, ...], float]] = {}
    first: dict[str, Any] = {}
    for family in families:
        name = first.setdefault(family["name"], family)["name"]
        samples = sums.setdefault(name, {})
        for sample, labels, value in family["samples"]:
            key = sample, tuple(map(tuple, labels))
            samples[key] = samples.get(key, 0.0) + value
    return {
        name: {**family, "samples": [[*key, value] for key, value in sums[name].items()]}
        for name, family in first.items()
    }


def _copies(folder: Path) -> list[Path]:
    """The files of the folder, without one that has just been added to those that ended."""
    last = _read(folder / ENDED).get("last")
    return [path for path in folder.glob("*.json") if path.name != last]


def _read(path: Path) -> Any:
    """The content of a copy; none if it is gone or damaged."""
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_bytes())
    return {"metrics": []}


def _write(path: Path, content: Any) -> None:
    """Replace a copy. It need not survive the machine, so it is not flushed to the disk."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_suffix(".partial")
    beside.write_text(json.dumps(content), encoding="utf-8")
    beside.replace(path)
