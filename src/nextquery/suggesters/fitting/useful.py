"""Counts in which a useful query counts for more (`logs/usefulness.py` says which are).

An engine counts the useful occurrences apart; they are added here, as whole numbers.
"""

import narwhals as nw
import polars as pl

from nextquery.errors import InputError
from nextquery.logs.usefulness import USEFUL, with_usefulness
from nextquery.suggesters.fitting.sequences import BackgroundLog, collected


def weigh_useful_pairs(log: BackgroundLog, pairs: pl.DataFrame, weight: int) -> pl.DataFrame:
    """The pairs (anchor, next, count); a next query that was useful counts `weight` times."""
    before = nw.col("query").shift(1).over("session", order_by="position")
    rows = with_usefulness(log.rows()).with_columns(before.alias("anchor"))
    useful = rows.filter(nw.col(USEFUL)).select("anchor", nw.col("query").alias("next"))
    found = collected(useful.drop_nulls().group_by("anchor", "next").agg(nw.len().alias("more")))
    if found.is_empty():
        raise InputError(
            f"{log.data.path}: no query was useful, as in a log without clicks; "
            "leave out `useful_weight`"
        )
    joined = pairs.join(found, on=["anchor", "next"], how="left", maintain_order="left")
    more = pl.col("more").fill_null(0).cast(pl.Int64) * (weight - 1)
    return joined.with_columns(count=pl.col("count") + more).drop("more")
