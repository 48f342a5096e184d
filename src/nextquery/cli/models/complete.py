"""`nextquery complete`: what a half-typed query may become, given the session."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli.models.decoding import (
    Beam,
    Blocklist,
    Diversity,
    Known,
    Mode,
    Settings,
    as_written,
    decode_options,
    unable,
)


def complete(
    model: Annotated[Path, typer.Argument(help="A model folder of any kind.")],
    prefix: Annotated[
        str, typer.Option("--prefix", help="What is typed so far; its last word may be unfinished.")
    ] = "",
    context: Annotated[
        list[str] | None,
        typer.Option("--context", help="A query of the session, oldest first; may be repeated."),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=0, help="How many completions at most.")] = 5,
    blocklist: Blocklist = None,
    beam: Beam = None,
    diversity: Diversity = None,
    known: Known = None,
    mode: Mode = None,
    settings: Settings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Complete a half-typed query; a space at the end means that the last word is whole.

    Example: `nextquery complete models/hred --context "paris museum" --prefix "louvre op"`
    """
    from dataclasses import asdict

    from nextquery import load
    from nextquery.errors import InputError
    from nextquery.inference.kernels.process_memory import keep_freed_memory
    from nextquery.suggesters.base import Completer

    keep_freed_memory()
    suggester = load(model, blocklist=blocklist)
    if not isinstance(suggester, Completer):
        raise unable(model, suggester, "completes nothing")
    if any(one.startswith("specificity=") for one in settings or ()):
        raise InputError("--set specificity: orders suggestions, not completions")
    given: dict[str, object] = {"beam": beam, "diversity": diversity}
    given |= {"known": known, "mode": mode}
    options = decode_options(suggester, given, settings or ())
    start = time.perf_counter()
    completions = suggester.complete(context or [], prefix, n, **options)
    found = [as_written(item) for item in completions]
    took = (time.perf_counter() - start) * 1000
    if as_json:
        items = [asdict(item) for item in found]
        document = {"context": context or [], "prefix": prefix, "completions": items}
        typer.echo(json.dumps(document | {"took_ms": took}, ensure_ascii=False))
        return
    for item in found:
        typer.echo(f"{item.score:9.3f}  {item.text}  [{item.source}]")
    if not found:
        typer.echo("no completion", err=True)
