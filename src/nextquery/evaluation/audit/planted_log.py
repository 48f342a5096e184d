"""A copy of a data folder with planted sessions: what a model would be had somebody typed them.

Knows the files of a prepared data folder. The planted sessions stand behind the others in the
background, as if they had been typed on its last day and their last query clicked; the count tables
are counted again. They come after cleaning, so that no rule of `prepare` but the k-user rule stands
in their way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nextquery.artifacts import publish, write_text
from nextquery.evaluation.user_subsets import count_tables
from nextquery.logs.data_folder import PreparedData


@dataclass(frozen=True)
class PlantedSession:
    """The queries of a made-up person."""

    user: str
    queries: tuple[str, ...]


def write_planted(
    data: PreparedData, out: Path, sessions: Sequence[PlantedSession], min_users: int
) -> PreparedData:
    """Publish the folder `out`: that of `data` with the sessions, under a K of `min_users`."""
    manifest = data.artifact.manifest
    background = data.session_rows("background").collect()
    rows = pl.concat([background, _rows(background, sessions)]) if sessions else background
    counts = dict(manifest["counts"])
    for name, number in (("sessions", rows["session"].n_unique()), ("queries", len(rows))):
        counts[name] = {**counts.get(name, {}), "background": number}
    settings = {**manifest["settings"], "min_users": min_users}
    with publish(out, "data", {"counts": counts, "settings": settings}) as folder:
        for split in data.splits:
            found = rows if split == "background" else data.session_rows(split).collect()
            _write(found, folder / "sessions" / split / "part-00000.parquet")
        _write_counts(rows, data, folder, min_users)
    return PreparedData(out)


def _rows(background: pl.DataFrame, sessions: Sequence[PlantedSession]) -> pl.DataFrame:
    first = int(background["session"].max()) + 1  # type: ignore[arg-type]
    start: Any = background["time"].max()
    planted = pl.DataFrame(
        {
            "session": range(first, first + len(sessions)),
            "user": [session.user for session in sessions],
            "query": [list(session.queries) for session in sessions],
        }
    ).explode("query")
    position = pl.int_range(pl.len()).over("session")
    last = position == pl.len().over("session") - 1
    times = pl.lit(start) - pl.duration(minutes=2) * (pl.len().over("session") - 1 - position)
    made = planted.with_columns(position=position, time=times, clicks=last)
    return made.select(pl.col(name).cast(kind) for name, kind in background.schema.items())


def _write_counts(rows: pl.DataFrame, data: PreparedData, folder: Path, min_users: int) -> None:
    tables = count_tables(rows, min_users)
    known = tables["queries"].lazy().select("query")
    tables["clicks"] = data.counts("clicks").join(known, on="query", how="semi").collect()
    for name, table in tables.items():
        _write(table, folder / "counts" / f"{name}.parquet")
    limit = int(data.artifact.manifest["settings"].get("vocabulary_size", len(tables["words"])))
    words = tables["words"]["word"].head(limit).to_list()
    write_text(folder / "vocabulary.txt", "".join(f"{word}\n" for word in words))


def _write(rows: pl.DataFrame, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    rows.write_parquet(file)
