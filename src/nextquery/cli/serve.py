"""`nextquery serve`: the HTTP service and its page."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from nextquery.artifacts import open_artifact
from nextquery.errors import InputError
from nextquery.service.settings import NamedModel, ServiceSettings


@dataclass(frozen=True)
class ServedModels:
    """The models under their names, and the names that a trial uses."""

    served: tuple[NamedModel, ...]
    interleave: tuple[str, ...]
    shadow: str


def served_models(
    model: Path | None, name: str, compare: Sequence[str], interleave: Sequence[str], shadow: str
) -> ServedModels:
    """The models of all options, each named once; the first answers requests that name none."""
    models: dict[str, Path] = {}
    if model is not None:
        models[name or open_artifact(model, verify=False).kind] = model
    for entry in compare:
        label, path = _named("compare", entry)
        if path is None:
            raise InputError(f"--compare {entry}: write NAME=MODEL, e.g. --compare adj=models/adj")
        _add(models, label, path, "compare")
    names = [_add(models, *_named("interleave", entry), "interleave") for entry in interleave]
    if not models:
        raise InputError("name a MODEL to serve, or two with --interleave NAME=MODEL")
    in_shadow = _add(models, *_named("shadow", shadow), "shadow") if shadow else ""
    served = tuple(NamedModel(label, path) for label, path in models.items())
    return ServedModels(served, tuple(names), in_shadow)


def _add(models: dict[str, Path], label: str, path: Path | None, option: str) -> str:
    """Serve a folder under a name, or find the name that is served already."""
    if path is not None:
        if label in models:
            raise InputError(f"--{option} {label}={path}: another model has this name")
        open_artifact(path, verify=False)
        models[label] = path
    elif label not in models:
        raise InputError(f"--{option} {label}: no model has this name; write {label}=MODEL")
    return label


def _named(option: str, entry: str) -> tuple[str, Path | None]:
    label, separator, path = entry.partition("=")
    if not label or (separator and not path):
        raise InputError(f"--{option} {entry}: write NAME=MODEL, e.g. --{option} adj=models/adj")
    return label, Path(path) if path else None


def _print_new_key(name: str) -> None:
    if not name:
        return
    from nextquery.service.keys import new_key

    made = new_key(name)
    typer.echo(f"key, for the client:  {made.key}")
    typer.echo(f"line, for the key file:  {made.line}")
    raise typer.Exit


Model = Annotated[
    Path | None,
    typer.Argument(help="The model folder that answers; may be left out with --interleave."),
]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")]
Name = Annotated[str, typer.Option(help="Name of MODEL in requests; its kind if left out.")]
Compare = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=MODEL", help="A further model to choose or compare; repeat."),
]
Interleave = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[=MODEL]", help="Show the lists of two models as one, in turns; twice."
    ),
]
Split = Annotated[
    str, typer.Option(metavar="A:90,B:10", help="Divide the sessions among served models.")
]
Shadow = Annotated[
    str, typer.Option(metavar="NAME[=MODEL]", help="Ask this model, too, but show nothing.")
]
Fallback = Annotated[
    Path | None, typer.Option(help="Count model that answers when MODEL is late or busy.")
]
Rescue = Annotated[
    Path | None,
    typer.Option(help="Rescue model that leads the list after a query without results."),
]
BudgetMs = Annotated[int, typer.Option(help="Milliseconds that a request may wait for MODEL.")]
Workers = Annotated[
    int, typer.Option(help="Processes that share the port; more than one need --sessions.")
]
Threads = Annotated[
    int, typer.Option(min=0, help="Threads of the model in each worker; 0 shares the cores.")
]
QueueSize = Annotated[int, typer.Option(help="Requests that may wait; more get 503.")]
BatchSize = Annotated[int, typer.Option(help="Waiting requests answered together.")]
BatchSeconds = Annotated[
    float, typer.Option(min=0.1, help="A batch that takes longer is ended; it gets 503.")
]
Sessions = Annotated[str, typer.Option(help="'memory', redis://HOST:PORT/DB or 'none'.")]
MaxSessions = Annotated[int, typer.Option(help="Sessions kept in memory.")]
IdleMinutes = Annotated[
    float, typer.Option(min=0.001, help="A session ends after so long without a query.")
]
CacheSize = Annotated[
    int, typer.Option(hidden=True, help="Has no effect: no answer is shared among visitors.")
]
Keys = Annotated[
    Path | None,
    typer.Option(
        help="File of API keys, as --new-key prints them; without one nobody needs a key."
    ),
]
AdminKeys = Annotated[
    Path | None, typer.Option(help="File of admin keys; without one there is no /admin.")
]
NewKey = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        callback=_print_new_key,
        is_eager=True,
        help="Print a new key and its line for a key file, and end.",
    ),
]
Rate = Annotated[
    float, typer.Option(min=0, help="Requests a second of one key or address; 0: no limit.")
]
Public = Annotated[
    list[str] | None,
    typer.Option(help="'metrics' or 'docs': shown without a key, though keys are set; repeat."),
]
TrustedProxy = Annotated[
    list[str] | None,
    typer.Option(help="Address or network whose X-Forwarded-For is believed; repeat."),
]
CorsOrigin = Annotated[
    list[str] | None, typer.Option(help="Origin whose pages may call the API; repeat.")
]
Feedback = Annotated[Path | None, typer.Option(help="Folder for the feedback log (UBI format).")]
FeedbackDays = Annotated[
    int | None, typer.Option(help="Delete feedback files that are older than so many days.")
]
FeedbackMb = Annotated[
    int, typer.Option(help="Megabytes that a feedback file (three per day) may grow to.")
]
Score = Annotated[
    bool,
    typer.Option("--score", help="Answer /v1/score; its scores tell what single people typed."),
]
NoScore = Annotated[
    bool, typer.Option("--no-score", hidden=True, help="Has no effect: it is the default.")
]
Blocklist = Annotated[Path | None, typer.Option(help="File of words and phrases never to suggest.")]
KillSwitch = Annotated[
    Path | None, typer.Option(help="While this file exists, every list is empty.")
]
DrainSeconds = Annotated[
    float, typer.Option(min=0, help="Time between losing readiness and closing the port.")
]


def serve(
    model: Model = None,
    host: Host = ServiceSettings.host,
    port: Port = ServiceSettings.port,
    name: Name = "",
    compare: Compare = None,
    interleave: Interleave = None,
    split: Split = "",
    shadow: Shadow = "",
    fallback: Fallback = ServiceSettings.fallback,
    rescue: Rescue = ServiceSettings.rescue,
    budget_ms: BudgetMs = ServiceSettings.budget_ms,
    workers: Workers = ServiceSettings.workers,
    threads: Threads = ServiceSettings.threads,
    queue_size: QueueSize = ServiceSettings.queue_size,
    batch_size: BatchSize = ServiceSettings.batch_size,
    batch_seconds: BatchSeconds = ServiceSettings.batch_seconds,
    sessions: Sessions = ServiceSettings.sessions,
    max_sessions: MaxSessions = ServiceSettings.max_sessions,
    idle_minutes: IdleMinutes = ServiceSettings.idle_minutes,
    cache_size: CacheSize = 0,
    keys: Keys = ServiceSettings.keys_file,
    admin_keys: AdminKeys = ServiceSettings.admin_keys_file,
    new_key: NewKey = "",
    rate: Rate = ServiceSettings.rate_per_second,
    public: Public = None,
    trusted_proxy: TrustedProxy = None,
    cors_origin: CorsOrigin = None,
    feedback: Feedback = ServiceSettings.feedback,
    feedback_days: FeedbackDays = ServiceSettings.feedback_days,
    feedback_mb: FeedbackMb = ServiceSettings.feedback_mb,
    score: Score = ServiceSettings.score,
    no_score: NoScore = False,
    blocklist: Blocklist = ServiceSettings.blocklist,
    kill_switch: KillSwitch = ServiceSettings.kill_switch,
    drain_seconds: DrainSeconds = ServiceSettings.drain_seconds,
) -> None:
    """Serve suggestions over HTTP, with a page to try them.

    Example: `nextquery serve models/hred --compare adj=models/adj --fallback models/adj`
    """
    from nextquery.feedback.assignment import parse_split
    from nextquery.service.run import serve as run

    models = served_models(model, name, compare or [], interleave or [], shadow)
    with tempfile.TemporaryDirectory(prefix="nextquery-") as control:
        run(
            ServiceSettings(
                models=models.served,
                interleave=tuple(models.interleave),
                split=parse_split(split) if split else (),
                shadow=models.shadow or None,
                control=Path(control),
                fallback=fallback,
                rescue=rescue,
                host=host,
                port=port,
                workers=workers,
                threads=threads,
                budget_ms=budget_ms,
                queue_size=queue_size,
                batch_size=batch_size,
                batch_seconds=batch_seconds,
                sessions=sessions,
                max_sessions=max_sessions,
                idle_minutes=idle_minutes,
                keys_file=keys,
                admin_keys_file=admin_keys,
                rate_per_second=rate,
                public=frozenset(public or ()),
                trusted_proxies=tuple(trusted_proxy or ()),
                cors_origins=tuple(cors_origin or ()),
                feedback=feedback,
                feedback_days=feedback_days,
                feedback_mb=feedback_mb,
                score=score,
                blocklist=blocklist,
                kill_switch=kill_switch,
                drain_seconds=drain_seconds,
            )
        )
