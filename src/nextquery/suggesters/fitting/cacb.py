"""Fitting CACB: concepts found by clicks or words, then sequences of them."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nextquery.errors import InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.background import Background
from nextquery.suggesters.cacb import CACB, CACBSettings, Concepts
from nextquery.suggesters.fitting.background import count_background, frequency_ranks
from nextquery.suggesters.fitting.concepts import find_concepts, unit_vectors
from nextquery.suggesters.fitting.sequences import BackgroundLog, following, without_repeats
from nextquery.suggesters.fitting.tree_growth import grow_tree
from nextquery.suggesters.fitting.useful import useful_counts, weigh_symbols


def fit_cacb(log: BackgroundLog, settings: CACBSettings) -> CACB:
    """Find the concepts, then count sequences of them."""
    background = count_background(log.data)
    concepts = _concepts(log.data, settings, background)
    known = log.known()
    symbols = concepts.of_query[background.ids(known["query"].to_list())]
    ages = log.ages(settings)
    named = known.with_columns(symbol=pl.Series(symbols))
    rows = without_repeats(log.symbols(named, by_day=settings.ages))
    factors = None
    if settings.useful_weight > 1:
        useful = useful_counts(log, background)
        factors = useful.factors(settings.useful_weight, concepts.of_query)
    tree = grow_tree(
        weigh_symbols(following(log, rows, settings.depth, ages), factors),
        concepts.counts,
        _by_count(background, concepts),
        pruning=settings.pruning,
        escape=settings.escape,
    )
    return CACB(settings, background, concepts, tree)


def _concepts(data: PreparedData, settings: CACBSettings, background: Background) -> Concepts:
    ranks = frequency_ranks(background)
    edges = _clicks(data, background) if settings.clusters == "clicks" else _words(background)
    ranked = edges.with_columns(rank=pl.Series(ranks[edges["query"].to_numpy()]))
    vectors = unit_vectors(ranked, settings.min_share, settings.max_queries)
    of_rank = find_concepts(vectors, len(ranks), settings.diameter)
    clicks = np.bincount(edges["query"], edges["clicks"], len(ranks))
    preference = np.empty(len(ranks), np.int32)
    preference[np.lexsort((ranks, -clicks))] = np.arange(len(ranks), dtype=np.int32)
    return Concepts.from_queries(of_rank[ranks], background.counts, preference)


def _clicks(data: PreparedData, background: Background) -> pl.DataFrame:
    """A row a query and clicked page: query, dimension, weight, clicks."""
    clicks = data.counts("clicks").select("query", "url", "count").sort("query", "url").collect()
    if clicks.is_empty():
        raise InputError(
            f"{data.path}: the log has no clicks to find concepts by; "
            "group queries by shared words with `clusters=words`"
        )
    return pl.DataFrame(
        {
            "query": background.ids(clicks["query"].to_list()),
            "dimension": clicks["url"].rank("dense").cast(pl.Int64),
            "weight": clicks["count"].cast(pl.Float64),
            "clicks": clicks["count"].cast(pl.Int64),
        }
    )


def _words(background: Background) -> pl.DataFrame:
    """A row a query and word, the word weighing more the fewer queries have it."""
    size = len(background.counts)
    texts = pl.Series("word", map(background.text, range(size)), pl.String)
    words = pl.DataFrame({"query": np.arange(size), "word": texts})
    each = words.with_columns(pl.col("word").str.split(" ")).explode("word").unique()
    rarity = (size / pl.len().over("word")).log() + 1
    return each.sort("query", "word").select(
        "query",
        dimension=pl.col("word").rank("dense").cast(pl.Int64),
        weight=rarity,
        clicks=pl.lit(0, pl.Int64),
    )


def _by_count(background: Background, concepts: Concepts) -> NDArray[np.int32]:
    """The concepts by count, highest first, ties by the text of the most clicked query."""
    first = concepts.members[concepts.offsets[:-1]].tolist()
    texts = pl.Series("text", map(background.text, first), pl.String)
    frame = pl.DataFrame({"text": texts, "count": concepts.counts}).with_row_index("concept")
    ordered = frame.sort("count", "text", descending=[True, False])
    return ordered["concept"].cast(pl.Int32).to_numpy()
