"""Artifact folders: what every data, model and report folder has in common.

An artifact is a folder with a `manifest.json` that names its kind, its settings, the versions that
made it and the SHA-256 of every file. It appears complete or not at all: `publish` lets the caller
write beside the target and renames. Knows nothing of what the files mean.
"""

import fcntl
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from nextquery._version import __version__
from nextquery.errors import ArtifactError, ChecksumError

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Artifact:
    """An opened artifact folder: its place and its manifest."""

    path: Path
    manifest: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """What the folder holds: `data`, `hred`, `adjacency`, ..."""
        return str(self.manifest["kind"])

    def file(self, name: str) -> Path:
        """The path of a file named in the manifest; names outside the folder are refused."""
        if name not in self.manifest["files"]:
            raise ArtifactError(f"{self.path}: the manifest names no file {name!r}")
        return _inside(self.path, name)

    def verify(self) -> None:
        """Check every file against its SHA-256."""
        for name, expected in self.manifest["files"].items():
            path = _inside(self.path, name)
            if not path.is_file():
                raise ChecksumError(f"{path}: named in the manifest but missing; make it again")
            if sha256(path) != expected:
                raise ChecksumError(f"{path}: altered or truncated since it was written")


def open_artifact(path: Path, *kinds: str) -> Artifact:
    """Open the artifact at `path`, which must be of one of `kinds` if any are given."""
    file = path / MANIFEST
    if not path.is_dir():
        raise ArtifactError(f"{path}: no such folder")
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ArtifactError(f"{path}: not an artifact folder (it has no {MANIFEST})") from None
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{file}: cannot be read as JSON ({error})") from None
    if not isinstance(manifest, dict) or not {"kind", "files"} <= manifest.keys():
        raise ArtifactError(f"{file}: lacks the keys 'kind' and 'files'")
    if kinds and manifest["kind"] not in kinds:
        expected = " or ".join(kinds)
        raise ArtifactError(f"{path}: holds {manifest['kind']!r}, but {expected} is needed here")
    return Artifact(path, manifest)


@contextmanager
def publish(target: Path, kind: str, entries: dict[str, Any]) -> Iterator[Path]:
    """Give a folder to write into; on success add the manifest and rename it to `target`.

    `entries` are further manifest keys; the caller may fill it until the block ends. An artifact
    already at `target` is replaced; any other file or non-empty folder there is left alone.
    """
    check_target(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    _clear_remains(target)
    partial = target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}.partial"
    partial.mkdir()
    lock = _lock(partial)
    try:
        yield partial
        write_manifest(partial, kind, entries)
        _swap(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def check_target(target: Path) -> None:
    """Refuse a place where something that is not an artifact would be overwritten."""
    if target.is_dir():
        if any(target.iterdir()) and not (target / MANIFEST).is_file():
            raise ArtifactError(f"{target}: a folder that is not an artifact; choose another `out`")
    elif target.exists():
        raise ArtifactError(f"{target}: a file; `out` needs a folder")


def write_manifest(folder: Path, kind: str, entries: Mapping[str, Any]) -> None:
    """Write `manifest.json` with the checksum of every file now in `folder`."""
    files = {
        path.relative_to(folder).as_posix(): sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }
    manifest = {"kind": kind, **entries, "versions": versions(), "files": files}
    write_text(folder / MANIFEST, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file beside its place, flush it to disk and rename it."""
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        with beside.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def versions() -> dict[str, str]:
    """The versions that decide what an artifact looks like."""
    found = {"nextquery": __version__}
    for package in ("torch", "polars", "duckdb", "numpy", "lightgbm"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _inside(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ArtifactError(f"{folder}: the manifest names {name!r}, which lies outside the folder")
    return path


def _clear_remains(target: Path) -> None:
    """Put right what a killed job left beside `target`; the folders of running jobs are locked."""
    beside = [path for path in target.parent.iterdir() if path.name.startswith(f".{target.name}.")]
    for path in beside:
        if path.suffix == ".old" and not target.exists():
            path.replace(target)  # killed between the two renames of a swap
        elif path.suffix in (".old", ".partial") and path.is_dir():
            lock = _lock(path)
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)


def _lock(folder: Path) -> int | None:
    """Lock a folder until the descriptor is closed or the process dies; None if it is taken."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _swap(partial: Path, target: Path) -> None:
    """Put `partial` where `target` is; the old artifact stays aside until the new one is there."""
    if not target.exists():
        partial.replace(target)
        return
    aside = target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}.old"
    target.replace(aside)
    try:
        partial.replace(target)
    except OSError:
        aside.replace(target)
        raise
    shutil.rmtree(aside)
