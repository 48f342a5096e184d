"""The options of generation that `suggest` and `complete` share. Knows no command by itself."""

from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextquery.errors import InputError

if TYPE_CHECKING:
    from nextquery.records import Suggestion
    from nextquery.suggesters.base import Suggester

Blocklist = Annotated[
    Path | None, typer.Option(help="A file of words and phrases never to be suggested.")
]
Beam = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="HRED: prefixes kept at every step; 10 by default, and 30 at least where a list is "
        "ordered by more than likelihood.",
    ),
]
Diversity = Annotated[
    float | None,
    typer.Option(
        min=0.0, max=1.0, help="How much unlikeness to the suggestions above counts; 0 by default."
    ),
]
Specificity = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        help="How much what people type after anything is held back; by default 0.3 with HRED, "
        "0.25 with a blend, 0 with others.",
    ),
]
Usefulness = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="HRED with a usefulness head: add so many times log P(useful); 0 by default.",
    ),
]
Known = Annotated[
    str | None,
    typer.Option(help="HRED: free, prefer (default) or only queries that at least K users typed."),
]
Mode = Annotated[
    str | None, typer.Option(help="HRED: the output layer: exact, fast (8 bits) or auto, by size.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="HRED: a decode setting as key=value, e.g. max_words=8; may be repeated."
    ),
]


def decode_options(
    suggester: "Suggester",
    options: dict[str, Any],
    sets: Sequence[str],
    adjustable: Set[str] = frozenset(),
) -> dict[str, Any]:
    """The keyword arguments that the given options make for this model.

    A model that decodes takes all of them as its config; one that counts takes `adjustable` ones.
    """
    given = {key: value for key, value in options.items() if value is not None}
    if not given and not sets:
        return {}
    from nextquery.suggesters.base import Adjustable, Decoding

    if isinstance(suggester, Decoding):
        from nextquery.inference.settings import override

        return {"config": override(suggester.config, given, sets)}
    if isinstance(suggester, Adjustable) and not sets and given.keys() <= adjustable:
        return given
    names = [f"--{key}" for key in given if key not in adjustable]
    names += [f"--set {one}" for one in sets]
    raise InputError(f"{', '.join(names)}: for HRED only; this model is {suggester.kind!r}")


def unable(path: Path, suggester: "Suggester", what: str) -> InputError:
    """The error of a command that a model cannot serve."""
    return InputError(f"{path}: a model of kind {suggester.kind!r} {what}; give a trained one")


def as_written(found: "Suggestion") -> "Suggestion":
    """A suggestion as people write it: Chinese, Japanese and Thai without spaces."""
    from dataclasses import replace

    from nextquery.word_breaks import join_words

    return replace(found, text=join_words(found.text))
