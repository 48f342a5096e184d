"""The manifest of an artifact, and verification of its files by size and SHA-256."""

import contextlib
import hashlib
import io
import json
import os
import stat
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

from nextquery._version import __version__
from nextquery.artifacts.files import sha256, write_text
from nextquery.errors import ArtifactError, ChecksumError

MANIFEST = "manifest.json"
FORMAT = 1
"""Raised when a folder's form changes so that an older nextquery would misread it."""
LARGEST = 64 << 20
"""The bytes of the largest manifest that is read; real ones have a few thousand."""
_RESERVED = ("kind", "format", "versions", "files", "sizes", "checksum")


def parse_manifest(content: bytes, folder: Path) -> dict[str, Any]:
    """The manifest in `content`; anything that is not one, or of a later form, is refused.

    >>> parse_manifest(b'{"kind": "data", "files": {}}', Path("out"))
    {'kind': 'data', 'files': {}}
    """
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{folder / MANIFEST}: cannot be read as JSON ({error})") from None
    if not isinstance(manifest, dict) or not {"kind", "files"} <= manifest.keys():
        raise ArtifactError(f"{folder / MANIFEST}: lacks the keys 'kind' and 'files'")
    version = manifest.get("format", FORMAT)
    if type(version) is not int or version < 1:
        raise ArtifactError(f"{folder / MANIFEST}: 'format' is {version!r}, not a number from 1")
    if version > FORMAT:
        raise ArtifactError(
            f"{folder}: written by a later nextquery (format {version}; {__version__} reads up to "
            f"{FORMAT}); install a newer nextquery, or make the folder again with this one"
        )
    if manifest.get("checksum", checksum(manifest)) != checksum(manifest):
        raise ChecksumError(f"{folder / MANIFEST}: altered since it was written; make it again")
    _check_files(manifest, folder)
    return manifest


def write_manifest(folder: Path, kind: str, entries: Mapping[str, Any]) -> None:
    """Write `manifest.json` with the size and checksum of every file now in `folder`."""
    target = folder / MANIFEST
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path != target)
    names = [path.relative_to(folder).as_posix() for path in paths]
    manifest = {
        "kind": kind,
        "format": FORMAT,
        **{key: value for key, value in entries.items() if key not in _RESERVED},
        "versions": versions(),
        "files": {name: sha256(path) for name, path in zip(names, paths, strict=True)},
        "sizes": {name: path.stat().st_size for name, path in zip(names, paths, strict=True)},
    }
    manifest["checksum"] = checksum(manifest)
    write_text(target, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


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
    installed = {"nextquery": __version__}
    for package in ("torch", "polars", "duckdb", "numpy", "lightgbm"):
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return installed


def _check_files(manifest: Mapping[str, Any], folder: Path) -> None:
    files, sizes = manifest["files"], manifest.get("sizes", {})
    texts = isinstance(files, dict) and all(isinstance(value, str) for value in files.values())
    if not isinstance(manifest["kind"], str):
        raise ArtifactError(f"{folder / MANIFEST}: 'kind' must be a string")
    if not texts:
        raise ArtifactError(f"{folder / MANIFEST}: 'files' must map names to SHA-256 hashes")
    numbers = isinstance(sizes, dict) and all(type(value) is int for value in sizes.values())
    if not numbers or (sizes and sizes.keys() != files.keys()):
        raise ArtifactError(
            f"{folder / MANIFEST}: 'sizes' must have the bytes of every file of 'files'"
        )
    for name in files:
        # That of a file below the folder, in its one spelling.
        parts = name.split("/")
        is_plain = str(PurePosixPath(name)) == name and "\\" not in name and "\0" not in name
        if not is_plain or ".." in parts or parts[0] in ("", "."):
            raise ArtifactError(
                f"{folder}: the manifest names {name!r}, which is outside the folder"
            )


ALWAYS_HASHED = 1 << 20
_BLOCK, _BLOCKS = 16 << 10, 16
_SETTLED_NS = 2_000_000_000
"""A file changed less than this ago may change again without a new time: it gets no note."""
_MOST_NOTES = 4_096


def open_plain(root: Path, name: str, shown: Path) -> io.BufferedReader:
    """Open the file `name` below `root` if it is a plain file in plain folders: no link, no pipe.

    `shown` is what messages call it.
    """
    check_plain(root, name, shown)
    # Nothing is followed or waited for if a link or pipe takes its place meanwhile.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(f"{root}/{name}", flags | getattr(os, "O_BINARY", 0))
        stream = os.fdopen(descriptor, "rb")
    except OSError as error:
        raise ArtifactError(f"{shown}: cannot be opened ({error.strerror})") from None
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise ArtifactError(f"{shown}: not a plain file")
    return stream


def check_plain(root: Path, name: str, shown: Path) -> None:
    """Raise unless `name` is a plain file in plain folders."""
    *parents, last = name.split("/")
    path = str(root)  # plain texts: this runs for every file of every folder
    for parent in parents:
        path = f"{path}/{parent}"
        if not stat.S_ISDIR(_status(path, shown).st_mode):
            raise ArtifactError(f"{shown}: {parent} is not a plain folder; make it again")
    if not stat.S_ISREG(_status(f"{path}/{last}", shown).st_mode):
        raise ArtifactError(f"{shown}: a link, pipe or folder, not a plain file; make it again")


def check_file(
    root: Path, name: str, expected: str, size: int | None, shown: Path, *, trust: bool
) -> None:
    """Raise unless the file has the size and SHA-256 expected; `trust` lets a note count."""
    with open_plain(root, name, shown) as stream:
        status = os.fstat(stream.fileno())
        if size is not None and status.st_size != size:
            raise ChecksumError(f"{shown}: altered or truncated since it was written")
        noted = trust and status.st_size > ALWAYS_HASHED
        key = _key("file", *_stamp(status), expected) if noted else ""
        if noted and read_note(key) == (sample := _sample(stream, status.st_size)):
            return
        stream.seek(0)
        if hashlib.file_digest(stream, "sha256").hexdigest() != expected:
            raise ChecksumError(f"{shown}: altered or truncated since it was written")
        settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED_NS
        if noted and settled:
            write_note(key, sample)


def content_key(check: str, version: str, manifest: bytes) -> str:
    """The name of the note that the contents named by a manifest fit together."""
    return _key("content", check, version, hashlib.sha256(manifest).hexdigest())


def read_note(key: str) -> str | None:
    """The note of this name, if there is one that can be trusted."""
    folder = _notes_folder(make=False)
    if folder is None:
        return None
    try:
        return (folder / key).read_text(encoding="ascii")
    except (OSError, ValueError):
        return None


def write_note(key: str, text: str) -> None:
    """Keep a note, if there is a place for it; the oldest go when there are too many."""
    folder = _notes_folder(make=True)
    if folder is None:
        return
    with contextlib.suppress(OSError):
        partial = folder / f"{key}.{os.getpid()}"
        partial.write_text(text, encoding="ascii")
        partial.replace(folder / key)
        notes = list(folder.iterdir())
        if len(notes) > _MOST_NOTES:
            for note in sorted(notes, key=lambda path: path.stat().st_mtime)[: len(notes) // 2]:
                note.unlink(missing_ok=True)


def _status(path: str, shown: Path) -> os.stat_result:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise ChecksumError(f"{shown}: named in the manifest but missing; make it again") from None
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{shown}: cannot be looked at ({error})") from None


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    """What changes when a file is written to or another takes its place."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _sample(stream: io.BufferedReader, size: int) -> str:
    """A hash of the first, the last and some blocks between, evenly spread."""
    digest = hashlib.blake2b(digest_size=16)
    for number in range(_BLOCKS):
        stream.seek((size - _BLOCK) * number // (_BLOCKS - 1))
        digest.update(stream.read(_BLOCK))
    return digest.hexdigest()


def _key(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=20).hexdigest()


def _notes_folder(*, make: bool) -> Path | None:
    """Where notes are kept: a folder that only this user may write to, or None."""
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(base) / "nextquery" / "verified"
        if make:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except (OSError, RuntimeError, ValueError):
        return None
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return folder if is_own and not status.st_mode & 0o022 else None
