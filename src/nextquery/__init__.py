"""nextquery: query suggestions learnt from a site's own query log.

The public names, imported when first used so that ``import nextquery`` is quick::

    prepare(log, out)                  a raw log becomes a data folder
    fit(data, kind)                    a count model
    train(data, out)                   HRED
    load(path)                         any model folder: `suggest`, `score`
    run_experiment(data, models, out)  the paper's comparison of models
    PreparedData, HRED, Suggester      a data folder, the network, what every model can do
    Suggestion, ScoredQuery            what models answer
    NextqueryError and its kinds       what can go wrong
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nextquery._version import __version__

if TYPE_CHECKING:
    from nextquery.api import fit, prepare, run_experiment, train
    from nextquery.errors import (
        ArtifactError,
        BlocklistError,
        ChecksumError,
        ConfigError,
        InputError,
        LogError,
        MissingDependencyError,
        NextqueryError,
        TrainingError,
    )
    from nextquery.logs.data_folder import PreparedData
    from nextquery.model.hred import HRED
    from nextquery.records import ScoredQuery, Suggestion
    from nextquery.suggesters.base import Suggester
    from nextquery.suggesters.loading import load

_HOMES = {
    "nextquery.api": ("fit", "prepare", "run_experiment", "train"),
    "nextquery.errors": (
        "ArtifactError",
        "BlocklistError",
        "ChecksumError",
        "ConfigError",
        "InputError",
        "LogError",
        "MissingDependencyError",
        "NextqueryError",
        "TrainingError",
    ),
    "nextquery.logs.data_folder": ("PreparedData",),
    "nextquery.model.hred": ("HRED",),
    "nextquery.records": ("ScoredQuery", "Suggestion"),
    "nextquery.suggesters.base": ("Suggester",),
    "nextquery.suggesters.loading": ("load",),
}
_PUBLIC = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "HRED",
    "ArtifactError",
    "BlocklistError",
    "ChecksumError",
    "ConfigError",
    "InputError",
    "LogError",
    "MissingDependencyError",
    "NextqueryError",
    "PreparedData",
    "ScoredQuery",
    "Suggester",
    "Suggestion",
    "TrainingError",
    "__version__",
    "fit",
    "load",
    "prepare",
    "run_experiment",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'nextquery' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
