"""The manifest: which keys it has, how it is read without trust, and how it is written.

    kind        what the folder holds
    format      the version of the folder's form; folders without one are of the first form
    files       name of every file, relative to the folder, with its SHA-256
    sizes       the same names with their bytes (folders written before 0.1.0 have none)
    versions    of nextquery and the packages that decide what the files look like
    checksum    SHA-256 of all other keys (folders written before 0.1.0 have none)

and whatever its kind adds: settings, counts, the facts of a training.
"""

import hashlib
import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

from nextquery._version import __version__
from nextquery.artifacts.disk import sha256
from nextquery.artifacts.single_files import write_text
from nextquery.errors import ArtifactError, ChecksumError

MANIFEST = "manifest.json"
FORMAT = 1
"""Raised when a folder's form changes so that an older nextquery would misread it."""
LARGEST = 64 << 20
"""The bytes of the largest manifest that is read; real ones have a few thousand."""
_RESERVED = ("kind", "format", "versions", "files", "sizes", "checksum")


def parse_manifest(content: bytes, place: Path) -> dict[str, Any]:
    """The manifest in `content`; anything that is not one, or of a later form, is refused.

    >>> parse_manifest(b'{"kind": "data", "files": {}}', Path("out"))
    {'kind': 'data', 'files': {}}
    """
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{place / MANIFEST}: cannot be read as JSON ({error})") from None
    if not isinstance(manifest, dict) or not {"kind", "files"} <= manifest.keys():
        raise ArtifactError(f"{place / MANIFEST}: lacks the keys 'kind' and 'files'")
    _check_format(manifest, place)
    if manifest.get("checksum", checksum(manifest)) != checksum(manifest):
        raise ChecksumError(f"{place / MANIFEST}: altered since it was written; make it again")
    _check_files(manifest, place)
    return manifest


def write_manifest(folder: Path, kind: str, entries: Mapping[str, Any]) -> None:
    """Write `manifest.json` with the size and checksum of every file now in `folder`."""
    own = folder / MANIFEST
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path != own)
    names = [path.relative_to(folder).as_posix() for path in found]
    manifest = {
        "kind": kind,
        "format": FORMAT,
        **{key: value for key, value in entries.items() if key not in _RESERVED},
        "versions": versions(),
        "files": {name: sha256(path) for name, path in zip(names, found, strict=True)},
        "sizes": {name: path.stat().st_size for name, path in zip(names, found, strict=True)},
    }
    manifest["checksum"] = checksum(manifest)
    write_text(own, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def checksum(manifest: Mapping[str, Any]) -> str:
    """The SHA-256 of a manifest's other keys, whatever their order and spacing.

    >>> checksum({"kind": "data", "checksum": "any"})[:8]
    '8e7f7204'
    """
    rest = {key: value for key, value in manifest.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def further_entries(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What a kind has added to its manifest, for a copy of the folder.

    >>> further_entries({"kind": "data", "files": {}, "settings": {"min_users": 3}})
    {'settings': {'min_users': 3}}
    """
    return {key: value for key, value in manifest.items() if key not in _RESERVED}


def versions() -> dict[str, str]:
    """The versions that decide what an artifact looks like."""
    found = {"nextquery": __version__}
    for package in ("torch", "polars", "duckdb", "numpy", "lightgbm"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _check_format(manifest: Mapping[str, Any], place: Path) -> None:
    found = manifest.get("format", FORMAT)
    if type(found) is not int or found < 1:
        raise ArtifactError(f"{place / MANIFEST}: 'format' is {found!r}, not a number from 1")
    if found > FORMAT:
        raise ArtifactError(
            f"{place}: written by a later nextquery (format {found}; {__version__} reads up to "
            f"{FORMAT}); install a newer nextquery, or make the folder again with this one"
        )


def _check_files(manifest: Mapping[str, Any], place: Path) -> None:
    files, sizes = manifest["files"], manifest.get("sizes", {})
    texts = isinstance(files, dict) and all(isinstance(value, str) for value in files.values())
    if not isinstance(manifest["kind"], str) or not texts:
        raise ArtifactError(f"{place / MANIFEST}: 'kind' or 'files' is not as it should be")
    numbers = isinstance(sizes, dict) and all(type(value) is int for value in sizes.values())
    if not numbers or (sizes and sizes.keys() != files.keys()):
        raise ArtifactError(f"{place / MANIFEST}: 'sizes' does not go with 'files'")
    for name in files:
        if not _stays_inside(name):
            raise ArtifactError(
                f"{place}: the manifest names {name!r}, which lies outside the folder"
            )


def _stays_inside(name: str) -> bool:
    """Whether a name is that of a file below the folder, in its one spelling."""
    parts = name.split("/")
    plain = str(PurePosixPath(name)) == name and "\\" not in name and "\0" not in name
    return plain and ".." not in parts and parts[0] not in ("", ".")
