"""`nextquery init`, `prepare` and `synth`."""

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextquery.cli.main import in_options
from nextquery.cli.options import AsJson, Given, print_result, with_settings
from nextquery.errors import InputError
from nextquery.logs.settings import FORMAT_NAMES, PrepareSettings, ReadSettings

if TYPE_CHECKING:
    from nextquery.logs.inspect import Advice


@with_settings
def prepare(
    logs: Annotated[
        list[str],
        typer.Argument(
            help="Log files, plain or compressed, or folders of them; with Spark also addresses.",
            metavar="LOG",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The data folder to write.")],
    read: Given[ReadSettings],
    options: Given[PrepareSettings],
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="files, opensearch (LOG is its address) or ir_datasets (LOG is a dataset's name).",
        ),
    ] = "files",
    index: Annotated[str, typer.Option(help="With --from opensearch: its indices, A,B.")] = "",
    columns: Annotated[
        str,
        typer.Option(
            help="Which columns to read, where they are not detected: "
            "user=...,time=...,query=...[,click=...]."
        ),
    ] = "",
    exclude_users: Annotated[
        Path | None,
        typer.Option(
            help="A file with users whose rows do not count, one per line: as the log names them, "
            "or pseudonym:NUMBER as `inspect` does."
        ),
    ] = None,
    recogniser: Annotated[
        str, typer.Option(help="module:function that also says which queries are personal.")
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document: the manifest's entries.")
    ] = False,
) -> None:
    """Turn raw logs into sessions, splits, a vocabulary and counts.

    Example: `nextquery prepare log.tsv.gz --out data/ --split-at 2006-05-01,2006-05-15,2006-05-23`
    """
    from nextquery.logs.data_folder import read_data
    from nextquery.logs.inspect import dominance
    from nextquery.logs.prepare import prepare as run
    from nextquery.logs.sources import fetched_logs

    settings = options.settings(
        read=read.settings(columns=parse_columns(columns)),
        exclude_users=tuple(read_names("exclude_users", exclude_users)),
        recogniser=_recogniser(recogniser) if recogniser else None,
    )
    indices = [name.strip() for name in index.split(",") if name.strip()]
    with (
        progress_bar() as progress,
        fetched_logs(source, logs, indices, out, progress) as fetched,
    ):
        entries = run(fetched, out, settings, progress)
    advice = [in_options(item.text, ADVISED) for item in read_data(out, dominance)]
    document = {"out": str(out), **entries, "advice": advice}
    text = "\n".join([_summary(out, entries), *advice])
    print_result(document, text, as_json, indent=2)


ADVISED = {
    "min_users": "--min-users",
    "exclude_users": "--exclude-users",
    "where": "--where",
    "columns": "--columns",
}
"""The options of settings that advice names."""


def read_names(setting: str, file: Path | None) -> list[str]:
    """The lines of a file that names users, without empty ones."""
    from nextquery.artifacts.files import read_plain_text

    if file is None:
        return []
    try:
        lines = read_plain_text(file, "utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"`{setting}` {file}: cannot be read ({error})") from None
    return [name for name in map(str.strip, lines) if name]


def _recogniser(location: str) -> Callable[[str], bool]:
    """The function that the user names, from an installed module or the folder one is in."""
    from nextquery.logs.privacy import find_recogniser

    sys.path.append(str(Path.cwd()))
    return find_recogniser(location)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """A bar on stderr with the stage's name; nothing where stderr is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<10}"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        task = bars.add_task("reading", total=1.0)

        def show(stage: str, share: float) -> None:
            # Only these know how far they are: the other stages pulse.
            total = 1.0 if stage in ("fetching", "reading") else None
            bars.update(task, description=stage, completed=share, total=total)

        yield show


def parse_columns(text: str) -> dict[str, str] | None:
    """`user=who,time=when` as a mapping; the reader checks the names."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    columns = {name.strip(): column.strip() for name, _, column in pairs}
    if len(columns) < len(pairs):
        raise InputError("`columns` names a field twice; write user=...,time=...,query=...")
    return columns or None


def _summary(out: Path, entries: Mapping[str, Any]) -> str:
    from nextquery.logs.reading.rejects import printable

    counts, settings = entries["counts"], entries["settings"]
    sessions = ", ".join(f"{name} {count:,}" for name, count in counts["sessions"].items())
    dropped = sum(counts["rows_dropped"].values())
    single = sum(counts["single_query_sessions"].values())
    searches = single + sum(counts["sessions"].values())
    share = single / searches if searches else 0.0
    lines = [
        f"read as {settings['format']}: {settings['format_reason']}",
        f"{counts['rows_read']:,} rows read, {counts['rows_rejected']:,} rejected, "
        f"{dropped:,} dropped, {counts['users']:,} users",
        *(text.format(**counts[name]) for name, text in LEFT_OUT.items() if counts[name]["users"]),
    ]
    if cut := counts["sessions_cut"]:
        lines.append(
            f"{cut:,} sessions of more than {settings['max_session_queries']:,} queries were cut"
        )
    lines += [
        f"sessions: {sessions}",
        f"single searches: {single:,} ({share:.0%} of all sessions), which count, too",
    ]
    if reason := settings.get("engine_reason"):  # it was chosen for the user
        lines.append(f"engine {settings['engine']}: {reason}")
    return "\n".join([*lines, f"written to {printable(out)}"])


LEFT_OUT = {
    "excluded": "{users:,} users excluded with {rows:,} rows",
    "robots": "{users:,} likely bots left out with {rows:,} rows (--keep-robots keeps them)",
    "limited": "{searches:,} searches of {users:,} users do not count: repeats of one day "
    "(--max-user-repeats) or too large a share (--max-user-share)",
}
"""What is said of visitors who do not count, or not with everything."""


def init(
    logs: Annotated[
        list[Path], typer.Argument(help="Log files, plain or compressed.", metavar="LOG")
    ],
    columns: Annotated[
        str,
        typer.Option(
            help="Which columns to read, if they are not detected: "
            "user=...,time=...,query=...[,click=...]."
        ),
    ] = "",
    format: Annotated[
        str, typer.Option(help=f"auto, or one of {', '.join(FORMAT_NAMES)}.")
    ] = ReadSettings.format,
    min_users: Annotated[
        int,
        typer.Option(
            min=1, help="K: a word or query of fewer users is never counted or suggested."
        ),
    ] = PrepareSettings.min_users,
    as_json: AsJson = False,
) -> None:
    """Look at a log: what is in it, which models are worth it, what to run next.

    Nothing is kept: the log is prepared in a temporary folder.

    Example: `nextquery init queries.tsv.gz`
    """
    from nextquery.api import prepare
    from nextquery.artifacts import temporary_folder
    from nextquery.logs.inspect import advise, describe

    with temporary_folder() as folder:
        data = prepare(
            logs,
            folder / "data",
            columns=parse_columns(columns),
            format=format,
            min_users=min_users,
            spelling=False,
        )
        facts = describe(data, frequent=0)
        advice = advise(data, facts)
        settings = data.artifact.manifest["settings"]
    document = {
        "format": settings["format"],
        "reason": settings["format_reason"],
        "counts": dict(facts.counts),
        "seen_before": dict(facts.repetition.seen_before),
        "advice": [asdict(item) for item in advice],
    }
    choices = {"--columns": columns, "--format": "" if format == ReadSettings.format else format}
    words = [*map(str, logs), *(word for pair in choices.items() if pair[1] for word in pair)]
    text = _init_text(document, shlex.join(words), advice)
    print_result(document, text, as_json, indent=2)


def _init_text(document: dict[str, Any], log: str, advice: "tuple[Advice, ...]") -> str:
    counts = document["counts"]
    sessions = ", ".join(f"{name} {count:,}" for name, count in counts["sessions"].items())
    seen_before = document["seen_before"].get("test", 0.0)
    lines = [
        f"format    {document['format']}: {document['reason']}",
        f"rows      {counts['rows_read']:,} read, {counts['rows_rejected']:,} rejected, "
        f"{counts['users']:,} users",
        f"sessions  {sessions} (of two or more queries)",
        f"single    {sum(counts['single_query_sessions'].values()):,} sessions of one query",
        f"repeats   {seen_before:.1%} of the test searches are of queries typed before",
        "",
        "next:",
        f"  nextquery prepare {log} --out DATA",
    ]
    for item in advice:
        lines.append(f"  # {in_options(item.text, ADVISED)}")
        if item.command:
            lines.append(f"  nextquery {item.command}")
    lines += ["  # Ask any of them what comes next.", '  nextquery suggest adjacency "A QUERY"']
    return "\n".join(lines)


def synth(
    out: Annotated[Path, typer.Argument(help="The log to write; .gz at the end compresses it.")],
    sessions: Annotated[int, typer.Option(help="How many sessions.", min=1)] = 20_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same file.", min=0)] = 1,
    shuffled: Annotated[
        bool, typer.Option("--shuffled", help="The control: queries dealt to sessions at random.")
    ] = False,
    titles: Annotated[
        Path | None,
        typer.Option(
            help="Also write the titles of the synthetic site: the hits check of its queries."
        ),
    ] = None,
    satisfaction: Annotated[
        str,
        typer.Option(
            metavar="none|outcome|chance",
            help="Clicks and pauses depend on whether a query satisfied its user: by the outcome "
            "that was searched for, or, as the control, at random.",
        ),
    ] = "none",
    extra_words: Annotated[
        int,
        typer.Option(
            help="Invented words to add to the lexicon's 2,700, as names of things to search for.",
            min=0,
            max=1_000_000,
        ),
    ] = 0,
    domains: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="What people search for, such as home,gardening for a shop; all 16 if not given.",
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Write a synthetic query log in AOL format, for the demo, tests and experiments.

    Example: `nextquery synth log.tsv --sessions 20000 --seed 1`
    """
    from nextquery.logs.synthetic.log import check_satisfaction, write_log

    kind = check_satisfaction(satisfaction)
    summary = write_log(
        out,
        sessions,
        seed,
        shuffled=shuffled,
        titles=titles,
        satisfaction=kind,
        extra_words=extra_words,
        domains=[name.strip() for name in domains.split(",") if name.strip()],
    )
    counts = {
        "path": str(out),
        "sessions": sessions,
        **asdict(summary),
        "seed": seed,
        "shuffled": shuffled,
        "satisfaction": satisfaction,
        "extra_words": extra_words,
        "domains": domains,
    }
    text = (
        f"{out}: {summary.rows:,} rows, {sessions:,} sessions of {summary.users:,} users, "
        f"{summary.distinct_queries:,} different queries, {summary.first} to {summary.last}"
    )
    print_result(counts, text, as_json, indent=2)
