"""Prepared data folders made from a few sessions, in the layout of `logs/prepared.py`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nextquery.artifacts import publish
from nextquery.logs.prepared import PreparedData


@dataclass(frozen=True)
class TinyLog:
    """Background sessions as (user, queries); clicks as (user, query, url); K of the rule."""

    sessions: Sequence[tuple[str, Sequence[str]]]
    clicks: Sequence[tuple[str, str, str]] = ()
    min_users: int = 1
    days: Sequence[int] = field(default_factory=tuple)
    """The day of each session; all on day 0 when empty."""
    parts: int = 1
    """How many files the sessions are spread over."""
    reverse: bool = False
    """Whether rows and tables are written in the opposite order."""


DataMaker = Callable[[TinyLog], PreparedData]


@pytest.fixture(scope="session")
def tiny_log() -> type[TinyLog]:
    return TinyLog


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> DataMaker:
    def make(log: TinyLog) -> PreparedData:
        target = tmp_path_factory.mktemp("data")
        sessions = {"background": len(log.sessions)}
        entries = {"settings": {"min_users": log.min_users}, "counts": {"sessions": sessions}}
        with publish(target, "data", entries) as folder:
            _write_sessions(folder, log)
            _write_counts(folder, log)
        return PreparedData(target)

    return make


def _rows(log: TinyLog) -> pl.DataFrame:
    clicked = [(user, query) for user, query, _ in log.clicks]
    days = log.days or [0] * len(log.sessions)
    rows = [
        {
            "session": number,
            "position": position,
            "user": user,
            "time": datetime(2024, 1, 1) + timedelta(days=day, minutes=position),
            "query": query,
            "clicks": clicked.count((user, query)),
        }
        for number, ((user, queries), day) in enumerate(zip(log.sessions, days, strict=True))
        for position, query in enumerate(queries)
    ]
    whole: dict[str, Any] = {"session": pl.Int64, "position": pl.Int32, "clicks": pl.Int32}
    return pl.DataFrame(rows, schema_overrides=whole)


def _write_sessions(folder: Path, log: TinyLog) -> None:
    target = folder / "sessions" / "background"
    target.mkdir(parents=True)
    rows = _rows(log)
    for part in range(log.parts):
        mine = rows.filter(pl.col("session") % log.parts == part)
        mine = mine.reverse() if log.reverse else mine
        mine.write_parquet(target / f"part-{part:05}.parquet")


def _write_counts(folder: Path, log: TinyLog) -> None:
    (folder / "counts").mkdir()
    rows = _rows(log).select("session", "user", "query")
    common = pl.col("users") >= log.min_users
    queries = _counted(rows, "query").filter(common)
    words = rows.with_columns(word=pl.col("query").str.split(" ")).explode("word")
    following = rows.with_columns(next=pl.col("query").shift(-1).over("session"))
    pairs = _counted(following.drop_nulls().rename({"query": "anchor"}), "anchor", "next")
    clicks = pl.DataFrame(
        list(log.clicks), {"user": pl.String, "query": pl.String, "url": pl.String}, orient="row"
    )
    second = pl.col("word").shift(-1).over("session", "query")
    word_pairs = words.with_columns(second=second).drop_nulls().rename({"word": "first"})
    tables = {
        "queries": queries,
        "words": _counted(words, "word").filter(common),
        "word_pairs": _counted(word_pairs, "first", "second"),
        "followers": pairs.join(queries, left_on="anchor", right_on="query", how="semi").join(
            queries, left_on="next", right_on="query", how="semi"
        ),
        "clicks": _counted(clicks, "query", "url").join(queries, on="query", how="semi"),
    }
    for name, table in tables.items():
        ordered = table.sort(pl.all())
        written = ordered.reverse() if log.reverse else ordered
        written.write_parquet(folder / "counts" / f"{name}.parquet")


def _counted(rows: pl.DataFrame, *keys: str) -> pl.DataFrame:
    return rows.group_by(keys).agg(pl.len().alias("count"), users=pl.col("user").n_unique())
