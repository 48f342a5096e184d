"""Fitting popularity: counts as they are, or weighed by their age and use."""

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nextquery.suggesters.background import Background
from nextquery.suggesters.fitting.ages import DAY, Ages, with_day
from nextquery.suggesters.fitting.background import count_background, heaviest_first
from nextquery.suggesters.fitting.sequences import BackgroundLog, collected
from nextquery.suggesters.fitting.useful import useful_factors
from nextquery.suggesters.popularity import Popularity, PopularitySettings


def fit_popularity(log: BackgroundLog, settings: PopularitySettings) -> Popularity:
    """Take the counts as they are, or weigh the occurrences of each day."""
    background = count_background(log.data)
    weights = background.counts.astype(np.float64)
    ages = log.ages(settings)
    if ages is not None:
        weights = _weighed(log, background, ages)
    factors = useful_factors(log, background, settings.useful_weight)
    if factors is not None:
        weights = weights * factors
    order = heaviest_first(background, weights)
    return Popularity(settings, background, weights, order[weights[order] > 0])


def _weighed(log: BackgroundLog, background: Background, ages: Ages) -> NDArray[np.float64]:
    """The weight of each query: its occurrences a day, less with every day of age."""
    days = with_day(log.rows()).group_by("query", DAY).agg(nw.len().alias("count"))
    totals = ages.weigh(collected(days), ["query"])
    known = totals.filter(pl.Series([query in background.queries for query in totals["query"]]))
    weights = np.zeros(len(background.counts))
    weights[background.ids(known["query"].to_list())] = known["count"].to_numpy()
    return weights
