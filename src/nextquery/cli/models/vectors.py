"""`nextquery vectors`: word vectors for a prepared log, from a file or a sentence encoder."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from nextquery.text.word_vectors import WordVectors

_MOST_QUERIES = 1 << 31


def vectors(
    data: Annotated[Path, typer.Argument(help="A folder made by `nextquery prepare`.")],
    out: Annotated[Path, typer.Option(help="The file to write, ending in .safetensors.")],
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Vectors: word2vec, GloVe or fastText as text, safetensors."),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="module:function that takes texts and gives one vector per text."),
    ] = None,
    size: Annotated[
        int, typer.Option(min=1, help="Numbers per word, by principal components.")
    ] = 128,
    words: Annotated[int, typer.Option(min=1, help="Most frequent words of the log.")] = 90_000,
    queries: Annotated[
        int, typer.Option(min=0, help="Also the most frequent queries: for train.query_vectors.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Make the vectors with which `train.word_vectors` lets a model begin.

    With --queries, those of whole queries that `train.query_vectors` gives to the session encoder.

    Example: `nextquery vectors data --from glove.6B.300d.txt --out vectors.safetensors`
    """
    from nextquery.errors import InputError
    from nextquery.logs.data_folder import PreparedData

    if (source is None) == (encoder is None):
        raise InputError("vectors come from a file (--from) or an encoder (--encoder): give one")
    if out.suffix != ".safetensors":
        raise InputError(f"{out}: the name of the file to write must end in .safetensors")
    opened = PreparedData(data)
    known = opened.words()[:words]
    if queries:
        frequent = (
            opened.counts("queries").head(min(queries, _MOST_QUERIES)).collect()["query"].to_list()
        )
        known = list(dict.fromkeys([*known, *frequent]))
    found = _found(known, source, encoder).reduced(size)
    found.save(out)
    facts = {
        "out": str(out),
        "words": len(known),
        "with_vector": len(found.words),
        "size": found.size,
    }
    if as_json:
        typer.echo(json.dumps(facts))
        return
    share = len(found.words) / len(known)
    purpose = "train.query_vectors" if queries else "train.word_vectors"
    further = f" --set model.query_vectors={found.size}" if queries else ""
    typer.echo(
        f"{out}: {len(found.words):,} of {len(known):,} {'texts' if queries else 'words'} "
        f"({share:.0%}), "
        f"{found.size} numbers each\n"
        f"try: nextquery train {data} --out model --set {purpose}={out}{further}"
    )


def _found(known: list[str], source: Path | None, encoder: str | None) -> "WordVectors":
    from nextquery.text.word_vectors import encode_words, import_encoder, read_word_vectors

    if source is not None:
        return read_word_vectors(source, set(known))
    assert encoder is not None
    return encode_words(known, import_encoder(encoder))
