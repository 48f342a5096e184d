"""`nextquery suggest`: what may come next after the queries of a session."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextquery.cli.models.decoding import (
    Beam,
    Blocklist,
    Diversity,
    Known,
    Mode,
    Settings,
    Specificity,
    Usefulness,
    as_written,
    decode_options,
)

if TYPE_CHECKING:
    from nextquery.records import Suggestion
    from nextquery.suggesters.base import Suggester


def suggest(
    model: Annotated[Path, typer.Argument(help="A model folder of any kind.")],
    queries: Annotated[
        list[str] | None, typer.Argument(help="The session so far, oldest query first.")
    ] = None,
    n: Annotated[int, typer.Option("-n", min=0, help="How many suggestions at most.")] = 5,
    blocklist: Blocklist = None,
    hits: Annotated[
        Path | None,
        typer.Option(help="A file of known queries or titles: suggest only what one holds."),
    ] = None,
    rescue: Annotated[
        Path | None,
        typer.Option(
            help="A rescue model: what people who found nothing searched for comes first, if the "
            "last query finds nothing by --hits, or by the model's own log without it."
        ),
    ] = None,
    guards: Annotated[
        bool, typer.Option("--guards/--no-guards", help="Refuse what must not be shown.")
    ] = True,
    beam: Beam = None,
    specificity: Specificity = None,
    diversity: Diversity = None,
    usefulness: Usefulness = None,
    known: Known = None,
    mode: Mode = None,
    settings: Settings = None,
    fallback: Annotated[
        bool,
        typer.Option(
            "--fallback/--no-fallback",
            help="Where a count model has nothing, show related or frequent queries.",
        ),
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Suggest the next query.

    Example: `nextquery suggest models/adjacency "cheap flights" "cheap flights paris" -n 3`
    """
    from dataclasses import asdict

    from nextquery import load
    from nextquery.guard.hits import read_hits
    from nextquery.inference.kernels.process_memory import keep_freed_memory
    from nextquery.inference.lists.relations import group

    keep_freed_memory()
    check = read_hits(hits) if hits else None
    suggester = load(model, blocklist=blocklist, hits=check, guarded=guards)
    given: dict[str, object] = {"beam": beam, "specificity": specificity, "diversity": diversity}
    given |= {"known": known, "mode": mode, "usefulness": usefulness}
    options = decode_options(suggester, given, settings or (), {"specificity", "diversity"})
    context = queries or []
    start = time.perf_counter()
    found = suggester.suggest(context, n, **options)
    if rescue and context:
        found = _rescued(rescue, context, found, n, {"blocklist": blocklist, "hits": check})
    found = [as_written(item) for item in found]
    filled = [] if found or not fallback else _instead(suggester, context, n)
    instead = [as_written(item) for item in filled]
    took = (time.perf_counter() - start) * 1000
    if as_json:
        items = [asdict(item) | {"group": group(context, item.text)} for item in found or instead]
        document: dict[str, object] = {"context": context, "suggestions": items}
        document |= {"model": suggester.kind, "took_ms": took}
        document |= {"fallback": True} if instead else {}
        typer.echo(json.dumps(document, ensure_ascii=False))
        return
    if not found:
        more = "; these are from the same log:" if instead else ""
        typer.echo(f"the model has no suggestion for this session{more}", err=True)
    for item in found or instead:
        typer.echo(f"{item.score:9.3f}  {item.text}  [{item.source}]")


def _instead(suggester: "Suggester", context: list[str], n: int) -> "list[Suggestion]":
    """What a count model's log has, where the model itself has nothing."""
    from nextquery.cli.models.fallback import fall_back
    from nextquery.suggesters.count_suggester import CountSuggester

    return fall_back(suggester, context, n) if isinstance(suggester, CountSuggester) else []


def _rescued(
    folder: Path, context: list[str], found: "list[Suggestion]", n: int, guards: "dict[str, Any]"
) -> "list[Suggestion]":
    """The list after a query that finds nothing; any other as it is."""
    from nextquery import load
    from nextquery.errors import InputError
    from nextquery.normalise import normalise_query
    from nextquery.suggesters.rescue import Rescue, rescued

    model = load(folder, **guards)
    if not isinstance(model, Rescue):
        raise InputError(f"--rescue {folder}: a {model.kind} model; make one with --kind rescue")
    last, check = normalise_query(context[-1]), guards["hits"]
    fails = model.fails(last) if check is None else not check(last)
    return rescued(found, model.suggest(context, n), n) if fails else found
