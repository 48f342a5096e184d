"""The journal: a log's accepted rows after cleaning, from which all other tables can be made again.

    journal/rows.parquet        place, user (pseudonym), time, query, click, drop
    journal/rejected.parquet    place, user, time of each row that `rejected.ndjson.gz` lists

`place` counts the rows of all files from 1, headers included. A query that cleaning dropped has no
text here, only the reason. So a person can be forgotten and days can be added without the log.
"""

from pathlib import Path

import narwhals as nw

from nextquery.logs.engines import table_schemas
from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.stages.cleaning import DROP_REASONS
from nextquery.logs.stages.event_rows import Events, RowCounts, Texts

ROWS = "journal/rows.parquet"
REJECTED_OWNERS = "journal/rejected.parquet"


def write_journal(
    engine: Engine, rows: Frame, texts: Texts, file: Path, reasons: Frame | None = None
) -> None:
    """Write rows (user_id, time, row, place, query_id, url_id, drop), in the order of `row`.

    With `reasons` (raw_id, drop) rows have `raw_id` instead of `drop`.
    """
    # A query that was dropped has no id, and what was clicked for it is not kept either.
    kept = nw.when(~nw.col("query_id").is_null()).then(nw.col("url_id"))
    by_id = {"query_id": texts.queries, "user_id": texts.users, "url_id": texts.urls}
    if reasons is not None:
        by_id["raw_id"] = reasons
    engine.write(rows.with_columns(url_id=kept), file, table_schemas.JOURNAL, ["row"], by_id)
    file.chmod(0o600)


def read_journal(
    engine: Engine, folder: Path, held_out: nw.Expr, journal: Path
) -> tuple[Events, RowCounts]:
    """The rows of a folder of journal parts (with `row`), and the same written to `journal`."""
    ids = {"query": "query_id", "user": "user_id", "click": "url_id"}
    coded, (queries, users, urls) = engine.scan_encoded(folder, ids, ("user",))
    numbered = users.with_columns(user=nw.col("user").cast(nw.Int64)).with_columns(
        held_out=held_out
    )
    known = engine.materialise(numbered, "known_users")
    names = engine.materialise(users.select("user_id", "user"), "pseudonyms")
    texts = Texts(names, queries, urls)
    write_journal(engine, coded, texts, journal)
    kept = coded.filter(nw.col("drop").is_null())
    kept = engine.lookup(kept, known.select("user_id", "held_out"), "user_id")
    kept = kept.select("user_id", "held_out", "time", "row", "query_id", "url_id")
    counts = RowCounts(int(users.select(nw.len()).collect("pyarrow").item()), _dropped(coded))
    return Events(engine.materialise(kept, "events"), texts), counts


def _dropped(rows: Frame) -> dict[str, int]:
    dropped = rows.filter(~nw.col("drop").is_null())
    found = dropped.group_by("drop").agg(rows=nw.len()).select("drop", "rows").collect("pyarrow")
    counts = dict(found.rows())
    return {reason: int(counts.get(reason, 0)) for reason in DROP_REASONS}
