"""`nextquery fit`, `blend` and `vectors`."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli.main import in_options
from nextquery.cli.options import AsJson, print_result
from nextquery.logs.settings import PrepareSettings

if TYPE_CHECKING:
    from nextquery.config import Section
    from nextquery.text.vectors import WordVectors


def fit(
    data: Annotated[Path, typer.Argument(help="A folder that `nextquery prepare` made.")],
    kind: Annotated[
        str, typer.Option(help="popularity, adjacency, qvmm, cacb, shortcuts, rescue or returning.")
    ],
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A setting of the kind as key=value, e.g. depth=3 of qvmm; repeatable.",
        ),
    ] = None,
    hits: Annotated[
        Path | None,
        typer.Option(help="For rescue: file of titles; a query that none contains has no hits."),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="What counts the sessions: polars, duckdb or spark.")
    ] = PrepareSettings.engine,
    spark_master: Annotated[
        str, typer.Option(help="The Spark master, for --engine spark.")
    ] = PrepareSettings.spark_master,
    as_json: AsJson = False,
) -> None:
    """Fit a count model, or what returning visitors search for again (returning).

    Example: `nextquery fit DATA --kind adjacency --out models/adjacency`
    """
    from rich.console import Console

    from nextquery.artifacts import check_target
    from nextquery.config import from_overrides
    from nextquery.guard.guard import read_hits
    from nextquery.logs.data_folder import PreparedData
    from nextquery.logs.inspect import emptiness
    from nextquery.suggesters.fit import empty_reason, fit_kind, model_class
    from nextquery.suggesters.returning import Returning

    model_type = model_class(kind)
    chosen = from_overrides(model_type.settings_type, settings or [])
    check_target(out, kind)
    start = time.perf_counter()
    prepared = PreparedData(data)
    with Console(stderr=True).status(f"fitting {kind}"):
        check = read_hits(hits) if hits else None
        counting = {"engine": engine, "spark_master": spark_master}
        fitted = fit_kind(kind, prepared, chosen, **counting, hits=check)
        fitted.save(out)
    seconds = time.perf_counter() - start
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    advice, empty = list[str](), None
    if isinstance(fitted, Returning):
        advice.append(fitted.describe())
    else:
        advice += _chosen(chosen, fitted.settings)
        advice += (item.text for item in emptiness(prepared))
        empty = empty_reason(fitted, prepared, check)
    if empty is not None:
        advice.append(f"{out} has no suggestions: {empty}.")
    options = {"min_users": "--min-users", "hits": "--hits", "trending_days": "trending_days"}
    advice = [in_options(text, options) for text in advice]
    document = {
        "kind": kind,
        "model": str(out),
        "settings": fitted.settings.model_dump(mode="json"),
        "advice": advice,
        "empty": empty is not None,
        "seconds": seconds,
        "bytes": size,
    }
    text = f"fitted {kind} in {seconds:.1f} s: {out} ({size / 1e6:.1f} MB)"
    print_result(document, text, as_json)
    if not as_json:
        for sentence in advice:
            typer.echo(sentence, err=True)


def _chosen(requested: "Section", used: "Section") -> Iterator[str]:
    """What the log decided where the settings left it open."""
    before, after = requested.model_dump(), used.model_dump()
    for name in before:
        if before[name] is None and after[name] is False:
            yield f"{_REASONS[name]} (`{name}=false`)."


_REASONS = {
    "satisfactory": "No session ends in a click on a known query, so all sessions are indexed"
}
"""Why a setting that was left open is false."""


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
        typer.Option("--set", help="A setting as key=value, e.g. specificity=0.2; repeatable."),
    ] = None,
    returning: Annotated[
        Path | None,
        typer.Option(help="A model of returning visitors for the folder to include."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Blend a trained model with count models into one model with one list.

    Example: `nextquery blend models/hred models/adj models/ss --data DATA --out models/blend`
    """
    from rich.console import Console

    from nextquery.config import from_overrides
    from nextquery.logs.data_folder import PreparedData
    from nextquery.suggesters.blend import BlendSettings, make_blend

    chosen = from_overrides(BlendSettings, settings or [])
    start = time.perf_counter()
    with Console(stderr=True).status("learning the weights"):
        blended = make_blend(model, members, PreparedData(data), out, chosen, returning)
    seconds = time.perf_counter() - start
    rows = blended.weights()
    document = {
        "model": str(out),
        "settings": chosen.model_dump(mode="json"),
        "weights": rows,
        "seconds": seconds,
    }
    lines = [f"blended in {seconds:.1f} s: {out}"]
    for group, weights in rows.items():
        shares = ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items())
        lines.append(f"  where {group}: {shares}")
    print_result(document, "\n".join(lines), as_json)


def vectors(
    data: Annotated[Path, typer.Argument(help="A folder made by `nextquery prepare`.")],
    out: Annotated[Path, typer.Option(help="The file to write, ending in .safetensors.")],
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Vectors to read: word2vec, GloVe, fastText or safetensors."),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="module:function that takes texts and gives one vector per text."),
    ] = None,
    size: Annotated[
        int, typer.Option(min=1, help="Numbers per word, reduced by principal components.")
    ] = 128,
    words: Annotated[int, typer.Option(min=1, help="Most frequent words of the log.")] = 90_000,
    as_json: AsJson = False,
) -> None:
    """Make initial word vectors for `train --set train.word_vectors=FILE`.

    Example: `nextquery vectors data --from glove.6B.300d.txt --out vectors.safetensors`
    """
    from nextquery.errors import InputError
    from nextquery.logs.data_folder import read_data

    if (source is None) == (encoder is None):
        raise InputError("vectors come from a file (--from) or an encoder (--encoder): give one")
    if out.suffix != ".safetensors":
        raise InputError(f"{out}: the name of the file to write must end in .safetensors")
    known = read_data(data, lambda opened: opened.words()[:words])
    word_vectors = _read_vectors(known, source, encoder).reduced(size)
    word_vectors.save(out)
    with_vector, numbers = len(word_vectors.words), word_vectors.size
    document = {
        "out": str(out),
        "words": len(known),
        "with_vector": with_vector,
        "size": numbers,
    }
    text = (
        f"{out}: {with_vector:,} of {len(known):,} words ({with_vector / len(known):.0%}), "
        f"{numbers} numbers each\n"
        f"try: nextquery train {data} --out model --set train.word_vectors={out}"
    )
    print_result(document, text, as_json)


def _read_vectors(known: list[str], source: Path | None, encoder: str | None) -> "WordVectors":
    from nextquery.text.vectors import encode_words, import_encoder, read_word_vectors

    if source is not None:
        return read_word_vectors(source, set(known))
    assert encoder is not None
    return encode_words(known, import_encoder(encoder))
