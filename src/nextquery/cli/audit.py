"""`nextquery audit`: what a model leaks, and what fake users can make it suggest."""

from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli.main import in_options
from nextquery.cli.options import AsJson, print_result


def audit(
    model: Annotated[Path, typer.Argument(help="A model folder of any kind.")],
    data: Annotated[Path, typer.Argument(help="The data folder that it was made of.")],
    kinds: Annotated[
        list[str] | None,
        typer.Option("--kind", help="One more kind of count model to audit; repeatable."),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(help="Also train HRED on the planted log with this config, e.g. tiny."),
    ] = None,
    blocklist: Annotated[
        Path | None, typer.Option(help="The site's blocklist, to measure what it blocks.")
    ] = None,
    min_users: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Try poisoning with this `prepare --min-users`; repeatable."),
    ] = None,
    canaries: Annotated[
        int, typer.Option(min=1, help="Planted secrets per number of people who type one.")
    ] = 10,
    contexts: Annotated[
        int, typer.Option(min=1, help="Poisoned contexts per number of fake users.")
    ] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of what is planted.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Plant secrets and fake users in a copy of the log, fit again, measure what leaks.

    Example: `nextquery audit models/adjacency DATA --kind qvmm --blocklist blocklist.txt`
    """
    from dataclasses import asdict

    from rich.console import Console

    from nextquery.evaluation.audit import AuditSettings, describe
    from nextquery.evaluation.audit import audit as run_audit
    from nextquery.evaluation.planting import PlantingSettings
    from nextquery.logs.data_folder import PreparedData

    settings = AuditSettings(
        kinds=tuple(kinds or ()),
        min_users=tuple(min_users or AuditSettings().min_users),
        config=config,
        blocklist=blocklist,
        planting=PlantingSettings(canaries=canaries, contexts=contexts, seed=seed),
    )
    console = Console(stderr=True)
    with console.status("auditing") as status:
        result = run_audit(model, PreparedData(data), settings, status.update)
    document = asdict(result)
    for curve, poisoning in zip(document["poisoning"], result.poisoning, strict=True):
        curve["needed"] = poisoning.needed
    print_result(document, in_options(describe(result), {"config": "--config"}), as_json)
