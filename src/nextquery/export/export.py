"""Exporting a model: one folder of files for an engine or a page, published atomically."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nextquery.artifacts import check_target, publish
from nextquery.errors import InputError, require
from nextquery.export.lists import (
    ENGINES,
    ExportSettings,
    StaticQuality,
    exported_queries,
    measure_static,
    write_static,
)
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.base import Suggester

KIND = "export"
STATIC = "static"
ONNX = "onnx"
LIST_TARGETS = (*ENGINES, STATIC)
"""Targets that take lists, which any model has."""
TARGETS = (*LIST_TARGETS, ONNX)


@dataclass(frozen=True)
class ExportFacts:
    """The contents of an export."""

    target: str
    queries: int
    next_queries: int
    largest_difference: float | None = None
    """ONNX: between log-likelihoods of the graphs and of the model."""
    quality: StaticQuality | None = None
    """Static lists: how they compare with the model, if it was measured."""


def export_model(
    model: Suggester,
    target: str,
    out: Path,
    settings: ExportSettings | None = None,
    measure: Path | None = None,
) -> ExportFacts:
    """Write the suggestions of a model for `target` into the folder `out`.

    `measure` is a data folder; its test sessions compare static lists with the model.

    >>> import nextquery
    >>> data = nextquery.prepare(LOG, "data", spelling=False)
    >>> model = nextquery.fit(data, "adjacency", "adjacency")
    >>> export_model(nextquery.load("adjacency"), "json", Path("out")).target
    'json'
    """
    if target not in TARGETS:
        raise InputError(f"`to` {target}: must be one of {', '.join(TARGETS)}")
    if measure is not None and target != STATIC:
        raise InputError(f"`measure` is for static lists, not for {target}")
    check_target(out, KIND)
    data = None if measure is None else PreparedData(measure)
    chosen = settings or ExportSettings()
    entries: dict[str, Any] = {"model_kind": model.kind, "settings": asdict(chosen)}
    if target == ONNX:
        require(ONNX)
        from nextquery.export.onnx import write_onnx  # needs an extra of its own

        with publish(out, KIND, entries) as folder:
            known_queries, difference = write_onnx(model, folder, chosen)
            facts = ExportFacts(ONNX, known_queries, 0, difference)
            entries["counts"] = asdict(facts)
        return facts
    queries = list(exported_queries(model, chosen))
    facts = ExportFacts(target, len(queries), sum(len(query.following) for query in queries))
    entries["counts"] = asdict(facts)
    with publish(out, KIND, entries) as folder:
        if target == STATIC:
            write_static(queries, folder)
            if data is not None:
                facts = replace(facts, quality=measure_static(folder, model, data))
                data.artifact.check_current()
                entries["counts"] = asdict(facts)
        else:
            ENGINES[target](queries, folder)
    return facts
