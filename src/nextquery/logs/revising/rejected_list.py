"""The list of rejected rows, read back and written again without some of them."""

import gzip
import io
from pathlib import Path

import polars as pl

from nextquery.logs.reading import rejected_rows
from nextquery.logs.reading.rejected_rows import RejectedRows
from nextquery.logs.revising.kept_rows import Places

_LISTED = {"file": pl.String, "line": pl.Int64, "reason": pl.String, "excerpt": pl.String}


def read_list(listed: Path, owners: Path) -> pl.DataFrame:
    """The listed rows with what is known of each: place, user and time."""
    text = gzip.decompress(listed.read_bytes())
    rows = pl.DataFrame(schema=_LISTED)
    if text:
        rows = pl.read_ndjson(io.BytesIO(text), schema=_LISTED)
    return pl.concat([rows, pl.read_parquet(owners)], how="horizontal")


def write_list(rows: pl.DataFrame, places: Places, file: Path, excerpts: bool) -> dict[str, int]:
    """Write the list without the rows at the removed places; returns how many went, by reason."""
    gone = rows["place"].is_in(places.removed.tolist())
    kept = _in_order(rows.filter(~gone))
    moved = kept.with_columns(places.moved(kept["place"]), places.lines(kept["place"]))
    with RejectedRows(file, excerpts) as rejected:
        rejected.write(moved)
    return dict(rows.filter(gone)["reason"].value_counts().iter_rows())


def count_unattributed(rows: pl.DataFrame) -> int:
    """How many listed rows show an excerpt and name nobody."""
    return rows.filter(pl.col("user").is_null() & pl.col("excerpt").is_not_null()).height


def _in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """As one reading lists them: rows that a join left out come last; a reason's list ends."""
    late = pl.col("reason").is_in([rejected_rows.UNKNOWN_QUERY, rejected_rows.TYPED_FURTHER])
    ordered = rows.sort(late, maintain_order=True)
    number = pl.int_range(pl.len()).over("reason")
    return ordered.filter(number < rejected_rows.MOST_LISTED)
