"""Who takes part in an experiment: count models fitted on the spot, and the models given.

Knows which suggesters the paper compares and under which names they are reported. A further system
is any object with `score`; see docs/protocol.md.
"""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import polars as pl

from nextquery.artifacts import open_artifact
from nextquery.errors import InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.scoring import CaseScorer, FoldScorer
from nextquery.ranking.semantic import QueryVectors
from nextquery.ranking.user_folds import user_fold
from nextquery.suggesters.base import Scorer, Suggester
from nextquery.suggesters.ensemble import Ensemble
from nextquery.suggesters.fitting.fit import fit_model
from nextquery.suggesters.loading import count_model, load
from nextquery.suggesters.qvmm import QVMM, QVMMSettings
from nextquery.text.word_vectors import import_encoder

COUNT_MODELS = {
    "adj": "adjacency",
    "qvmm": "qvmm",
    "cacb": "cacb",
    "ss": "shortcuts",
    "popularity": "popularity",
}
"""The paper's names of the count models, and their kinds."""

RESERVED = (
    *COUNT_MODELS,
    "baseline",
    "baseline_authors",
    "baseline_semantic",
    "baseline_earlier",
)


SystemSource = Scorer | Path | tuple[Path, ...]
"""A system given to an experiment: a model folder, several of them whose probabilities are averaged
(an ensemble), or any object with `score`."""


@dataclass(frozen=True)
class Systems:
    """All systems by the name under which they are reported.

    `models` are the systems under study: ranked alone, as a feature in each form, and analysed in
    full. `features` only contribute their score to a ranker of their own, `baseline+NAME`.
    """

    count_models: Mapping[str, Suggester]
    models: Mapping[str, Scorer]
    features: Mapping[str, Scorer] = field(default_factory=dict)
    unpruned: QVMM | None = None
    """All sequences of the background, for the Baseline Ranker of the authors' code."""
    query_vectors: QueryVectors | None = None
    """A sentence encoder, for the Baseline Ranker that sees meaning, too."""
    fold_models: Mapping[str, Sequence[Scorer]] = field(default_factory=dict)
    """Models under study trained without the users of fold 0, 1, ...: for new visitors."""

    @property
    def qvmm(self) -> QVMM:
        """The QVMM that gives the Baseline Ranker its feature."""
        model = self.count_models["qvmm"]
        assert isinstance(model, QVMM)
        return model

    @cached_property
    def scorers(self) -> dict[str, CaseScorer | FoldScorer]:
        """What gives the scores of the systems under study."""
        return {name: CaseScorer(model) for name, model in self.models.items()}

    def for_new_visitors(self) -> "Systems":
        """The same without what was counted with a visitor's own sessions.

        A model under study is replaced by its fold models if it has any; scorers are shared, so
        that no score is asked for twice.
        """
        counted = self.count_models.items()
        kept = {name: model for name, model in counted if name in ("adj", "qvmm")}
        others = replace(self, count_models=kept, features={})
        folded = {
            name: FoldScorer([CaseScorer(model) for model in models], partial(_fold, len(models)))
            for name, models in self.fold_models.items()
        }
        others.scorers.update({**self.scorers, **folded})
        return others

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
    fold_models: Mapping[str, Sequence[Path]],
    count_models: Mapping[str, str] = COUNT_MODELS,
    encoder: str | None = None,
) -> Iterator[Systems]:
    """Load the given systems and fit the count models, each behind its guard.

    The count models live in `folder` as long as they are needed; what a killed run left there is
    written anew.
    """
    check_names([*models, *features])
    folds = {name: [load(path) for path in paths] for name, paths in fold_models.items()}
    vectors = QueryVectors(import_encoder(encoder)) if encoder else None
    opened = Systems({}, _load(models), _load(features), query_vectors=vectors, fold_models=folds)
    try:
        fitted = _fit_all(data, folder, count_models)
        unpruned = fit_model(QVMM, data, QVMMSettings(pruning=0))
        yield replace(opened, count_models=fitted, unpruned=unpruned)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fit_all(
    data: PreparedData, folder: Path, count_models: Mapping[str, str]
) -> dict[str, Suggester]:
    """The count models but those that lack the clicks they learn from."""
    clicks = pl.col("clicks").sum()
    clicked = {
        "cacb": bool(len(data.counts("clicks").head(1).collect())),  # finds concepts by them
        "ss": bool(data.session_rows("background").select(clicks).collect().item()),
    }
    kinds = {name: kind for name, kind in count_models.items() if clicked.get(name, True)}
    for kind in kinds.values():
        fit_model(count_model(kind), data).save(folder / kind)
    return {name: load(folder / kind) for name, kind in kinds.items()}


def _fold(folds: int, user: str) -> int:
    return user_fold(user, folds)


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
    """What model folders are recognised by: their files' checksums; None for any other system."""
    if isinstance(source, tuple):
        return [identity(each) for each in source]
    if not isinstance(source, Path):
        return None
    return open_artifact(source, verify=False).manifest["files"]


def _load(sources: Mapping[str, SystemSource]) -> dict[str, Scorer]:
    return {name: _opened(source) for name, source in sources.items()}


def _opened(source: SystemSource) -> Scorer:
    if isinstance(source, tuple):
        return Ensemble([load(each) for each in source])
    return load(source) if isinstance(source, Path) else source
