"""Fitting any count model: a kind decides which function counts."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from nextquery.config import Section
from nextquery.guard.build_tables import write_tables
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.settings import PrepareSettings
from nextquery.suggesters.count_suggester import CountSuggester
from nextquery.suggesters.fitting.adjacency import fit_adjacency
from nextquery.suggesters.fitting.cacb import fit_cacb
from nextquery.suggesters.fitting.popularity import fit_popularity
from nextquery.suggesters.fitting.qvmm import fit_qvmm
from nextquery.suggesters.fitting.sequences import open_log
from nextquery.suggesters.fitting.shortcuts import fit_shortcuts

ModelT = TypeVar("ModelT", bound=CountSuggester[Any])

FITTERS: dict[str, Callable[..., Any]] = {
    "popularity": fit_popularity,
    "adjacency": fit_adjacency,
    "qvmm": fit_qvmm,
    "cacb": fit_cacb,
    "shortcuts": fit_shortcuts,
}


def fit_model(
    model_type: type[ModelT],
    data: PreparedData,
    settings: Section | None = None,
    *,
    engine: str = PrepareSettings.engine,
    spark_master: str = PrepareSettings.spark_master,
) -> ModelT:
    """Count what a model needs in the background of a prepared log."""
    chosen = settings or model_type.settings_type()
    with open_log(data, engine, spark_master) as log:
        model: ModelT = FITTERS[model_type.kind](log, chosen)
    model.write_guard_tables = partial(write_tables, data)
    return model
