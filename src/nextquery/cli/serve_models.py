"""Which models `nextquery serve` was told to serve, by which names, in which trial."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nextquery.artifacts import open_artifact
from nextquery.errors import InputError
from nextquery.service.settings import NamedModel


@dataclass(frozen=True)
class ServedModels:
    """The models under their names, and the names that a trial uses."""

    served: tuple[NamedModel, ...]
    interleave: tuple[str, ...]
    shadow: str


def served_models(
    model: Path | None, name: str, compare: Sequence[str], interleave: Sequence[str], shadow: str
) -> ServedModels:
    """The models of all options, each named once; the first answers requests that name none."""
    models: dict[str, Path] = {}
    if model is not None:
        models[name or open_artifact(model, verify=False).kind] = model
    for entry in compare:
        label, path = _named("compare", entry)
        if path is None:
            raise InputError(f"--compare {entry}: write NAME=MODEL, e.g. --compare adj=models/adj")
        _add(models, label, path, "compare")
    names = [_add(models, *_named("interleave", entry), "interleave") for entry in interleave]
    if not models:
        raise InputError("name a MODEL to serve, or two with --interleave NAME=MODEL")
    in_shadow = _add(models, *_named("shadow", shadow), "shadow") if shadow else ""
    served = tuple(NamedModel(label, path) for label, path in models.items())
    return ServedModels(served, tuple(names), in_shadow)


def _add(models: dict[str, Path], label: str, path: Path | None, option: str) -> str:
    """Serve a folder under a name, or find the name that is served already."""
    if path is not None:
        if label in models:
            raise InputError(f"--{option} {label}={path}: another model has this name")
        open_artifact(path, verify=False)
        models[label] = path
    elif label not in models:
        raise InputError(f"--{option} {label}: no model has this name; write {label}=MODEL")
    return label


def _named(option: str, entry: str) -> tuple[str, Path | None]:
    label, separator, path = entry.partition("=")
    if not label or (separator and not path):
        raise InputError(f"--{option} {entry}: write NAME=MODEL, e.g. --{option} adj=models/adj")
    return label, Path(path) if path else None
