"""What an operator decides about a service. Knows names and bounds; opens nothing."""

from dataclasses import dataclass
from pathlib import Path

from nextquery.errors import InputError
from nextquery.feedback.assignment import Share

PUBLIC = frozenset({"metrics", "docs"})
MAX_QUERY_CHARACTERS = 512
MAX_WORD_CHARACTERS = 64
"""A longer word is cut: no model knows one, and the patterns of personal data take time that grows
with the square of its length."""
MAX_PREFIX_CHARACTERS = 128
"""A longer prefix has no completions."""
MAX_CONTEXT_QUERIES = 100
MAX_SESSION_BYTES = 4096
"""UTF-8 of the last queries of a session that are read and stored: older ones are left out."""
MAX_SUGGESTIONS = 50
MAX_CANDIDATES = 100
MAX_BATCH_REQUESTS = 64
MAX_BODY_BYTES = 1 << 20
MAX_FEEDBACK_DAYS = 36_500
BOUNDS: dict[str, tuple[float, float]] = {
    "port": (0, 65_535),
    "workers": (1, 256),
    "threads": (0, 1024),
    "queue_size": (1, 1_000_000),
    "batch_size": (1, 10_000),
    "batch_seconds": (0.001, 86_400),
    "budget_ms": (1, 86_400_000),
    "max_sessions": (1, 1_000_000_000),
    "idle_minutes": (0.001, 525_600),
    "rate_per_second": (0, 1_000_000_000),
    "drain_seconds": (0, 86_400),
    "feedback_mb": (1, 1_000_000),
}
"""The least and the most of every number: beyond is a slip, and some would wait for ever."""
BODY_SECONDS = 10.0
"""A body that has not arrived after this long is refused, so that slow clients hold nothing."""


def text_bytes(text: str) -> int:
    """The length of a text in UTF-8.

    >>> text_bytes("paris"), text_bytes("東京")
    (5, 6)
    """
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True)
class NamedModel:
    """A model folder and the name under which requests ask for it."""

    name: str
    path: Path


@dataclass(frozen=True)
class ServiceSettings:
    """Everything a worker needs to know, the same for all workers of a service."""

    models: tuple[NamedModel, ...]
    """The served models; the first answers requests that name none."""
    control: Path
    """Folder through which the workers of one machine tell each other of a reload."""
    fallback: Path | None = None
    """A count model that answers when the main model is late or overloaded."""
    rescue: Path | None = None
    """A rescue model: its lists come first after a query that a request says found nothing."""
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    threads: int = 0
    """Threads of the neural model in each worker; 0 shares the cores among the workers."""
    budget_ms: int = 300
    """How long a request may wait for its model before the fallback answers, or 503."""
    queue_size: int = 32
    """Requests of a burst that may wait for a model; one more is refused at once."""
    batch_size: int = 4
    """Waiting requests that are answered together; in a lasting overload no more may wait."""
    batch_seconds: float = 10.0
    """A batch that takes a neural model longer is ended; its requests get 503."""
    sessions: str = "memory"
    """`memory`, a `redis://` URL, or `none`; several workers cannot share `memory`."""
    max_sessions: int = 10_000
    idle_minutes: float = 30.0
    keys_file: Path | None = None
    admin_keys_file: Path | None = None
    rate_per_second: float = 0.0
    """Ordinary requests a second of one key, or of one address without keys; 0 sets no limit."""
    public: frozenset[str] = frozenset()
    """What is shown without a key where keys are asked for: `metrics`, `docs`."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks whose `X-Forwarded-For` is believed; `*` believes everybody."""
    cors_origins: tuple[str, ...] = ()
    interleave: tuple[str, ...] = ()
    """Two served models whose lists are shown as one, in turns."""
    split: tuple[Share, ...] = ()
    """The models among which sessions are divided."""
    shadow: str | None = None
    """A served model that is asked for every list and recorded, and never shown."""
    feedback: Path | None = None
    """Folder of the feedback log; without it feedback is refused."""
    feedback_days: int | None = None
    """The last days whose feedback files are kept; None keeps them all."""
    feedback_mb: int = 1024
    """Megabytes that a feedback file (one of three per day) may grow to; the rest is refused."""
    score: bool = False
    """Whether `/v1/score` answers: scores of a trained model tell what single people typed."""
    blocklist: Path | None = None
    kill_switch: Path | None = None
    """While this file exists every list is empty."""
    drain_seconds: float = 1.0
    """How long a stopping service reports itself as not ready before it takes no more requests."""

    def __post_init__(self) -> None:
        if unknown := self.public - PUBLIC:
            raise InputError(f"`public` {min(unknown)}: must be one of {', '.join(sorted(PUBLIC))}")
        names = [model.name for model in self.models]
        if len(set(names)) != len(names):
            raise InputError(f"two models are named the same: {', '.join(names)}")
        self._check_trials(names)
        if self.feedback_days is not None and not (
            self.feedback and 1 <= self.feedback_days <= MAX_FEEDBACK_DAYS
        ):
            raise InputError(
                f"`feedback_days`: needs `feedback`, and must be 1 to {MAX_FEEDBACK_DAYS:,}"
            )
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name)
            if not least <= value <= most:  # nor may it be nan
                known = f"at least {least:,}" if value < least else f"at most {most:,}"
                raise InputError(f"`{name}` {value}: must be {known}")
        self._check_sessions()

    def _check_sessions(self) -> None:
        if not self.sessions.startswith(("redis://", "rediss://", "unix://")) and (
            self.sessions not in ("memory", "none")
        ):
            raise InputError(
                f"`sessions` {self.sessions}: write 'memory', 'none' or redis://HOST:PORT/DB"
            )
        if self.workers > 1 and self.sessions == "memory":
            raise InputError(
                f"`workers` {self.workers}: workers do not share sessions in memory, so a session "
                "would be incomplete and could not be deleted; set `sessions` to "
                "redis://HOST:PORT/DB, or to 'none' if every request sends its own context"
            )

    def _check_trials(self, served: list[str]) -> None:
        if self.interleave and (len(self.interleave) != 2 or len(set(self.interleave)) != 2):
            raise InputError("`interleave`: name two different models")
        if self.interleave and self.split:
            raise InputError("`interleave` and `split`: choose one of the two")
        arms = [share.name for share in self.split]
        if self.split and (len(arms) < 2 or len(set(arms)) != len(arms)):
            raise InputError("`split`: name at least two different models")
        in_trials = {"interleave": self.interleave, "split": arms, "shadow": [self.shadow]}
        for setting, names in in_trials.items():
            for name in names:
                if name is not None and name not in served:
                    known = ", ".join(served)
                    raise InputError(f"`{setting}` {name}: is not served; there are: {known}")
        if (self.interleave or self.split or self.shadow) and self.feedback is None:
            raise InputError("a trial needs `feedback`, the folder in which it is recorded")
