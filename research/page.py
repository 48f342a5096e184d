"""The pages of docs/results with their tables written anew, between markers.

A table begins with `<!-- table: NAME -->` and ends with `<!-- end -->`; NAME is a key of `TABLES`.
The lines between the markers are written here and nowhere else.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from research import (
    audit,
    earlier,
    gains,
    list_tables,
    measured_tables,
    presentations,
    size_tables,
    tables,
    transformer_tables,
)

PAGES: tuple[Path, ...] = (
    *(
        tables.RESULTS / f"{name}.md"
        for name in ("index", "aol", "synthetic", "lists", "transformer", "speed", "tested")
    ),
    tables.ROOT / "docs" / "how-to" / "reproduce-the-paper.md",
    tables.ROOT / "docs" / "explanation" / "privacy.md",
    tables.ROOT / "docs" / "explanation" / "synthetic-log.md",
)
_BLOCK = re.compile(r"(<!-- table: ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(text: str) -> str:
    """The page with every table written anew."""
    return _BLOCK.sub(lambda block: f"{block[1]}{TABLES[block[2]]()}\n{block[3]}", text)


def write_all() -> None:
    """Write the tables of all pages."""
    for page in PAGES:
        page.write_text(fill(page.read_text()))


TABLES: Mapping[str, Callable[[], str]] = {
    "paper protocol": gains.paper_protocol,
    "variants": gains.variants,
    "power": gains.power,
    "encoder": tables.encoder,
    "aol known": tables.known_visitors,
    "aol new": tables.new_visitors,
    "aol positions": size_tables.positions,
    "aol contexts": size_tables.contexts,
    "earlier rankers": earlier.rankers,
    "earlier letters": earlier.letters,
    "synthetic gains": tables.synthetic_gains,
    "synthetic lengths": tables.by_length,
    "synthetic contexts": tables.by_context,
    "control": lambda: tables.synthetic_gains("control"),
    "presentations": presentations.shown,
    "log sizes": size_tables.sizes,
    "growth": measured_tables.growth,
    "serving": measured_tables.serving,
    "softmax": measured_tables.softmax,
    "reproduction": measured_tables.reproduction,
    "reproduction training": measured_tables.reproduction_training,
    "experiment time": measured_tables.experiment_time,
    "grids": measured_tables.grids,
    "data": measured_tables.data,
    "audit exposures": audit.exposures,
    "audit poisoning": audit.poisoning,
    "headroom": measured_tables.headroom,
    "returning": list_tables.returning,
    "first lists": list_tables.first_lists,
    "list kinds": list_tables.list_kinds,
    "list variants": list_tables.variants,
    "transformer training": transformer_tables.training,
    "transformer gains": transformer_tables.gains,
    "transformer lengths": transformer_tables.lengths,
    "transformer queries seen": transformer_tables.queries_seen,
    "transformer curve": transformer_tables.curve,
    "transformer intents": transformer_tables.intents,
    "transformer lists": transformer_tables.lists,
    "transformer cost": transformer_tables.cost,
}
"""Every table by name."""
