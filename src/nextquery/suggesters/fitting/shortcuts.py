"""Fitting Search Shortcuts: satisfactory sessions grouped by their end and indexed."""

from datetime import date
from typing import Any

import bm25s
import narwhals as nw
import polars as pl

from nextquery.errors import InputError
from nextquery.suggesters.background import Background
from nextquery.suggesters.fitting.ages import DAY, Ages, with_day
from nextquery.suggesters.fitting.background import count_background
from nextquery.suggesters.fitting.sequences import BackgroundLog, collected
from nextquery.suggesters.fitting.useful import useful_factors
from nextquery.suggesters.shortcuts import Index, Shortcuts, ShortcutsSettings


def fit_shortcuts(log: BackgroundLog, settings: ShortcutsSettings) -> Shortcuts:
    """Group satisfactory sessions by their last query and index their words."""
    background = count_background(log.data)
    satisfactory, endings, texts = _documents(log, settings)
    settings = settings.model_copy(update={"satisfactory": satisfactory})
    ids = background.ids(endings["ending"].to_list())
    ordered = endings.with_columns(id=pl.Series(ids)).sort("id")
    places = dict(zip(ordered["ending"], range(len(ordered)), strict=True))
    index = _index(texts, places, background, settings)
    whole = settings.half_life_days is None
    sessions = ordered["count"].cast(pl.Int32 if whole else pl.Float64).to_numpy()
    factors = useful_factors(log, background, settings.useful_weight)
    if factors is not None:
        sessions = sessions * factors[ordered["id"].to_numpy()]
    return Shortcuts(settings, background, index, ordered["id"].to_numpy(), sessions)


def _documents(
    log: BackgroundLog, settings: ShortcutsSettings
) -> tuple[bool, pl.DataFrame, pl.DataFrame]:
    """How many sessions end in each known query, and which queries they hold how often.

    Before them, whether only clicked ends were taken: the log decides where that is left open. A
    session belongs to the day of its last query. Its age changes how much its ending weighs,
    not what the index says of its words; outside the window it is left out.
    """
    every = _ends(log)
    clicked = every.filter(nw.col("clicks") > 0)
    ages = log.ages(settings) or Ages(settings, date.max)
    ends = every if settings.satisfactory is False else clicked
    endings = _weighed(ends, ages)
    if endings.is_empty() and settings.satisfactory is None:
        ends, endings = every, _weighed(every, ages)
    if endings.is_empty():
        raise InputError(
            f"{log.data.path}: no session ends in a known query that was clicked; "
            "take all sessions with `satisfactory=false`"
        )
    taken = ends.select("session", "ending", DAY)
    held = log.rows().select("session", "query").join(taken, on="session", how="inner")
    counted = collected(held.group_by("ending", "query", DAY).agg(nw.len().alias("count")))
    texts = counted.filter(ages.within()).group_by("ending", "query").agg(pl.col("count").sum())
    return ends is clicked, endings, texts


def _ends(log: BackgroundLog) -> Any:
    """The known queries in which sessions end, with their days and clicks."""
    rows = with_day(log.rows())
    lasts = rows.group_by("session").agg(nw.col("position").max())
    ends = rows.join(lasts, on=["session", "position"], how="inner").join(
        log.table(log.known(), "known"), on="query", how="inner"
    )
    return ends.select("session", nw.col("query").alias("ending"), DAY, "clicks")


def _weighed(ends: Any, ages: Ages) -> pl.DataFrame:
    daily = collected(ends.group_by("ending", DAY).agg(nw.len().alias("count")))
    return ages.weigh(daily, ["ending"])


def _index(
    texts: pl.DataFrame,
    places: dict[str, int],
    background: Background,
    settings: ShortcutsSettings,
) -> Index:
    """A BM25 index with a document an ending; its words have the background's numbers."""
    documents: list[list[int]] = [[] for _ in places]
    for ending, query, count in texts.sort("ending", "query").iter_rows():
        words = (background.words.get(word) for word in query.split())
        documents[places[ending]] += [word for word in words if word is not None] * count
    names = {background.words.restore_key(word): word for word in range(len(background.words))}
    made = bm25s.BM25(k1=settings.k1, b=settings.b)
    tokens = bm25s.tokenization.Tokenized(ids=documents, vocab=names)
    made.index(tokens, create_empty_token=False, show_progress=False)
    return Index(made.scores["data"], made.scores["indices"], made.scores["indptr"])
