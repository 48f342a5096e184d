"""Fitting popularity: counts as they are, or weighed by their age and use."""

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nextquery.errors import InputError
from nextquery.logs.trends import TrendSettings, find_trends
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
    if settings.trending_days is not None:
        weights = _trending(log, background, settings)
    factors = useful_factors(log, background, settings.useful_weight)
    if factors is not None:
        weights = weights * factors
    order = heaviest_first(background, weights)
    return Popularity(settings, background, weights, order[weights[order] > 0])


def _trending(
    log: BackgroundLog, background: Background, settings: PopularitySettings
) -> NDArray[np.float64]:
    """The weight of each query that rises: its users in the last days; the others weigh nothing.

    What is not known to the background, and so to the guard, is left out.
    """
    if settings.ages:
        raise InputError("`trending_days` goes with neither `half_life_days` nor `window_days`")
    chosen = TrendSettings(settings.trending_days or 1, settings.trending_past_days)
    found = find_trends(log.data, chosen).trends
    known = [each for each in found if each.query in background.queries]
    weights = np.zeros(len(background.counts))
    if known:  # on a quiet day nothing rises, and the list is empty
        weights[background.ids([each.query for each in known])] = [each.users for each in known]
    return weights


def _weighed(log: BackgroundLog, background: Background, ages: Ages) -> NDArray[np.float64]:
    """The weight of each query: its occurrences a day, less with every day of age."""
    days = with_day(log.rows()).group_by("query", DAY).agg(nw.len().alias("count"))
    totals = ages.weigh(collected(days), ["query"])
    known = totals.filter(pl.Series([query in background.queries for query in totals["query"]]))
    weights = np.zeros(len(background.counts))
    weights[background.ids(known["query"].to_list())] = known["count"].to_numpy()
    return weights
