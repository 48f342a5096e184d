"""What an operator decides about a service."""

from dataclasses import dataclass, field
from pathlib import Path

from nextquery.errors import InputError
from nextquery.feedback.assignment import Share
from nextquery.records import Known
from nextquery.settings import TUNING, Option, check_limits, setting

LISTS = "Lists"
"""The help panel of what visitors are shown."""
PUBLIC = frozenset({"metrics", "docs"})
MAX_QUERY_CHARACTERS = 512
MAX_WORD_CHARACTERS = 64
"""A longer word is cut: no model has one, and the patterns of personal data take time that grows
with the square of its length."""
MAX_PREFIX_CHARACTERS = 128
"""A longer prefix has no completions."""
MAX_CONTEXT_QUERIES = 100
MAX_SESSION_BYTES = 4096
"""UTF-8 of the last queries of a session that are read and stored: older ones are left out."""
MAX_HISTORY_BYTES = 16_384
"""UTF-8 of the earlier queries of a visitor that are read: older ones are left out."""
MAX_COUNT = 1_000_000
MAX_SUGGESTIONS = 50
MAX_CANDIDATES = 100
MAX_BATCH_REQUESTS = 64
MAX_BODY_BYTES = 1 << 20
MAX_FEEDBACK_DAYS = 36_500
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
    """Everything that a worker needs to know, the same for all workers of a service.

    The options of `nextquery serve` are made of these fields: `cli/options.py`.
    """

    models: tuple[NamedModel, ...] = field(metadata={"option": Option(None)})
    """The served models; the first answers requests that name none."""
    control: Path = field(metadata={"option": Option(None)})
    """Folder through which the workers of one machine tell each other of a reload."""
    fallback: Path | None = None
    """Count model that answers when MODEL is late or busy."""
    require_check: bool = False
    """A reload refuses a new MODEL that did not pass `nextquery check`."""
    synonyms: Path | None = None
    """File of synonyms in Solr's format, for queries that no model has seen and for completion."""
    rescue: Path | None = None
    """Rescue model whose suggestions come first after a query that had no results."""
    returning: Path | None = None
    """Model of returning visitors (`fit --kind returning`): answers get a group "again" of the
    visitor's own earlier queries."""
    again: int = setting(3, least=0, most=MAX_SUGGESTIONS, panel=LISTS)
    """Most earlier queries of the visitor in an answer."""
    again_threshold: float | None = setting(None, least=0, most=1, panel=LISTS)
    """Show no earlier query unless one is this likely; by default the model's own threshold."""
    user_days: int | None = setting(None, least=1, most=MAX_FEEDBACK_DAYS)
    """Keep the searches of visitors who are named by `user_id` for this many days, where sessions
    are kept; by default nothing is kept."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = setting(8000, least=0, most=65_535)
    """Port to listen on; 0 takes a free one."""
    workers: int = setting(1, least=1, most=256)
    """Processes that share the port; more than one need `sessions`."""
    threads: int = setting(0, least=0, most=1024, panel=TUNING)
    """Threads of a neural model in each worker; 0 divides the cores among the workers."""
    budget_ms: int = setting(300, least=1, most=86_400_000)
    """Milliseconds that a request may wait for its model before the fallback answers, or 503."""
    queue_size: int = setting(32, least=1, most=1_000_000, panel=TUNING)
    """Requests of a burst that may wait for a model; more get 503 at once."""
    batch_size: int = setting(4, least=1, most=10_000, panel=TUNING)
    """Waiting requests that are answered together; in a lasting overload no more may wait."""
    batch_seconds: float = setting(10.0, least=0.001, most=86_400, panel=TUNING)
    """A batch that takes a neural model longer is cancelled; its requests get 503."""
    sessions: str = "memory"
    """Where sessions are kept: memory (for one worker), redis://HOST:PORT/DB or none."""
    max_sessions: int = setting(10_000, least=1, most=1_000_000_000, panel=TUNING)
    """Most sessions kept in memory."""
    idle_minutes: float = setting(30.0, least=0.001, most=525_600)
    """Minutes without a query after which a session ends."""
    keys_file: Path | None = setting(None, flag="--keys")
    """File of API keys, as --new-key prints them; without one nobody needs a key."""
    admin_keys_file: Path | None = setting(None, flag="--admin-keys")
    """File of admin keys; without one there is no /admin."""
    rate_per_second: float = setting(0.0, flag="--rate", least=0, most=1_000_000_000)
    """Requests per second of one key, or of one address without keys; 0: no limit."""
    public: frozenset[str] = frozenset()
    """What is shown without a key where keys are needed: metrics or docs; repeatable."""
    trusted_proxies: tuple[str, ...] = setting((), flag="--trusted-proxy")
    """Address or network whose X-Forwarded-For is believed, * for all; repeatable."""
    cors_origins: tuple[str, ...] = setting((), flag="--cors-origin")
    """Origin whose pages may call the API; repeatable."""
    interleave: tuple[str, ...] = setting((), flag=None)
    """Two served models whose lists are interleaved into one."""
    split: tuple[Share, ...] = setting((), flag=None)
    """The models among which sessions are divided."""
    shadow: str | None = setting(None, flag=None)
    """A served model that is asked for every list and recorded, and never shown."""
    feedback: Path | None = None
    """Folder of the feedback log (UBI format); without it feedback is refused."""
    feedback_days: int | None = setting(None, least=1, most=MAX_FEEDBACK_DAYS)
    """Delete feedback files that are older than this many days; all are kept by default."""
    feedback_mb: int = setting(1024, least=1, most=1_000_000, panel=TUNING)
    """Megabytes that a feedback file (three per day) may grow to; the rest is refused."""
    score: bool = False
    """Answer /v1/score; the scores of a trained model can reveal what single people typed."""
    n: int = setting(5, flag="-n", least=1, most=MAX_SUGGESTIONS, panel=LISTS)
    """Suggestions or completions in a list, unless a request says otherwise."""
    known: Known | None = setting(None, panel=LISTS)
    """Queries that K users typed: free (no preference), prefer or only, unless a request says
    otherwise; by default the model's setting."""
    specificity: float | None = setting(None, least=0, most=1, panel=LISTS)
    """How much lower globally popular queries are ranked, unless a request says otherwise; by
    default the model's setting."""
    hits: Path | None = setting(None, panel=LISTS)
    """File of titles or known queries, one per line: show only queries whose words one line has."""
    blocklist: Path | None = setting(None, panel=LISTS)
    """File of words and phrases never to suggest."""
    kill_switch: Path | None = None
    """While this file exists, every list is empty."""
    drain_seconds: float = setting(1.0, least=0, most=86_400, panel=TUNING)
    """Seconds between losing readiness and closing the port when the service stops."""

    def __post_init__(self) -> None:
        if unknown := self.public - PUBLIC:
            raise InputError(f"`public` {min(unknown)}: must be one of {', '.join(sorted(PUBLIC))}")
        names = [model.name for model in self.models]
        if len(set(names)) != len(names):
            raise InputError(f"two models are named the same: {', '.join(names)}")
        self._check_trials(names)
        if self.feedback_days is not None and self.feedback is None:
            raise InputError("`feedback_days`: needs `feedback`, the folder of the files")
        check_limits(self)
        self._check_sessions()

    def _check_sessions(self) -> None:
        if not self.sessions.startswith(("redis://", "rediss://", "unix://")) and (
            self.sessions not in ("memory", "none")
        ):
            raise InputError(
                f"`sessions` {self.sessions}: write 'memory', 'none' or redis://HOST:PORT/DB"
            )
        if self.user_days is not None and self.sessions == "none":
            raise InputError("`user_days`: histories are kept where sessions are; set `sessions`")
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
        for setting_name, names in in_trials.items():
            for name in names:
                if name is not None and name not in served:
                    served_names = ", ".join(served)
                    raise InputError(
                        f"`{setting_name}` {name}: is not served; there are: {served_names}"
                    )
        if (self.interleave or self.split or self.shadow) and self.feedback is None:
            raise InputError("a trial needs `feedback`, the folder in which it is recorded")
