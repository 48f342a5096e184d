"""The models of a study: each opened by itself, some asked under decode settings of their own.

So that people can judge one model's old settings against its new ones, blind.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from nextquery.errors import InputError
from nextquery.inference.settings import override
from nextquery.suggesters.base import Adjustable, Decoding, Suggester
from nextquery.suggesters.loading import load

SPECIFICITY = "specificity"


def open_models(
    folders: Mapping[str, Path], settings: Mapping[str, Sequence[str]]
) -> dict[str, Suggester]:
    """The models by name; `settings` are `key=value` texts for some of the names."""
    unknown = settings.keys() - folders.keys()
    if unknown:
        raise InputError(f"`decode` {min(unknown)}: no model has this name")
    models = {name: load(folder) for name, folder in folders.items()}
    for name, texts in settings.items():
        set_decoding(models[name], texts)
    return models


def set_decoding(model: Suggester, settings: Sequence[str]) -> None:
    """Let a model suggest under other settings; a count model has its specificity."""
    if isinstance(model, Decoding):
        model.config = override(model.config, {}, settings)
        return
    keys = [text.partition("=")[0] for text in settings]
    if not isinstance(model, Adjustable) or keys != [SPECIFICITY] * len(keys):
        raise InputError(f"`decode` {' '.join(settings)}: a {model.kind} model takes {SPECIFICITY}")
    for text in settings:
        model.specificity = _share(text)


def _share(text: str) -> float:
    try:
        value = float(text.partition("=")[2])
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise InputError(f"`decode` {text}: must be a number from 0 to 1")
    return value
