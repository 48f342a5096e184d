"""Fitting a model to a prepared log: a kind decides which function counts or learns."""

from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any, TypeVar, cast

import polars as pl

from nextquery.errors import InputError
from nextquery.guard.guard import HitsCheck
from nextquery.guard.tables import write_tables
from nextquery.logs.data_folder import PreparedData, data_entry
from nextquery.logs.settings import PrepareSettings
from nextquery.suggesters.adjacency import fit_adjacency
from nextquery.suggesters.cacb import fit_cacb
from nextquery.suggesters.count_suggester import CountSuggester
from nextquery.suggesters.loading import COUNT_MODELS, count_model
from nextquery.suggesters.popularity import Popularity, PopularitySettings, fit_popularity
from nextquery.suggesters.qvmm import fit_qvmm
from nextquery.suggesters.rescue import Rescue, fit_rescue
from nextquery.suggesters.returning import Returning
from nextquery.suggesters.returning_fit import fit_returning
from nextquery.suggesters.sequences import open_log
from nextquery.suggesters.shortcuts import fit_shortcuts

ModelT = TypeVar("ModelT", bound=CountSuggester[Any] | Returning)

FITTERS: dict[str, Callable[..., Any]] = {
    "popularity": fit_popularity,
    "adjacency": fit_adjacency,
    "qvmm": fit_qvmm,
    "cacb": fit_cacb,
    "shortcuts": fit_shortcuts,
    "rescue": fit_rescue,
}
ASKS_FOR_HITS = ("rescue",)
"""The kinds that learn from which queries find something."""


def fit_model(
    model_type: type[ModelT],
    data: PreparedData,
    settings: Any = None,
    *,
    engine: str = PrepareSettings.engine,
    spark_master: str = PrepareSettings.spark_master,
    hits: HitsCheck | None = None,
) -> ModelT:
    """Count what a model needs in the background of a prepared log.

    `hits` says whether a query finds something, for the kind that asks (`rescue`).
    """
    chosen: Any = settings or model_type.settings_type()
    if hits is not None and model_type.kind not in ASKS_FOR_HITS:
        raise InputError(f"`hits`: {model_type.kind} does not ask what finds something")
    if issubclass(model_type, Returning):  # samples sessions with Polars
        return cast("ModelT", fit_returning(data, chosen))
    hits_argument = {"hits": hits} if hits is not None else {}
    with open_log(data, engine, spark_master) as log:
        model = FITTERS[model_type.kind](log, chosen, **hits_argument)
    model.write_guard_tables = partial(write_tables, data)
    model.data_entry = data_entry(data)
    return cast("ModelT", model)


def empty_reason(model: Any, data: PreparedData, hits: HitsCheck | None = None) -> str | None:
    """Why a fitted count model has no suggestion after any known query; None if it has some."""
    if not isinstance(model, CountSuggester) or not len(model.background.queries):
        return None
    contexts = ((), *((query,) for query in model.background.queries))
    if any(model.best(context, 1) for context in contexts):
        return None
    if isinstance(model, Rescue):
        return _empty_rescue(data, hits)
    if isinstance(model, Popularity) and model.settings.trending_days is not None:
        return _no_trends(model.settings, data)
    return "no session of the background has two known queries"


def _empty_rescue(data: PreparedData, hits: HitsCheck | None) -> str:
    if hits is None and data.counts("clicks").head(1).collect().is_empty():
        return (
            "the log has no clicks, so that nothing says which queries found "
            "something; name the titles or known queries of the site with `hits`"
        )
    evidence = "a click" if hits is None else "hits"
    return f"no known query without {evidence} is followed by one that has some"


def _no_trends(settings: PopularitySettings, data: PreparedData) -> str:
    recent = settings.trending_days or 1
    rows = pl.concat([data.search_rows(split) for split in data.splits])
    first, last = (
        rows.select(first=pl.col("time").min().dt.date(), last=pl.col("time").max().dt.date())
        .collect()
        .row(0)
    )
    assert isinstance(first, date)
    days = (last - first).days + 1
    if days <= recent:
        return (
            f"the log has {days} day{'' if days == 1 else 's'}, and a trend is what "
            f"rises in the last {recent} against the days before; lower `trending_days`"
        )
    return f"no known query rises in the last {recent} days"


def model_class(kind: str) -> Any:
    """The class of a kind that `fit_model` fits."""
    if kind == Returning.kind:
        return Returning
    if kind not in COUNT_MODELS:
        kinds = ", ".join((*COUNT_MODELS, Returning.kind))
        raise InputError(f"`kind` {kind}: must be one of {kinds}")
    return count_model(kind)
