"""Exporting a model: one folder of files for an engine or a page, complete or not at all."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nextquery.artifacts import publish
from nextquery.errors import InputError
from nextquery.export.engines import ENGINES
from nextquery.export.exported import exported_queries
from nextquery.export.settings import ExportSettings
from nextquery.export.static import write_static
from nextquery.suggesters.base import Suggester

KIND = "export"
STATIC = "static"
TARGETS = (*ENGINES, STATIC)


@dataclass(frozen=True)
class ExportFacts:
    """What an export holds."""

    target: str
    queries: int
    next_queries: int


def export_model(
    model: Suggester, target: str, out: Path, settings: ExportSettings | None = None
) -> ExportFacts:
    """Write the suggestions of a model for `target` into the folder `out`.

    >>> import nextquery
    >>> data = nextquery.prepare(LOG, "data", spelling=False)
    >>> model = nextquery.fit(data, "adjacency", "adjacency")
    >>> export_model(nextquery.load("adjacency"), "json", Path("out")).target
    'json'
    """
    if target not in TARGETS:
        raise InputError(f"`to` {target}: must be one of {', '.join(TARGETS)}")
    chosen = settings or ExportSettings()
    queries = list(exported_queries(model, chosen))
    facts = ExportFacts(target, len(queries), sum(len(query.following) for query in queries))
    entries: dict[str, Any] = {"model_kind": model.kind, "settings": asdict(chosen)}
    entries["counts"] = asdict(facts)
    with publish(out, KIND, entries) as folder:
        if target == STATIC:
            write_static(queries, folder)
        else:
            ENGINES[target](queries, folder)
    return facts
