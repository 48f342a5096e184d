"""Opening any model folder: a manifest's kind decides which class reads it.

Classes are named by module, so that a count model opens without torch.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

from nextquery.artifacts import open_artifact
from nextquery.errors import ArtifactError, InputError
from nextquery.guard.guard import Guard
from nextquery.guard.hits import HitsCheck
from nextquery.suggesters.base import Suggester

COUNT_MODELS = {
    "popularity": "nextquery.suggesters.popularity:Popularity",
    "adjacency": "nextquery.suggesters.adjacency:Adjacency",
    "qvmm": "nextquery.suggesters.qvmm:QVMM",
    "cacb": "nextquery.suggesters.cacb:CACB",
    "shortcuts": "nextquery.suggesters.shortcuts:Shortcuts",
}
"""The kinds that `fit` can make."""

LOADERS = {**COUNT_MODELS, "hred": "nextquery.suggesters.neural:HREDSuggester"}
"""Every kind that `load` can open."""


def load(
    path: str | Path,
    *,
    blocklist: Path | None = None,
    hits: HitsCheck | None = None,
    guarded: bool = True,
) -> Suggester:
    """Open the model folder at `path`, whatever its kind, behind its guard.

    `blocklist` is a file of words and phrases never to be suggested, `hits` a function that says
    whether a query finds anything. Without `guarded` nothing is refused: for research, not for
    people's eyes.
    """
    folder = Path(path)
    kind = open_artifact(folder).kind
    if kind not in LOADERS:
        known = ", ".join(LOADERS)
        raise ArtifactError(f"{folder}: holds {kind!r}, not a model; models are: {known}")
    guard = Guard.open(folder, blocklist, hits, enforced=guarded)
    suggester: Suggester = _named(LOADERS[kind]).load(folder, guard)
    return suggester


def count_model(kind: str) -> Any:
    """The class of a count model."""
    if kind not in COUNT_MODELS:
        raise InputError(f"--kind {kind}: must be one of {', '.join(COUNT_MODELS)}")
    return _named(COUNT_MODELS[kind])


def _named(place: str) -> Any:
    module, name = place.split(":")
    return getattr(import_module(module), name)
