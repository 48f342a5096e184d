"""What an operator watches, in Prometheus' format. Knows names and buckets, never a query text.

With several workers each process writes its counts to a shared folder (the variable
`PROMETHEUS_MULTIPROC_DIR`, set by the supervisor) and any of them answers for all.
"""

import os

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)

CONTENT_TYPE = CONTENT_TYPE_LATEST
DIRECTORY_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_LATENCY = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_BATCHES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The metrics of one worker."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests()
        self._models()
        self._sessions()

    def _requests(self) -> None:
        self.requests = Counter(
            "nextquery_requests", "Answers by route and status", ["route", "status"],
            registry=self.registry,
        )  # fmt: skip
        self.latency = Histogram(
            "nextquery_request_seconds", "From the first byte to the answer", ["route"],
            buckets=_LATENCY, registry=self.registry,
        )  # fmt: skip
        self.in_flight = Gauge(
            "nextquery_requests_in_flight", "Requests not yet answered",
            multiprocess_mode="livesum", registry=self.registry,
        )  # fmt: skip
        self.cancelled = Counter(
            "nextquery_requests_cancelled", "Clients that left before their answer",
            registry=self.registry,
        )  # fmt: skip

        self.feedback_lost = Counter(
            "nextquery_feedback_lost", "Lists that could not be recorded", registry=self.registry
        )

    def _models(self) -> None:
        self.queue = Gauge(
            "nextquery_queue_length", "Requests waiting for a model", ["model"],
            multiprocess_mode="livesum", registry=self.registry,
        )  # fmt: skip
        self.batch = Histogram(
            "nextquery_batch_size", "Requests answered together", ["model"],
            buckets=_BATCHES, registry=self.registry,
        )  # fmt: skip
        self.model_seconds = Histogram(
            "nextquery_model_seconds", "Time of one batch in the model", ["model"],
            buckets=_LATENCY, registry=self.registry,
        )  # fmt: skip
        self.model_restarts = Counter(
            "nextquery_model_restarts", "Model processes that ended and were started again",
            ["model"], registry=self.registry,
        )  # fmt: skip
        self.refused = Counter(
            "nextquery_refused", "Requests refused at once: the queue was full", ["model"],
            registry=self.registry,
        )  # fmt: skip
        self.fallbacks = Counter(
            "nextquery_fallbacks", "Answers of the fallback model", ["reason"],
            registry=self.registry,
        )  # fmt: skip
        self.cache = Counter(
            "nextquery_cache", "Look-ups of answers and encoded contexts", ["cache", "result"],
            registry=self.registry,
        )  # fmt: skip
        self.blocked = Counter(
            "nextquery_suggestions_blocked", "Suggestions that a guard held back",
            ["model", "reason"], registry=self.registry,
        )  # fmt: skip
        self.reloads = Counter(
            "nextquery_reloads", "Attempts to load a new model", ["result"],
            registry=self.registry,
        )  # fmt: skip

    def _sessions(self) -> None:
        self.sessions = Gauge(
            "nextquery_sessions", "Sessions held in memory",
            multiprocess_mode="livesum", registry=self.registry,
        )  # fmt: skip
        self.sessions_unavailable = Counter(
            "nextquery_sessions_unavailable", "Requests answered without the session store",
            registry=self.registry,
        )  # fmt: skip
        self.feedback = Counter(
            "nextquery_feedback", "Feedback events written", ["action"], registry=self.registry
        )

    def render(self) -> bytes:
        """All metrics as text, those of the other workers included."""
        if DIRECTORY_VARIABLE not in os.environ:
            return generate_latest(self.registry)
        everyone = CollectorRegistry()
        multiprocess.MultiProcessCollector(everyone)  # type: ignore[no-untyped-call]
        return generate_latest(everyone)
