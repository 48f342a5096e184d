"""A data folder with some of the users only: for models that must not have seen the others.

Knows the files of a prepared data folder. If the background loses users, the count tables are
counted again. Which user clicked what is not in a data folder: `clicks` is left empty then, so such
a subset serves every model but CACB.
"""

import shutil
from collections.abc import Callable, Collection
from pathlib import Path

import polars as pl

from nextquery.artifacts import publish, write_text
from nextquery.logs.data_folder import PreparedData

KeepUser = Callable[[str], bool]


def write_user_subset(
    data: PreparedData, out: Path, keep: KeepUser, splits: Collection[str]
) -> PreparedData:
    """Publish the folder `out` with only the users kept in `splits`; other splits stay whole."""
    manifest = data.artifact.manifest
    sessions: dict[str, int] = {}
    queries: dict[str, int] = {}
    entries = {
        "counts": {**manifest["counts"], "sessions": sessions, "queries": queries},
        "settings": manifest["settings"],
    }
    with publish(out, "data", entries) as folder:
        for split in data.splits:
            rows = data.session_rows(split).collect()
            rows = _kept(rows, keep) if split in splits else rows
            sessions[split], queries[split] = rows["session"].n_unique(), len(rows)
            _write(rows, folder / "sessions" / split / "part-00000.parquet")
            if split == "background" and split in splits:
                _write_counts(rows, data, folder)
        if "background" not in splits:
            shutil.copytree(data.path / "counts", folder / "counts")
            shutil.copyfile(data.path / "vocabulary.txt", folder / "vocabulary.txt")
    return PreparedData(out)


def _kept(rows: pl.DataFrame, keep: KeepUser) -> pl.DataFrame:
    users = [user for user in rows["user"].unique().to_list() if keep(user)]
    return rows.filter(pl.col("user").is_in(users))


def _write_counts(rows: pl.DataFrame, data: PreparedData, folder: Path) -> None:
    tables = count_tables(rows, data.min_users)
    tables["clicks"] = data.counts("clicks").head(0).collect()
    for name, table in tables.items():
        _write(table, folder / "counts" / f"{name}.parquet")
    limit = int(data.artifact.manifest["settings"]["vocabulary_size"])
    words = tables["words"]["word"].head(limit).to_list()
    write_text(folder / "vocabulary.txt", "".join(f"{word}\n" for word in words))


def count_tables(rows: pl.DataFrame, min_users: int) -> dict[str, pl.DataFrame]:
    """The tables queries, words, word_pairs and followers of background rows, as `prepare` has."""
    known = pl.col("users") >= min_users
    queries = _count(rows, ["query"]).filter(known)
    words = rows.select("user", word=pl.col("query").str.split(" ")).with_row_index("place")
    spelt = words.explode("word")
    same = pl.col("place") == pl.col("place").shift(-1)
    pairs = spelt.select(
        "user", first="word", second=pl.when(same).then(pl.col("word").shift(-1))
    ).drop_nulls("second")
    following = pl.col("query").shift(-1).over("session", order_by="position")
    follows = rows.select("user", anchor="query", next=following).drop_nulls("next")
    for column in ("anchor", "next"):
        follows = follows.join(queries.select(pl.col("query").alias(column)), column, how="semi")
    return {
        "queries": queries,
        "words": _count(spelt, ["word"]).filter(known),
        "word_pairs": _count(pairs, ["first", "second"]),
        "followers": _count(follows, ["anchor", "next"]),
    }


def _count(rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """How often and by how many users; highest count first, then by text."""
    counted = rows.group_by(keys).agg(
        count=pl.len().cast(pl.Int64), users=pl.col("user").n_unique().cast(pl.Int64)
    )
    return counted.sort(["count", *keys], descending=[True, *(False for _ in keys)])


def _write(rows: pl.DataFrame, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    rows.write_parquet(file)
