"""Adding days to a data folder, and letting old ones go."""

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from nextquery.errors import InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.reading.compression import find_files
from nextquery.logs.reading.rejected_rows import printable
from nextquery.logs.revising.kept_rows import Removal
from nextquery.logs.revising.revise import Revision, revise
from nextquery.logs.tables import Progress

_MOST_DAYS = 100_000


def update(
    data: Path,
    logs: Sequence[str | Path],
    out: Path | None = None,
    *,
    keep_days: int | None = None,
    new_only: bool = False,
    progress: Progress = lambda stage, share: None,
) -> Revision:
    """Add the rows of new logs to a data folder, or write `out` with them.

    With `keep_days` the rows of older days go, those of the last day in the log included in the
    number; days are those of UTC. With `new_only` files that the folder has already, told by their
    names, are left out, so that a job which is run again adds nothing twice.

    >>> import nextquery
    >>> data = nextquery.prepare(LOG, "data", spelling=False)
    >>> added = update(Path("data"), [LOG], Path("twice")).rows_added
    >>> added == data.artifact.entry("counts")["rows_read"]
    True
    """
    if keep_days is not None and not 1 <= keep_days <= _MOST_DAYS:
        raise InputError(f"`keep_days`: must be 1 or more, and at most {_MOST_DAYS:,}")
    if not logs and keep_days is None:
        raise InputError("nothing to do: give logs to add, or `keep_days`")
    if new_only:
        logs = _not_added_yet(data, logs)
        if not logs and keep_days is None and out is None:
            return _unchanged(data)

    def choose(rows: pl.LazyFrame) -> Removal:
        return Removal(before=_first_kept(rows, keep_days))

    def note(users: int) -> dict[str, Any]:
        kept = {} if keep_days is None else {"keep_days": keep_days}
        return {"added_files": len(logs), **kept}

    return revise(data, data if out is None else out, logs, choose, note, progress)


def _not_added_yet(data: Path, logs: Sequence[str | Path]) -> list[str | Path]:
    known = {file["file"] for file in PreparedData(data).artifact.manifest.get("logs", ())}
    addresses = [log for log in logs if "://" in str(log) and str(log) not in known]
    files = find_files([Path(log) for log in logs if "://" not in str(log)])
    return [*addresses, *(file for file in files if printable(file) not in known)]


def _unchanged(data: Path) -> Revision:
    manifest = PreparedData(data).artifact.manifest
    return Revision(0, 0, 0, 0, manifest["counts"], manifest.get("revisions", ()))


def _first_kept(rows: pl.LazyFrame, keep_days: int | None) -> datetime | None:
    """The first moment of the days that are kept."""
    if keep_days is None:
        return None
    last = rows.select(pl.col("time").max()).collect(engine="streaming").item()
    midnight = datetime.combine(last, time.min)
    return midnight - timedelta(days=min(keep_days - 1, (midnight - datetime(1900, 1, 1)).days))
