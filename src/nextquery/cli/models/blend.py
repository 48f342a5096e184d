"""`nextquery blend`: a trained model and count models become one model."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer


def blend(
    model: Annotated[Path, typer.Argument(help="A trained model folder.")],
    members: Annotated[
        list[Path], typer.Argument(help="Count models of the same log, one to four.")
    ],
    data: Annotated[
        Path, typer.Option(help="The prepared log whose validation sessions decide the weights.")
    ],
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting as key=value, e.g. specificity=0.2; may repeat."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Blend a trained model with count models: one list of what it writes and what people typed.

    Example: `nextquery blend models/hred models/adj models/ss --data DATA --out models/blend`
    """
    from rich.console import Console

    from nextquery.config import from_overrides
    from nextquery.logs.data_folder import PreparedData
    from nextquery.suggesters.fitting.blend import BlendSettings, make_blend

    chosen = from_overrides(BlendSettings, settings or [])
    start = time.perf_counter()
    with Console(stderr=True).status("learning the weights"):
        made = make_blend(model, members, PreparedData(data), out, chosen)
    seconds = time.perf_counter() - start
    rows = made.weights()
    if as_json:
        document = {"model": str(out), "settings": chosen.model_dump(mode="json")}
        typer.echo(json.dumps({**document, "weights": rows, "seconds": seconds}))
        return
    typer.echo(f"blended in {seconds:.1f} s: {out}")
    for who, weights in rows.items():
        shares = ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items())
        typer.echo(f"  where {who}: {shares}")
