"""Every promise about safety as a row: what was tried, what held, and a control that must fail.

Each area of the program is a module of `promises/` with functions that give `Row`s. The quick form
takes under two minutes and runs in the tests; the full form is what docs/reliability.md shows.
`NEXTQUERY_RELIABILITY=area,area` runs some areas only; `NEXTQUERY_RELIABILITY_TABLE=FILE` also
writes the table as Markdown.
"""

import importlib
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from promises.rows import Row

AREAS = ("artifacts", "commands", "logs", "guards", "service", "pages")


def main(quick: bool) -> dict[str, Any]:
    """Run the areas; a test that breaks is a promise not kept, and says why."""
    wanted = os.environ.get("NEXTQUERY_RELIABILITY", "")
    areas = [area for area in AREAS if not wanted or area in wanted.split(",")]
    table = os.environ.get("NEXTQUERY_RELIABILITY_TABLE")
    rows: list[Row] = []
    seconds: dict[str, float] = {}
    processor: dict[str, float] = {}
    for area in areas:
        start = time.perf_counter()
        for test in importlib.import_module(f"promises.{area}").TESTS:
            before = _processor_seconds()
            rows += _run(area, test, quick)
            processor[f"{area}: {test.__name__}"] = round(_processor_seconds() - before, 1)
            if table:  # what a long run has found is kept when it is ended
                Path(table).write_text(as_markdown(rows), encoding="utf-8")
        seconds[area] = round(time.perf_counter() - start, 1)
    return {
        "promises": len(rows),
        "kept": sum(row.kept for row in rows),
        "broken": [f"{row.area}: {row.promise}" for row in rows if not row.kept],
        "seconds": seconds,
        "processor_seconds": processor,
        "rows": [asdict(row) for row in rows],
    }


def _processor_seconds() -> float:
    """Of this process and of all that it has waited for."""
    return sum(os.times()[:4])


def as_markdown(rows: Iterable[Row]) -> str:
    """The table of docs/reliability.md."""
    lines = ["| area | promise | held | control that must fail | failed |", "|---|---|---|---|---|"]
    for row in rows:
        note = f" ({row.note})" if row.note else ""
        lines.append(
            f"| {row.area} | {row.promise}{note} | {row.held:,} of {row.tried:,} "
            f"| {row.control} | {row.control_failed:,} |"
        )
    return "\n".join(lines) + "\n"


def _run(area: str, test: Callable[[bool], Iterable[Row] | Row], quick: bool) -> list[Row]:
    try:
        found = test(quick)
        return [found] if isinstance(found, Row) else list(found)
    except Exception as error:  # one broken test must not hide the others
        name = test.__name__.replace("_", " ")
        return [Row(area, name, 1, 0, "", 0, f"the test itself failed: {error!r}")]
