"""Counts of each day, weighed by their age.

An engine counts by day; what a day weighs is worked out here, in one order, so that every engine
gives the same sums to the last bit.

    weight = 2^(-age / half-life)        age in days before the last day of the background
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import narwhals as nw
import polars as pl

from nextquery.logs.engines.base import Frame
from nextquery.suggesters.aging import AgingSettings

DAY = "day"


@dataclass(frozen=True)
class Ages:
    """What the observations of a day weigh."""

    settings: AgingSettings
    last: date

    @property
    def whole(self) -> bool:
        """Whether weights are whole numbers: there is no half-life."""
        return self.settings.half_life_days is None

    def within(self) -> pl.Expr:
        """Whether a day lies in the window."""
        if self.settings.window_days is None:
            return pl.lit(True)
        return self._age() < self.settings.window_days

    def weigh(self, daily: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
        """The counts (`keys`, day, count) of all days together, sorted by `keys`."""
        kept = daily.filter(self.within()).sort(*keys, DAY)
        if not self.whole:
            weight = 0.5 ** (self._age() / self.settings.half_life_days)
            kept = kept.with_columns(count=pl.col("count") * weight)
        return kept.group_by(keys, maintain_order=True).agg(pl.col("count").sum())

    def _age(self) -> pl.Expr:
        return (pl.lit(self.last) - pl.col(DAY)).dt.total_days()


def with_day(rows: Frame) -> Frame:
    """Rows with the day of their `time`."""
    return rows.with_columns(nw.col("time").dt.date().alias(DAY))
