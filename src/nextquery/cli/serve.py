"""`nextquery serve`: the HTTP service and its page."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from nextquery.service.settings import ServiceSettings


def _print_new_key(name: str) -> None:
    if not name:
        return
    from nextquery.service.http.keys import new_key

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
Workers = Annotated[int, typer.Option(help="Processes that share the port.")]
Threads = Annotated[
    int, typer.Option(min=0, help="Threads of the model in each worker; 0 shares the cores.")
]
QueueSize = Annotated[int, typer.Option(help="Requests that may wait; more get 503.")]
BatchSize = Annotated[int, typer.Option(help="Waiting requests answered together.")]
BatchSeconds = Annotated[
    float, typer.Option(min=0.1, help="A batch that takes longer is ended; it gets 503.")
]
Sessions = Annotated[str, typer.Option(help="'memory' or redis://HOST:PORT/DB.")]
MaxSessions = Annotated[int, typer.Option(help="Sessions kept in memory.")]
IdleMinutes = Annotated[
    float, typer.Option(min=0.001, help="A session ends after so long without a query.")
]
CacheSize = Annotated[int, typer.Option(min=0, help="Answers and encoded contexts kept for reuse.")]
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
NoScore = Annotated[bool, typer.Option("--no-score", help="Let /v1/score answer nobody.")]
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
    cache_size: CacheSize = ServiceSettings.cache_size,
    keys: Keys = ServiceSettings.keys_file,
    admin_keys: AdminKeys = ServiceSettings.admin_keys_file,
    new_key: NewKey = "",
    rate: Rate = ServiceSettings.rate_per_second,
    public: Public = None,
    trusted_proxy: TrustedProxy = None,
    cors_origin: CorsOrigin = None,
    feedback: Feedback = ServiceSettings.feedback,
    feedback_days: FeedbackDays = ServiceSettings.feedback_days,
    no_score: NoScore = not ServiceSettings.score,
    blocklist: Blocklist = ServiceSettings.blocklist,
    kill_switch: KillSwitch = ServiceSettings.kill_switch,
    drain_seconds: DrainSeconds = ServiceSettings.drain_seconds,
) -> None:
    """Serve suggestions over HTTP, with a page to try them.

    Example: `nextquery serve models/hred --compare adj=models/adj --fallback models/adj`
    """
    from nextquery.cli.serve_models import served_models
    from nextquery.feedback.assignment import parse_split
    from nextquery.service.operation.workers import serve as run

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
                cache_size=cache_size,
                keys_file=keys,
                admin_keys_file=admin_keys,
                rate_per_second=rate,
                public=frozenset(public or ()),
                trusted_proxies=tuple(trusted_proxy or ()),
                cors_origins=tuple(cors_origin or ()),
                feedback=feedback,
                feedback_days=feedback_days,
                score=not no_score,
                blocklist=blocklist,
                kill_switch=kill_switch,
                drain_seconds=drain_seconds,
            )
        )
