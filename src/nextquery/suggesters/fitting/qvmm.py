"""Fitting QVMM: sequences of queries, counted and grown into a tree."""

import polars as pl

from nextquery.suggesters.fitting.background import count_background, heaviest_first
from nextquery.suggesters.fitting.sequences import BackgroundLog, following
from nextquery.suggesters.fitting.tree_growth import grow_tree
from nextquery.suggesters.fitting.useful import useful_factors, weigh_symbols
from nextquery.suggesters.qvmm import QVMM, QVMMSettings


def fit_qvmm(log: BackgroundLog, settings: QVMMSettings) -> QVMM:
    """Count sequences of every length up to the depth and grow the tree."""
    background = count_background(log.data)
    known = log.known()
    ids = pl.Series("symbol", background.ids(known["query"].to_list()))
    ages = log.ages(settings)
    rows = log.symbols(known.with_columns(ids), by_day=settings.ages)
    levels = following(log, rows, settings.depth, ages)
    tree = grow_tree(
        weigh_symbols(levels, useful_factors(log, background, settings.useful_weight)),
        background.counts,
        heaviest_first(background, background.counts),
        pruning=settings.pruning,
        escape=settings.escape,
    )
    return QVMM(settings, background, tree)
