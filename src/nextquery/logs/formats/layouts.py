"""From a format's name, the wanted columns and a file's first line to where its fields are."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nextquery.errors import LogError
from nextquery.logs.formats.delimited import AOL, EXCITE, DelimitedLayout
from nextquery.logs.formats.detection import FORMATS, GENERIC, Sample
from nextquery.logs.formats.ndjson import ELASTIC, JsonLayout
from nextquery.logs.reading.rows import Layout

_REQUIRED = ("user", "time", "query")
_OWN_LAYOUT: Mapping[str, Layout] = {"excite": EXCITE, "elastic": ELASTIC}
_SEPARATORS = (",", ";", "|")


def check_columns(format: str, columns: Mapping[str, str] | None) -> None:
    """Refuse unknown formats, and columns that are incomplete or given in vain."""
    if format not in ("auto", *FORMATS):
        raise LogError(f"format {format!r} is unknown; choose auto, {', '.join(FORMATS)}")
    if columns is None:
        return
    if format not in ("auto", *GENERIC):
        raise LogError(f"`columns` goes with {', '.join(GENERIC)}; {format} has columns of its own")
    missing = [name for name in _REQUIRED if not columns.get(name)]
    unknown = sorted(columns.keys() - {*_REQUIRED, "click"})
    if missing or unknown:
        wrong = f"lacks {', '.join(missing)}" if missing else f"knows no {', '.join(unknown)}"
        raise LogError(f"`columns` {wrong}; write user=...,time=...,query=...[,click=...]")
    if any('"' in name for name in columns.values()) and format == "ndjson":
        raise LogError("`columns` of an NDJSON log may not hold a double quote")


def layout_of(format: str, columns: Mapping[str, str] | None, sample: Sample) -> Layout:
    """Where the fields of this file are; `format` is any but auto and parquet."""
    if format == "aol":
        return _aol_layout(sample)
    if format in _OWN_LAYOUT:
        return _OWN_LAYOUT[format]
    if format == "ndjson":
        wanted = columns or {name: name for name in (*_REQUIRED, "click")}
        return JsonLayout(wanted["user"], wanted["time"], wanted["query"], wanted.get("click"))
    return _delimited_layout(format, columns, sample)


def _aol_layout(sample: Sample) -> DelimitedLayout:
    """The AOL layout with the header as this file spells it."""
    if sample.lines and AOL.header and sample.lines[0].lower() == AOL.header.lower():
        return replace(AOL, header=sample.lines[0])
    return AOL


def find_columns(
    file: Path, columns: Mapping[str, str] | None, names: Sequence[str]
) -> dict[str, str]:
    """The name of each wanted column; without a choice, columns called user, time and query."""
    wanted = dict(columns) if columns else {name: name for name in _REQUIRED}
    if columns is None and "click" in names:
        wanted["click"] = "click"
    missing = [name for name in wanted.values() if name not in names]
    if missing:
        raise LogError(
            f"{file}: has no column {', '.join(map(repr, missing))}; it has "
            f"{', '.join(names)}: say which with `columns=user=...,time=...,query=...`"
        )
    return wanted


def _delimited_layout(
    format: str, columns: Mapping[str, str] | None, sample: Sample
) -> DelimitedLayout:
    first = sample.lines[0] if sample.lines else ""
    separator = "\t" if format == "tsv" else max(_SEPARATORS, key=first.count)
    quoted = format == "csv"
    names = next(csv.reader([first], delimiter=separator), []) if quoted else first.split(separator)
    if columns and all(name.isdigit() for name in columns.values()):
        places = {field: int(number) - 1 for field, number in columns.items()}
        _check_places(sample.file, places, len(names))
        header = None
    else:
        wanted = find_columns(sample.file, columns, names) if sample.lines else {}
        places = {field: names.index(name) for field, name in wanted.items()}
        header = first
    return DelimitedLayout(
        separator=separator,
        widths=(max(len(names), 1),),
        user=places.get("user", 0),
        time=places.get("time", 0),
        query=places.get("query", 0),
        click=places.get("click"),
        header=header,
        quoted=quoted,
    )


def _check_places(file: Path, places: Mapping[str, int], width: int) -> None:
    for field, place in places.items():
        if not 0 <= place < width:
            raise LogError(
                f"{file}: `columns` {field}={place + 1}, but its first line has {width} columns"
            )
