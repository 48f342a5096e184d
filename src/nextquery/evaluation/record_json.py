"""Records as JSON and back: every result is a frozen record until this module writes it.

Knows dataclasses and JSON values; knows no particular result.
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

OPTIONAL: Mapping[str, bool] = {"optional": True}
"""The `metadata` of a field that is left out of the JSON while it has its default."""


def to_json(value: Any) -> Any:
    """A record, or a mapping or sequence of records, as JSON values.

    A number that is not finite becomes null. Fields marked `OPTIONAL` are left out while they have
    their default.

    >>> from dataclasses import dataclass, field
    >>> @dataclass(frozen=True)
    ... class Part:
    ...     cases: int
    ...     too_few: str | None = field(default=None, metadata=OPTIONAL)
    >>> to_json({"short": Part(3, "3 cases"), "long": Part(40)})
    {'short': {'cases': 3, 'too_few': '3 cases'}, 'long': {'cases': 40}}
    """
    if is_dataclass(value):
        present = ((each.name, each, getattr(value, each.name)) for each in fields(value))
        return {name: to_json(item) for name, each, item in present if not _left_out(each, item)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def from_json(kind: Any, value: Any) -> Any:
    """The record of the type `kind` that `to_json` wrote as `value`; ValueError if it is none.

    >>> from_json(Mapping[str, tuple[int, ...]], {"trees": [12, 40]})
    {'trees': (12, 40)}
    """
    return TypeAdapter(kind).validate_python(value)


def _left_out(described: Field[Any], value: Any) -> bool:
    if not described.metadata.get("optional"):
        return False
    made = described.default_factory
    return bool(value == (described.default if made is MISSING else made()))
