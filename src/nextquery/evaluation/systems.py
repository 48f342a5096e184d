"""Who takes part in an experiment: count models fitted on the spot, and the models given.

Knows which suggesters the paper compares and under which names they are reported. A further system
is any object with `score`; see docs/experiments.md.
"""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from nextquery.artifacts import open_artifact
from nextquery.errors import InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.scoring import CaseScorer
from nextquery.suggesters.base import Scorer, Suggester
from nextquery.suggesters.fitting.fit import fit_model
from nextquery.suggesters.loading import count_model, load

COUNT_MODELS = {
    "adj": "adjacency",
    "qvmm": "qvmm",
    "cacb": "cacb",
    "ss": "shortcuts",
    "popularity": "popularity",
}
"""The paper's names of the count models, and their kinds."""

RESERVED = (*COUNT_MODELS, "baseline")


SystemSource = Scorer | Path
"""A system given to an experiment: a model folder, or any object with `score`."""


@dataclass(frozen=True)
class Systems:
    """All systems by the name under which they are reported.

    `models` are the systems under study: ranked alone, as a feature in each form, and analysed in
    full. `features` only contribute their score to a ranker of their own, `baseline+NAME`.
    """

    count_models: Mapping[str, Suggester]
    models: Mapping[str, Scorer]
    features: Mapping[str, Scorer] = field(default_factory=dict)

    @cached_property
    def case_scorers(self) -> dict[str, CaseScorer]:
        """What gives the scores of the systems under study."""
        return {name: CaseScorer(model) for name, model in self.models.items()}

    @property
    def suggesters(self) -> dict[str, Suggester]:
        """Every system that can suggest by itself, the systems under study first."""
        everyone = {**self.models, **self.features, **self.count_models}
        return {name: one for name, one in everyone.items() if isinstance(one, Suggester)}


@contextmanager
def open_systems(
    data: PreparedData,
    folder: Path,
    models: Mapping[str, SystemSource],
    features: Mapping[str, SystemSource],
) -> Iterator[Systems]:
    """Load the given systems and fit the count models, each behind its guard.

    The count models live in `folder` as long as they are needed; what a killed run left there is
    written anew.
    """
    check_names([*models, *features])
    opened = Systems({}, _load(models), _load(features))
    try:
        for kind in COUNT_MODELS.values():
            fit_model(count_model(kind), data).save(folder / kind)
        count_models = {name: load(folder / kind) for name, kind in COUNT_MODELS.items()}
        yield replace(opened, count_models=count_models)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_names(names: Sequence[str]) -> None:
    """Refuse names that are taken or that the report's own names are made of.

    >>> check_names(["plain", "with-copying"])
    """
    for name in names:
        if name in RESERVED or not re.fullmatch(r"[a-z0-9_-]+", name):
            raise InputError(
                f"`model` {name}=...: a name has small letters, digits, - and _, "
                f"and is none of {', '.join(RESERVED)}"
            )
    if len(set(names)) < len(names):
        raise InputError(f"`model`: a name is given twice ({', '.join(names)})")


def identity(source: SystemSource) -> Any:
    """What a model folder is recognised by: its files' checksums; None for any other system."""
    if not isinstance(source, Path):
        return None
    return open_artifact(source, verify=False).manifest["files"]


def _load(sources: Mapping[str, SystemSource]) -> dict[str, Scorer]:
    return {
        name: load(source) if isinstance(source, Path) else source
        for name, source in sources.items()
    }
