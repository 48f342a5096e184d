"""Fitting rescue: failed queries, and the first later query of the session that did not fail."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import polars as pl

from nextquery.guard.hits import HitsCheck
from nextquery.suggesters.background import Background
from nextquery.suggesters.counts.followers import Followers
from nextquery.suggesters.counts.storage import build_trie
from nextquery.suggesters.fitting.ages import DAY, Ages
from nextquery.suggesters.fitting.background import count_background, frequency_ranks
from nextquery.suggesters.fitting.sequences import BackgroundLog
from nextquery.suggesters.fitting.useful import useful_factors
from nextquery.suggesters.rescue import Rescue, RescueSettings, Trigrams, trigrams


def fit_rescue(
    log: BackgroundLog, settings: RescueSettings, hits: HitsCheck | None = None
) -> Rescue:
    """Count what came next; whether a query finds something is the check's word, or a click's."""
    background = count_background(log.data)
    pairs = _next_found(log, _found(log, hits), log.ages(settings))
    following = background.ids(pairs["next"].to_list())
    counts = pairs["count"].to_numpy()
    factors = useful_factors(log, background, settings.useful_weight)
    followers = Followers.from_counts(
        background.ids(pairs["query"].to_list()),
        following,
        counts if factors is None else counts * factors[following],
        len(background.counts),
        frequency_ranks(background),
    )
    failed = pairs["query"].unique().sort().to_list()
    return Rescue(settings, background, followers, *_index(background, failed))


def _found(log: BackgroundLog, hits: HitsCheck | None) -> pl.DataFrame:
    """The known queries, and whether each finds something: query, found."""
    known = log.known()
    if hits is None:
        rows = log.data.session_rows("background").group_by("query")
        clicked = rows.agg((pl.col("clicks").sum() > 0).alias("found")).collect()
        return known.join(clicked, on="query", how="left").with_columns(
            pl.col("found").fill_null(value=False)
        )
    return known.with_columns(
        pl.Series("found", [hits(query) for query in known["query"]], dtype=pl.Boolean)
    )


def _next_found(log: BackgroundLog, known: pl.DataFrame, ages: Ages | None) -> pl.DataFrame:
    """Failed queries and the next query that found something: query, next, count of sessions.

    A session belongs to the day on which the query first failed in it.
    """
    rows = log.data.session_rows("background").join(known.lazy(), on="query", how="left")
    later = pl.when("found").then("query").shift(-1).backward_fill().over("session")
    sessions = (
        rows.sort("session", "position")
        .with_columns(next=later)
        .filter(pl.col("found").not_() & pl.col("next").is_not_null())
        .group_by("query", "next", "session")
        .agg(pl.col("time").min().dt.date().alias(DAY))
    )
    keys = ["query", "next"]
    if ages is None:
        counted = sessions.group_by(keys).agg(count=pl.len().cast(pl.Int64)).sort(keys)
        return counted.collect()
    daily = sessions.group_by(*keys, DAY).agg(count=pl.len().cast(pl.Int64)).collect()
    return ages.weigh(daily, keys)


def _index(background: Background, failed: Sequence[str]) -> tuple[object, Trigrams]:
    """The trigrams of the failed queries: a trie that numbers them, and where each stands."""
    places: dict[str, list[int]] = defaultdict(list)
    for query in failed:
        for gram in trigrams(query):
            places[gram].append(background.queries[query])
    names = build_trie(sorted(places))
    lists = [sorted(places[names.restore_key(number)]) for number in range(len(names))]
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(each) for each in lists], out=offsets[1:])
    queries = np.array([query for each in lists for query in each], dtype=np.int32)
    return names, Trigrams(offsets, queries)
