"""The background of every count model, counted: known queries and words, and their order."""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nextquery.errors import InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.background import Background
from nextquery.suggesters.counts.storage import build_trie


def count_background(data: PreparedData) -> Background:
    """Read the count tables of a prepared folder."""
    queries, counts = _numbered(data, "queries", "query")
    words, word_counts = _numbered(data, "words", "word")
    if not len(queries):
        raise InputError(
            f"{data.path}: no query was typed by {data.min_users} users; "
            "prepare it again with a lower `min_users`"
        )
    return Background(queries, counts, words, word_counts)


def heaviest_first(background: Background, weights: NDArray[Any]) -> NDArray[np.int32]:
    """The queries' numbers ordered by weight, highest first, ties by text."""
    texts = pl.Series("text", map(background.text, range(len(weights))), pl.String)
    frame = pl.DataFrame({"text": texts, "weight": weights}).with_row_index("id")
    ordered = frame.sort("weight", "text", descending=[True, False])
    return ordered["id"].cast(pl.Int32).to_numpy()


def frequency_ranks(background: Background) -> NDArray[np.int32]:
    """The rank of each query by count, ties by text, the most frequent having rank 0."""
    ranks = np.empty(len(background.counts), np.int32)
    ranks[heaviest_first(background, background.counts)] = np.arange(len(ranks), dtype=np.int32)
    return ranks


def _numbered(data: PreparedData, table: str, column: str) -> tuple[Any, NDArray[np.int64]]:
    """A trie over a count table's texts, and the counts in the order of its numbers."""
    rows = data.counts(table).select(column, pl.col("count").cast(pl.Int64)).collect()
    texts = rows[column].to_list()
    trie = build_trie(texts)
    counts = np.zeros(len(texts), np.int64)
    counts[np.fromiter((trie[text] for text in texts), np.int64, len(texts))] = rows["count"]
    return trie, counts
