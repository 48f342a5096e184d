"""Fields of JSON objects, one object per line.

A field is named by its path (`search.query`), which may be nested objects or a key with dots in
it, and the whole object may stand under `_source`, as search engines export it.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import polars as pl

from nextquery.logs.reading import rejected_rows
from nextquery.logs.reading.samples import Sample

if TYPE_CHECKING:
    import duckdb

_DEEPEST = 8
"""No format has a field below so many objects."""


def sample_objects(sample: Sample) -> list[dict[str, Any]]:
    """The objects in the first lines of a file, if most of its lines are objects."""
    found = []
    for line in sample.lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            source = value.get("_source")
            found.append(source if isinstance(source, dict) else value)
    return found if len(found) * 2 > len(sample.lines) else []


def sample_paths(sample: Sample) -> set[str]:
    """The paths of all fields in the first lines of a file; none unless most are objects.

    >>> from pathlib import Path
    >>> sorted(sample_paths(Sample(Path("log"), ('{"search": {"query": "red"}}',))))
    ['search', 'search.query']
    """
    return {path for each in sample_objects(sample) for path in _paths(each)}


def _paths(value: Mapping[str, Any], prefix: str = "", depth: int = 1) -> Iterable[str]:
    for name, inner in value.items():
        yield prefix + name
        if isinstance(inner, dict) and depth < _DEEPEST:
            yield from _paths(inner, f"{prefix}{name}.", depth + 1)


def extract_fields(lines: pl.DataFrame, paths: Mapping[str, str]) -> pl.DataFrame:
    """Add a string column for each path, and reasons for lines that are no JSON object.

    Only scalars count: where a path leads to an object or a list, the field is missing.
    """
    variants = {name: _variants(path, lines["text"]) for name, path in paths.items()}
    places = [place for group in variants.values() for place in group]
    found = _look_up(lines.select("text"), places)
    values = {
        name: pl.coalesce(_scalar(places.index(place)) for place in group)
        for name, group in variants.items()
    }
    fault = pl.when(~pl.col("is_object")).then(pl.lit(rejected_rows.NOT_JSON))
    fields = found.select(fault.alias("fault"), **values)
    has_nul = pl.any_horizontal(pl.col(*paths).str.contains("\0", literal=True).fill_null(False))
    return (
        pl.concat([lines, fields], how="horizontal")
        .with_columns(
            pl.coalesce("reason", "fault", pl.when(has_nul).then(pl.lit(rejected_rows.NUL_BYTE)))
        )
        .drop("fault")
    )


@cache
def _database() -> "duckdb.DuckDBPyConnection":
    """One database for all blocks, since opening one takes longer than parsing many lines."""
    import duckdb  # not loaded for logs that are no JSON

    return duckdb.connect(config={"threads": 1})


def _look_up(texts: pl.DataFrame, places: list[str]) -> pl.DataFrame:
    """Columns is_object, values and kinds; the two lists follow `places`."""
    wanted = ", ".join("'" + place.replace("'", "''") + "'" for place in places)
    with _database().cursor() as connection:
        connection.register("texts", texts.to_arrow())
        found: pl.DataFrame = connection.sql(
            f"""
            SELECT coalesce(json_type(object) = 'OBJECT', false) AS is_object,
                   json_extract_string(object, [{wanted}]) AS values,
                   json_type(object, [{wanted}]) AS kinds
            FROM (SELECT CASE WHEN json_valid(text) THEN text END AS object FROM texts)
            """
        ).pl()
    return found


def _scalar(position: int) -> pl.Expr:
    kind = pl.col("kinds").list.get(position)
    return pl.when(~kind.is_in(["OBJECT", "ARRAY", "NULL"])).then(
        pl.col("values").list.get(position)
    )


def _variants(path: str, texts: pl.Series) -> list[str]:
    """The places where a field may stand: nested or dotted, bare or under `_source`.

    Spellings whose key occurs in none of the texts are left out, since each costs time.
    """
    roots = ["", "_source."] if _occurs("_source", texts) else [""]
    found = []
    for choice in path.split("|"):
        spellings = [".".join(f'"{key}"' for key in choice.split("."))]
        if "." in choice and _occurs(choice, texts):
            spellings.append(f'"{choice}"')
        found += [f"$.{root}{spelling}" for spelling in spellings for root in roots]
    return found


def _occurs(key: str, texts: pl.Series) -> bool:
    return bool(texts.str.contains(f'"{key}"', literal=True).any())
