"""`nextquery explain`, `neighbours` and `why`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli.options import AsJson, named_folders, print_result
from nextquery.cli.suggest import unable
from nextquery.errors import InputError

if TYPE_CHECKING:
    from nextquery.suggesters.diagnosis import Diagnosis


def explain(
    model: Annotated[Path, typer.Argument(help="A model folder made by `nextquery train`.")],
    queries: Annotated[list[str], typer.Argument(help="The session, oldest query first.")],
    figure: Annotated[
        Path | None, typer.Option(help="Draw all gates as a heat map: a .png, .svg or .pdf file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how much each query of a session counts: by update gates, or by attention.

    Example: `nextquery explain models/hred "airlines" "united airlines" "google" --figure g.png`
    """
    from dataclasses import asdict

    from nextquery import load
    from nextquery.errors import InputError
    from nextquery.inference.analysis import draw_gates
    from nextquery.suggesters.base import Explainer, Gated

    suggester = load(model)
    if not isinstance(suggester, Explainer):
        raise unable(model, suggester, "cannot explain itself")
    weights = suggester.explain(queries)
    if figure is not None:
        if figure.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise InputError(f"--figure {figure}: must end in .png, .svg or .pdf")
        if not isinstance(suggester, Gated):
            raise unable(model, suggester, "has no gates to draw")
        draw_gates(weights, suggester.update_gates_many([queries])[0], figure)
        typer.echo(f"wrote {figure}", err=True)
    rows = [f"{item.update:7.3f}  {item.share:5.3f}  {item.query}" for item in weights]
    document = {"queries": [asdict(item) for item in weights]}
    print_result(document, "\n".join([" update  share  query", *rows]), as_json)


def neighbours(
    model: Annotated[Path, typer.Argument(help="A model folder made by `nextquery train`.")],
    text: Annotated[str, typer.Argument(help="A query, or with --words a word.")],
    words: Annotated[
        bool, typer.Option("--words", help="Nearest words to a word, instead of queries.")
    ] = False,
    n: Annotated[int, typer.Option("-n", min=1, help="How many neighbours.")] = 10,
    as_json: AsJson = False,
) -> None:
    """List the nearest known queries or words by cosine.

    Example: `nextquery neighbours models/hred "cheap flights" -n 5`
    """
    from dataclasses import asdict

    from nextquery import load
    from nextquery.suggesters.base import Embedder

    suggester = load(model)
    if not isinstance(suggester, Embedder):
        raise unable(model, suggester, "has no vectors")
    nearest = suggester.neighbours(text, n, words=words)
    document = {"text": text, "neighbours": [asdict(item) for item in nearest]}
    print_result(
        document, "\n".join(f"{item.cosine:6.3f}  {item.text}" for item in nearest), as_json
    )


def why(
    model: Annotated[Path, typer.Argument(help="A model folder of any kind.")],
    query: Annotated[str, typer.Argument(help="The query that is asked about.")],
    context: Annotated[
        list[str] | None,
        typer.Option("--context", help="A query of the session, oldest first; repeatable."),
    ] = None,
    blocklist: Annotated[
        Path | None, typer.Option(help="A file of words and phrases never to suggest.")
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option("--compare", help="NAME=MODEL: also ask this model; repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a query can be suggested and why not: counts, guard, rank, score.

    Example: `nextquery why models/hred "paris hotels" --context paris --compare adj=models/adj`
    """
    from dataclasses import asdict

    from nextquery import load
    from nextquery.suggesters import diagnosis

    compared = named_folders(compare or [], "compare")
    if "model" in compared:
        raise InputError("`compare` model: this name is taken by MODEL; choose another")
    diagnoses = {
        name: diagnosis.why(load(folder, blocklist=blocklist), query, context or [])
        for name, folder in {"model": model, **compared}.items()
    }
    text = "\n".join(_readable(name, item) for name, item in diagnoses.items())
    print_result({name: asdict(item) for name, item in diagnoses.items()}, text, as_json)


def _readable(name: str, diagnosis: "Diagnosis") -> str:
    can = diagnosis.can_be_suggested
    verdict = "can be suggested" if can else f"cannot be suggested: {diagnosis.reason}"
    least, count = diagnosis.min_users, diagnosis.count
    few = "none" if least == 1 else f"fewer than {least}"
    users = f"at least {least}" if diagnosis.enough_users else few
    seen = f", {count:,} time{'' if count == 1 else 's'}" if count else ""
    rank = f"{diagnosis.rank}" if diagnosis.rank else f"not among the first {diagnosis.listed}"
    lines = [
        f"{name} ({diagnosis.model}): {diagnosis.query!r} {verdict}",
        f"  users who typed it: {users}{seen}",
        f"  log-likelihood: {diagnosis.score:.3f}",
        f"  rank: {rank}",
    ]
    rare = [word.word for word in diagnosis.words if not word.enough_users]
    unknown = [word.word for word in diagnosis.words if not word.known]
    if rare:
        of = "that nobody typed" if least == 1 else f"of fewer than {least} users"
        lines.append(f"  words {of}: {' '.join(rare)}")
    if unknown:
        lines.append(f"  words that the model does not know: {' '.join(unknown)}")
    return "\n".join(lines)
