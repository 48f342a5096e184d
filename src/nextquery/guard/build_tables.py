"""Making the tables of `guard_tables.py` from a prepared log.

Apart from reading them, which a serving process does without any of the log's machinery.
"""

import hashlib
import json
from pathlib import Path

import marisa_trie
import numpy as np
import polars as pl

from nextquery.artifacts import write_text
from nextquery.guard.fingerprints import RareSet, pair_keys, text_keys
from nextquery.guard.guard_tables import COUNT_FORMAT, FOLDER
from nextquery.logs.data_folder import PreparedData


def write_tables(data: PreparedData, folder: Path) -> None:
    """Write the tables for `data` into `folder/guard/`, the same bytes for the same data."""
    target = folder / FOLDER
    target.mkdir()
    secret = _secret(data)
    settings = {"min_users": data.min_users, "key": secret.hex()}
    write_text(target / "settings.json", json.dumps(settings, indent=2) + "\n")
    _write_known(data, target)
    _write_pairs(data, secret, target)
    rare = text_keys(_rare_queries(data), secret)
    RareSet.build(rare).save(target / "rare_queries.npy")
    data.artifact.check_current()  # the last that is read of it: all came from one folder


def _secret(data: PreparedData) -> bytes:
    """A key of its own for every log, so that fingerprints of two logs cannot be compared."""
    sums = json.dumps(data.artifact.manifest["files"], sort_keys=True)
    return hashlib.blake2b(sums.encode(), digest_size=16, person=b"nextquery.guard").digest()


def _write_known(data: PreparedData, target: Path) -> None:
    rows = data.counts("queries").filter(pl.col("users") >= data.min_users).sort("query")
    known = rows.select("query", "count").collect()
    counts = ((count,) for count in known["count"])
    marisa_trie.RecordTrie(COUNT_FORMAT, zip(known["query"], counts, strict=True)).save(
        str(target / "queries.marisa")
    )
    words = data.counts("words").filter(pl.col("users") >= data.min_users).select("word")
    marisa_trie.Trie(sorted(words.collect()["word"])).save(str(target / "words.marisa"))


def _write_pairs(data: PreparedData, secret: bytes, target: Path) -> None:
    pairs = _pair_users(data)
    words = pl.concat([pairs["first"], pairs["second"].alias("first")]).unique().sort()
    keys = pl.DataFrame({"word": words, "key": text_keys(words, secret)})
    joined = pairs.join(keys, left_on="first", right_on="word", maintain_order="left").join(
        keys, left_on="second", right_on="word", suffix="_second", maintain_order="left"
    )
    found = pair_keys(joined["key"].to_numpy(), joined["key_second"].to_numpy())
    rare = (joined["users"] < data.min_users).to_numpy()
    np.save(target / "common_pairs.npy", np.sort(found[~rare]), allow_pickle=False)
    RareSet.build(found[rare]).save(target / "rare_pairs.npy")


def _pair_users(data: PreparedData) -> pl.DataFrame:
    """How many users typed each pair of adjacent words of the background, however few."""
    pairs = data.counts("word_pairs").select("first", "second", "users")
    return pairs.sort("first", "second").collect()


def _rare_queries(data: PreparedData) -> pl.Series:
    """The background's queries of two or more words that fewer than K users typed."""
    return (
        data.session_rows("background")
        .filter(pl.col("query").str.contains(" ", literal=True))
        .group_by("query")
        .agg(pl.col("user").n_unique().alias("users"))
        .filter(pl.col("users") < data.min_users)
        .select("query")
        .collect(engine="streaming")["query"]
        .sort()
    )
