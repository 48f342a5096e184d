"""Trending queries: the last days of a log compared with the days before them.

A query is counted by users per day, so that nobody makes a trend by typing. Under the null
hypothesis each of its users falls into the last days with the same chance as anybody's:

    X ~ Binomial(recent + before, share of the last days among all users and days)

The p-value is P(X >= recent); Benjamini and Hochberg's step-up rule over all queries that enough
users typed keeps the expected share of false trends among those named below `rate`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from math import exp, lgamma, log, log1p
from typing import cast

import polars as pl

from nextquery.logs.data_folder import UNSEEN_USERS, PreparedData
from nextquery.logs.settings import TrendSettings


@dataclass(frozen=True)
class Trend:
    """A query that more users type than before."""

    query: str
    users: int
    """Different users who typed it in the last days."""
    recent: int
    """The same counted each day: a user on two days counts twice."""
    before: int
    """The same in the days before."""
    growth: float
    """How many times as often per day as before; one half is added to both counts."""
    p: float
    q: float
    """The smallest `rate` with which it would be named."""


@dataclass(frozen=True)
class TrendReport:
    """The trends of a log, clearest first, and what they were chosen from."""

    first_day: date
    """The first of the last days."""
    last_day: date
    past_from: date
    queries_tested: int
    trends: tuple[Trend, ...]


def find_trends(data: PreparedData, settings: TrendSettings | None = None) -> TrendReport:
    """Trending queries of a prepared log, of all its splits but held-out users.

    >>> import nextquery
    >>> data = nextquery.prepare(LOG, "data", spelling=False)
    >>> report = find_trends(data, TrendSettings(days=1))
    >>> all(trend.q <= 0.05 for trend in report.trends)
    True
    """
    chosen = settings or TrendSettings()
    # Each user's queries, once a day.
    searches = pl.concat([data.search_rows(name) for name in data.splits if name != UNSEEN_USERS])
    days = searches.select("user", "query", day=pl.col("time").dt.date())
    daily = days.unique().collect(engine="streaming")
    last = cast(date, daily["day"].max())
    first = last - timedelta(days=chosen.days - 1)
    past = first - timedelta(days=chosen.past_days)
    recent = daily.filter(pl.col("day") >= first)
    before = daily.filter(pl.col("day").is_between(past, first, closed="left"))
    least = max(chosen.min_users or 0, data.min_users)
    tested = _tested(recent, before, least)
    if before.is_empty() or tested.is_empty():
        return TrendReport(first, last, past, 0, ())
    share = len(recent) / (len(recent) + len(before))
    days_before = (first - max(past, cast(date, daily["day"].min()))).days
    periods = days_before / chosen.days
    rows = tested.select("query", "users", "recent", "before").rows()
    p = [at_least(now, now + then, share) for _, _, now, then in rows]
    trends = [
        Trend(query, users, now, then, (now + 0.5) * periods / (then + 0.5), chance, rate)
        for (query, users, now, then), chance, rate in zip(rows, p, step_up(p), strict=True)
    ]
    named = [trend for trend in trends if trend.q <= chosen.rate and trend.growth > 1]
    named.sort(key=lambda trend: (trend.p, -trend.growth, trend.query))
    return TrendReport(first, last, past, len(tested), tuple(named))


def _tested(recent: pl.DataFrame, before: pl.DataFrame, least: int) -> pl.DataFrame:
    """The queries that enough users typed lately: query, users, recent, before."""
    lately = recent.group_by("query").agg(pl.col("user").n_unique().alias("users"), recent=pl.len())
    enough_users = lately.filter(pl.col("users") >= least)
    past = before.group_by("query").agg(before=pl.len())
    joined = enough_users.join(past, on="query", how="left")
    return joined.with_columns(pl.col("before").fill_null(0)).sort("query")


def at_least(successes: int, trials: int, chance: float) -> float:
    """P(X >= successes) of a binomial variable, summed from its largest term down.

    >>> round(at_least(9, 10, 0.5), 6)
    0.010742
    >>> at_least(0, 10, 0.5)
    1.0
    """
    if successes <= 0 or chance >= 1:
        return 1.0
    fixed = lgamma(trials + 1)
    logs = [
        fixed
        - lgamma(k + 1)
        - lgamma(trials - k + 1)
        + k * log(chance)
        + (trials - k) * log1p(-chance)
        for k in range(successes, trials + 1)
    ]
    return min(1.0, sum(map(exp, sorted(logs))))


def step_up(p: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's adjusted p-values.

    >>> [round(value, 3) for value in step_up([0.01, 0.04, 0.03, 0.5])]
    [0.04, 0.053, 0.053, 0.5]
    """
    order = sorted(range(len(p)), key=p.__getitem__, reverse=True)
    adjusted, lowest = [1.0] * len(p), 1.0
    for rank, index in zip(range(len(p), 0, -1), order, strict=True):
        lowest = min(lowest, p[index] * len(p) / rank)
        adjusted[index] = lowest
    return adjusted
