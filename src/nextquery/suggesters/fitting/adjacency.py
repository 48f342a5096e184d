"""Fitting adjacency: the pairs that `prepare` counted, numbered, or counted again by their age."""

import narwhals as nw
import polars as pl

from nextquery.suggesters.adjacency import Adjacency, AdjacencySettings
from nextquery.suggesters.counts.followers import Followers
from nextquery.suggesters.fitting.ages import DAY, Ages, with_day
from nextquery.suggesters.fitting.background import count_background, frequency_ranks
from nextquery.suggesters.fitting.sequences import BackgroundLog, collected
from nextquery.suggesters.fitting.useful import useful_factors


def fit_adjacency(log: BackgroundLog, settings: AdjacencySettings) -> Adjacency:
    """Number the pairs that `prepare` counted, or those of each day by their age."""
    background = count_background(log.data)
    ages = log.ages(settings)
    pairs = _counted(log) if ages is None else _weighed(log, ages)
    following = background.ids(pairs["next"].to_list())
    counts = pairs["count"].to_numpy()
    factors = useful_factors(log, background, settings.useful_weight)
    followers = Followers.from_counts(
        background.ids(pairs["anchor"].to_list()),
        following,
        counts if factors is None else counts * factors[following],
        len(background.counts),
        frequency_ranks(background),
    )
    return Adjacency(settings, background, followers)


def _counted(log: BackgroundLog) -> pl.DataFrame:
    return log.data.counts("followers").select("anchor", "next", "count").collect()


def _weighed(log: BackgroundLog, ages: Ages) -> pl.DataFrame:
    """The same pairs; one belongs to the day of its first query."""
    after = nw.col("query").shift(-1).over("session", order_by="position")
    known = log.known()
    pairs = with_day(log.rows()).with_columns(next=after).drop_nulls(["next"])
    pairs = pairs.select(nw.col("query").alias("anchor"), "next", DAY)
    for side in ("anchor", "next"):
        table = log.table(known.select(pl.col("query").alias(side)), f"known-{side}")
        pairs = pairs.join(table, on=side, how="semi")
    daily = collected(pairs.group_by("anchor", "next", DAY).agg(nw.len().alias("count")))
    return ages.weigh(daily, ["anchor", "next"])
