"""`nextquery score`: how likely given candidates are after the queries of a session."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from nextquery.suggesters.base import Suggester


def score(
    model: Annotated[Path, typer.Argument(help="A model folder of any kind.")],
    candidates: Annotated[
        list[str], typer.Option("--candidate", help="A possible next query; may be repeated.")
    ],
    context: Annotated[
        list[str] | None,
        typer.Option("--context", help="A query of the session, oldest first; may be repeated."),
    ] = None,
    usefulness: Annotated[
        float,
        typer.Option(
            min=0.0,
            help="HRED with a usefulness head: add so many times log P(useful) to the likelihood.",
        ),
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Natural log-likelihood of each candidate, in the given order.

    Example: `nextquery score models/qvmm --context "paris" --candidate "paris hotels"`
    """
    from dataclasses import asdict

    from nextquery import load

    suggester = load(model)
    scored = suggester.score(context or [], candidates)
    rows: list[dict[str, Any]] = [asdict(item) for item in scored]
    if usefulness:
        judged = _judged(suggester, context or [], candidates)
        for row, useful in zip(rows, judged, strict=True):
            row["usefulness"] = useful
            row["score"] = row["log_likelihood"] + usefulness * math.log(useful)
    if as_json:
        typer.echo(json.dumps({"scores": rows}, ensure_ascii=False))
        return
    for row in rows:
        unknown = f"  [unknown words: {' '.join(row['unknown'])}]" if row["unknown"] else ""
        judged_as = f"  [useful: {row['usefulness']:.0%}]" if usefulness else ""
        value = row.get("score", row["log_likelihood"])
        typer.echo(f"{value:9.3f}  {row['text']}{judged_as}{unknown}")


def _judged(suggester: "Suggester", context: list[str], candidates: list[str]) -> list[float]:
    """How likely each candidate is useful; a model that cannot tell is refused in one line."""
    from nextquery.errors import InputError
    from nextquery.inference.usefulness_head import NO_HEAD
    from nextquery.suggesters.base import UsefulnessJudge

    if not isinstance(suggester, UsefulnessJudge) or not suggester.judges_usefulness:
        raise InputError(f"--usefulness: {NO_HEAD}")
    return suggester.usefulness_many([context], [candidates])[0]
