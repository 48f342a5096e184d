"""Which state of a data folder a model was made from, and whose removal that includes.

Users are counted, never named.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from nextquery.logs.data_folder import PreparedData


def data_entry(data: PreparedData) -> dict[str, Any]:
    """What a model's manifest says of its data: the folder's fingerprint and who was forgotten."""
    manifest = data.artifact.manifest
    files = json.dumps(manifest["files"], sort_keys=True)
    last = data.session_rows("background").select(pl.col("time").max()).collect().item()
    return {
        "folder": hashlib.sha256(files.encode()).hexdigest()[:16],
        "forgotten": _forgotten(manifest),
        "until": None if last is None else last.isoformat(),
    }


def continued_entry(data: PreparedData, earlier: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a model that went on from an earlier one, which knew who was forgotten since.

    `earlier` is the earlier model's manifest. Those users' removal is approximate.
    """
    entry = data_entry(data)
    before = earlier.get("data", {})
    exact = len(before.get("forgotten", ())) - int(before.get("approximately", 0))
    return {**entry, "approximately": len(entry["forgotten"]) - exact}


def forgotten_since(model: Mapping[str, Any], data: PreparedData) -> int | None:
    """How many users a data folder has forgotten since a model was made of it.

    `model` is the model's manifest. None where that does not say what it was made from.

    >>> import nextquery
    >>> data = nextquery.prepare(LOG, "data", spelling=False)
    >>> forgotten_since({"data": data_entry(data)}, data)
    0
    """
    if "data" not in model:
        return None
    known = len(model["data"]["forgotten"])
    return sum(int(note["users"]) for note in _forgotten(data.artifact.manifest)[known:])


def approximately_forgotten(entry: Mapping[str, Any]) -> int:
    """Of how many users a model includes the removal only approximately.

    `entry` is what its manifest says of its data: it went on from one that knew them.

    >>> notes = [{"date": "2026-11-16", "users": 2}, {"date": "2026-11-17", "users": 3}]
    >>> approximately_forgotten({"forgotten": notes, "approximately": 1})
    3
    """
    late = int(entry.get("approximately", 0))
    return sum(int(note["users"]) for note in entry["forgotten"][-late:]) if late else 0


def describe_forgotten(entry: Mapping[str, Any]) -> str:
    """A sentence for a model card.

    >>> describe_forgotten({"forgotten": [{"date": "2026-11-16", "users": 2}]})
    'Before this model was made, users were removed from its data on request: 2 on 2026-11-16.'
    >>> describe_forgotten({"forgotten": []})
    'Nobody had been removed from its data on request when this model was made.'
    """
    notes = entry["forgotten"]
    if not notes:
        return "Nobody had been removed from its data on request when this model was made."
    listed = ", ".join(f"{note['users']:,} on {note['date']}" for note in notes)
    told = f"Before this model was made, users were removed from its data on request: {listed}."
    users = approximately_forgotten(entry)
    if not users:
        return told
    return (
        f"{told} The last {users:,} of them were known to the model that this one went on from: "
        "their removal is approximate."
    )


def _forgotten(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"date": note["date"], "users": note["forgotten_users"]}
        for note in manifest.get("revisions", ())
        if note.get("forgotten_users")
    ]
