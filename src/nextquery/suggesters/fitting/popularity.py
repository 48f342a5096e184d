"""Fitting popularity: counts as they are, or weighed by their age."""

from datetime import date

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nextquery.suggesters.background import Background
from nextquery.suggesters.fitting.background import count_background, heaviest_first
from nextquery.suggesters.fitting.sequences import BackgroundLog, collected
from nextquery.suggesters.popularity import Popularity, PopularitySettings


def fit_popularity(log: BackgroundLog, settings: PopularitySettings) -> Popularity:
    """Take the counts as they are, or weigh the occurrences of each day."""
    background = count_background(log.data)
    weights = background.counts.astype(np.float64)
    if settings.half_life_days is not None:
        weights = _decayed(log, background, settings.half_life_days)
    return Popularity(settings, background, weights, heaviest_first(background, weights))


def _decayed(
    log: BackgroundLog, background: Background, half_life_days: float
) -> NDArray[np.float64]:
    """The weight of each query: its occurrences a day, halved with every half-life."""
    days = log.rows().with_columns(nw.col("time").dt.date().alias("day"))
    daily = collected(days.group_by("query", "day").agg(nw.len().alias("count")))
    last: date | None = daily["day"].max()  # type: ignore[assignment]
    age = (pl.lit(last) - pl.col("day")).dt.total_days()
    weighed = daily.select("query", weight=pl.col("count") * 0.5 ** (age / half_life_days))
    totals = weighed.sort("query", "weight").group_by("query", maintain_order=True).sum()
    known = totals.filter(pl.Series([query in background.queries for query in totals["query"]]))
    weights = np.zeros(len(background.counts))
    weights[background.ids(known["query"].to_list())] = known["weight"].to_numpy()
    return weights
