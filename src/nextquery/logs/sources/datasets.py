"""Query logs that `ir_datasets` knows, such as the AOL collection (`aol-ia`), as AOL files.

The library downloads the collection itself, after its terms were accepted.
"""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from nextquery.errors import LogError, MissingDependencyError
from nextquery.logs.formats.aol import HEADER

_LINES = 50_000
_BREAKS = re.compile(r"[\t\r\n]+")


def fetch_dataset(name: str, folder: Path, progress: Callable[[str, float], None]) -> list[Path]:
    """Write the query log of a dataset into one file; an unfinished one is begun again."""
    file = folder / "log.tsv"
    if file.exists():
        return [file]
    logs = _open(name)
    total = max(1, int(logs.qlogs_count() or 1))
    partial = folder / "log.partial"
    with partial.open("w", encoding="utf-8", errors="replace") as stream:
        stream.write(HEADER + "\n")
        for number, log in enumerate(logs.qlogs_iter()):
            stream.writelines(_lines(log))
            if number % _LINES == 0:
                progress("fetching", min(1.0, number / total))
    partial.rename(file)
    return [file]


def _open(name: str) -> Any:
    """The dataset, if it has a query log."""
    try:
        import ir_datasets
    except ModuleNotFoundError:
        raise MissingDependencyError(
            "ir_datasets is not installed: pip install ir_datasets; or give the files of the log"
        ) from None
    try:
        dataset = ir_datasets.load(name)
    except (KeyError, ValueError, OSError) as error:
        raise LogError(f"{name}: ir_datasets cannot load it ({_shown(error)})") from None
    if not dataset.has_qlogs():
        raise LogError(f"{name}: has no query log; aol-ia has one")
    fields = dataset.qlogs_cls()._fields
    if not {"user_id", "query", "time"} <= set(fields):
        raise LogError(f"{name}: its query log has {', '.join(fields)}; no users, times or queries")
    return dataset


def _lines(log: Any) -> Iterator[str]:
    """A row for the query, or one for each click on its results."""
    typed = getattr(log, "query_orig", None) or log.query
    time = log.time.strftime("%Y-%m-%d %H:%M:%S") if isinstance(log.time, datetime) else log.time
    start = f"{_field(log.user_id)}\t{_field(typed)}\t{_field(time)}"
    items = getattr(log, "items", ())
    clicked = [item for item in items if getattr(item, "clicked", False)]
    for item in clicked:
        yield f"{start}\t{getattr(item, 'rank', '')}\t{_field(item.doc_id)}\n"
    if not clicked:
        yield f"{start}\t\t\n"


def _field(value: object) -> str:
    return _BREAKS.sub(" ", str(value))


def _shown(error: Exception) -> str:
    return "".join(filter(str.isprintable, str(error)))[:200] or type(error).__name__
