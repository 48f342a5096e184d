"""An opened artifact: one folder, whatever is renamed while it is read, checked when it is opened.

A folder that is being replaced stays readable until its files are deleted. What is read goes
through the folder opened at first (Linux: `/proc/self/fd/N`), so that files of two artifacts never
come together; where the folder has been replaced meanwhile and its files are gone, all is read
again from the new one. On systems without `/proc` the folder is compared at the end instead.
"""

import io
import os
import shutil
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from nextquery._version import __version__
from nextquery.artifacts import files, manifest
from nextquery.artifacts.manifest import LARGEST, MANIFEST, parse_manifest
from nextquery.artifacts.publishing import remains
from nextquery.errors import ArtifactError, ChecksumError

T = TypeVar("T")
_TRIES = 100
_PAUSE_SECONDS = 0.02
_kept_open: list["OpenFolder"] = []


class OpenFolder:
    """A folder kept open: `root` leads to it even when its name has been given to another one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        except (FileNotFoundError, NotADirectoryError):
            problem = "a file; give a data or model folder" if path.is_file() else "no such folder"
            raise ArtifactError(f"{path}: {problem}") from None
        except (OSError, ValueError) as error:
            raise ArtifactError(f"{path}: cannot be opened ({error})") from None
        weakref.finalize(self, os.close, self._descriptor).atexit = False
        descriptor_path = Path(f"/proc/self/fd/{self._descriptor}")
        self.is_bound = descriptor_path.is_dir()
        """Whether `root` is bound to the folder rather than to its name."""
        self.root = descriptor_path if self.is_bound else Path(os.path.realpath(path))

    def lasting_path(self) -> Path:
        """A path for engines that read later, by name: valid as long as the process lives."""
        path = files.plain_path(self.path, self._descriptor)
        if path != self.path:
            _kept_open.append(self)
        return path

    def is_current(self) -> bool:
        """Whether the folder still has its name."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._descriptor))  # noqa: PTH116
        except OSError:
            return False


class HeldPath(type(Path())):  # type: ignore[misc]
    """The path of a file in an open folder, which stays open as long as the path is kept."""

    folder: OpenFolder

    @classmethod
    def of(cls, folder: OpenFolder, name: str) -> "HeldPath":
        """The path of the file `name`."""
        path = cls(folder.root / name)
        path.folder = folder
        return path


@dataclass(frozen=True)
class Artifact:
    """An opened artifact folder: its place, its manifest, and its files."""

    path: Path
    """The name it was opened by; for messages."""
    manifest: Mapping[str, Any]
    folder: OpenFolder = field(repr=False, compare=False)
    verified: bool = False
    """Whether all files were checked when it was opened."""
    manifest_bytes: bytes = field(default=b"", repr=False)

    @property
    def kind(self) -> str:
        """The kind of the folder: `data`, `hred`, `adjacency`, ..."""
        return str(self.manifest["kind"])

    def file(self, name: str) -> Path:
        """Where to read a file named in the manifest: a plain file inside the folder."""
        if name not in self.manifest["files"]:
            raise ArtifactError(f"{self.path}: the manifest does not list a file {name!r}")
        manifest.check_plain(self.folder.root, name, self.path / name)
        return HeldPath.of(self.folder, name)

    def open(self, name: str) -> io.BufferedReader:
        """Open a file named in the manifest for reading."""
        self.file(name)
        return manifest.open_plain(self.folder.root, name, self.path / name)

    def files(self, below: str) -> list[str]:
        """The names in the manifest below a sub-folder, in order."""
        return sorted(name for name in self.manifest["files"] if name.startswith(f"{below}/"))

    def entry(self, key: str) -> Any:
        """What the manifest says under a key of its kind."""
        if key not in self.manifest:
            raise ArtifactError(f"{self.path / MANIFEST}: lacks the key {key!r}; make it again")
        return self.manifest[key]

    def copy_files(self, target: Path, names: Iterable[str]) -> None:
        """Copy files into another folder; raises where they are gone, since it was replaced."""
        for name in names:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.file(name), target / name)
        self.check_current()

    def check_current(self) -> None:
        """Raise if an artifact of other files has taken the place of this one since."""
        if self.folder.is_current():
            return
        if open_artifact(self.path, verify=False).manifest["files"] != self.manifest["files"]:
            raise ArtifactError(f"{self.path}: replaced while it was in use; start again")

    def verify(self) -> None:
        """Check every file against its SHA-256, however recently that was done."""
        self._check(trust=False)

    def check_once(self, name: str, check: Callable[[], None]) -> None:
        """Run `check` over the contents unless it has passed for these files before.

        It raises where the contents do not fit together. That it passed is noted only when all
        files had their checksums.
        """
        key = manifest.content_key(name, __version__, self.manifest_bytes)
        if self.verified and manifest.read_note(key) is not None:
            return
        try:
            check()
        except ArtifactError as error:
            raise ArtifactError(f"{self.path}: {error}; make it again") from None
        if self.verified:
            manifest.write_note(key, name)

    def _check(self, *, trust: bool) -> None:
        sizes = self.manifest.get("sizes", {})
        for name, expected in self.manifest["files"].items():
            manifest.check_file(
                self.folder.root, name, expected, sizes.get(name), self.path / name, trust=trust
            )


def open_artifact(path: Path | Artifact, *kinds: str, verify: bool = True) -> Artifact:
    """Open the artifact at `path`, which must be of one of `kinds` if any are given.

    Every file is checked against the manifest unless `verify` is false: for callers that read
    nothing but the manifest. An artifact that is open already is only asked for its kind.
    """
    if isinstance(path, Artifact):
        return _of_kind(path, kinds)
    return read_artifact(path, lambda artifact: artifact, *kinds, verify=verify)


def read_artifact(
    path: Path | Artifact, read: Callable[[Artifact], T], *kinds: str, verify: bool = True
) -> T:
    """What `read` makes of the artifact at `path`; read again where it is replaced meanwhile."""
    if isinstance(path, Artifact):
        return read(_of_kind(path, kinds))
    for _ in range(_TRIES):
        try:
            folder = OpenFolder(path)
        except ArtifactError:
            # The name may be free only between two renames, where there is no atomic exchange.
            stagings = remains(Path(os.path.realpath(path)))
            if not any((staging / "old").is_dir() for staging in stagings):
                raise
            time.sleep(_PAUSE_SECONDS)
            continue
        try:
            content = read(_open(folder, kinds, verify=verify))
        except (ArtifactError, OSError):
            if folder.is_current():
                raise
            continue
        if folder.is_bound or folder.is_current():
            return content
    raise ArtifactError(f"{path}: replaced again and again while it was read; try again later")


def _open(folder: OpenFolder, kinds: tuple[str, ...], *, verify: bool) -> Artifact:
    shown = folder.path / MANIFEST
    try:
        with manifest.open_plain(folder.root, MANIFEST, shown) as stream:
            content = stream.read(LARGEST + 1)
    except ChecksumError:
        problem = f"not an artifact folder (it has no {MANIFEST})"
        raise ArtifactError(f"{folder.path}: {problem}") from None
    if len(content) > LARGEST:
        raise ArtifactError(f"{shown}: larger than any manifest")
    entries = parse_manifest(content, folder.path)
    artifact = _of_kind(Artifact(folder.path, entries, folder, verify, content), kinds)
    if verify:
        artifact._check(trust=True)
    return artifact


def _of_kind(artifact: Artifact, kinds: tuple[str, ...]) -> Artifact:
    if kinds and artifact.kind not in kinds:
        expected = " or ".join(kinds)
        raise ArtifactError(f"{artifact.path}: is a {artifact.kind!r}, but {expected} is needed")
    return artifact
