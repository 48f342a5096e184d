"""An artifact is read from one folder, checked, and nothing outside it is ever followed."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nextquery.artifacts import MANIFEST, open_artifact, publish, read_artifact, sha256
from nextquery.artifacts.folder import Artifact
from nextquery.errors import ArtifactError, ChecksumError


def make(target: Path, text: str, files: int = 3) -> Path:
    with publish(target, "data", {"text": text}) as folder:
        (folder / "sub").mkdir()
        for number in range(files):
            (folder / "sub" / f"{number}.txt").write_text(text)
    return target


def test_a_published_folder_opens_and_verifies(tmp_path: Path) -> None:
    artifact = open_artifact(make(tmp_path / "out", "one"), "data")
    artifact.verify()
    assert artifact.file("sub/1.txt").read_text() == "one"
    assert artifact.files("sub") == ["sub/0.txt", "sub/1.txt", "sub/2.txt"]
    assert artifact.entry("text") == "one"


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(content)


def cut(file: Path) -> None:
    os.truncate(file, 1)


def link_to_a_copy(file: Path) -> None:
    copy = shutil.copy(file, file.parents[2] / "copy.txt")
    file.unlink()
    file.symlink_to(copy)


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def folder_instead(file: Path) -> None:
    file.unlink()
    file.mkdir()


def linked_parent(file: Path) -> None:
    copy = shutil.copytree(file.parent, file.parents[2] / "elsewhere")
    shutil.rmtree(file.parent)
    file.parent.symlink_to(copy)


@pytest.mark.parametrize(
    "damage", [flip, cut, Path.unlink, link_to_a_copy, pipe, folder_instead, linked_parent]
)
def test_damage_is_found_on_opening_and_named(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    make(tmp_path / "out", "one")
    damage(tmp_path / "out" / "sub" / "1.txt")
    with pytest.raises(ArtifactError, match=r"sub/\d\.txt"):
        open_artifact(tmp_path / "out")


@pytest.mark.parametrize("damage", [link_to_a_copy, pipe, linked_parent])
def test_an_unverified_folder_follows_nothing_either(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    make(tmp_path / "out", "one")
    damage(tmp_path / "out" / "sub" / "1.txt")
    with pytest.raises(ArtifactError, match="plain"):
        open_artifact(tmp_path / "out", verify=False).file("sub/1.txt")


@pytest.mark.parametrize("damage", [pipe, link_to_a_copy, folder_instead])
def test_a_manifest_must_be_a_plain_file(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    make(tmp_path / "a" / "out", "one")
    damage(tmp_path / "a" / "out" / MANIFEST)
    with pytest.raises(ArtifactError, match="plain file"):
        open_artifact(tmp_path / "a" / "out")


def test_a_file_that_the_manifest_does_not_name_is_not_given(tmp_path: Path) -> None:
    make(tmp_path / "out", "one")
    (tmp_path / "out" / "sub" / "more.txt").touch()
    with pytest.raises(ArtifactError, match=r"does not list a file 'sub/more\.txt'"):
        open_artifact(tmp_path / "out").file("sub/more.txt")


def test_no_folder_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ArtifactError, match="nothing: no such folder"):
        open_artifact(tmp_path / "nothing")
    with pytest.raises(ArtifactError, match="file: a file; give a data or model folder"):
        open_artifact(tmp_path / "file")
    with pytest.raises(ArtifactError, match=r"no manifest\.json"):
        open_artifact(tmp_path)


def test_the_wrong_kind_is_refused(tmp_path: Path) -> None:
    artifact = open_artifact(make(tmp_path / "out", "one"))
    for position in (tmp_path / "out", artifact):
        with pytest.raises(ArtifactError, match="'data', but hred is needed"):
            open_artifact(position, "hred")


def test_an_old_folder_without_format_and_sizes_opens(tmp_path: Path) -> None:
    make(tmp_path / "out", "one")
    manifest = json.loads((tmp_path / "out" / MANIFEST).read_text())
    del manifest["format"], manifest["sizes"], manifest["checksum"]
    (tmp_path / "out" / MANIFEST).write_text(json.dumps(manifest))
    assert open_artifact(tmp_path / "out").file("sub/0.txt").read_text() == "one"


def test_a_replaced_folder_is_read_to_its_end(tmp_path: Path) -> None:
    """Two folders change places: what is read belongs to the one opened."""
    make(tmp_path / "out", "one")
    make(tmp_path / "other", "two")

    def read(artifact: Artifact) -> set[str]:
        result = {str(artifact.entry("text")), artifact.file("sub/0.txt").read_text()}
        (tmp_path / "out").rename(tmp_path / "third")
        (tmp_path / "other").rename(tmp_path / "out")
        return result | {artifact.file("sub/1.txt").read_text()}

    assert read_artifact(tmp_path / "out", read) == {"one"}


def test_a_folder_deleted_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    make(tmp_path / "out", "one")
    tries = []

    def read(artifact: Artifact) -> set[str]:
        tries.append(artifact.entry("text"))
        result = {artifact.file("sub/0.txt").read_text()}
        if len(tries) == 1:
            make(tmp_path / "out", "two")
        return result | {artifact.file("sub/1.txt").read_text()}

    assert read_artifact(tmp_path / "out", read) == {"two"}
    assert tries == ["one", "two"]


def test_contents_are_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make(tmp_path / "out", "one")
    ran = []
    for _ in range(2):
        open_artifact(tmp_path / "out").check_once("it", lambda: ran.append("verified"))
        open_artifact(tmp_path / "out", verify=False).check_once("it", lambda: ran.append("not"))
    assert ran == ["verified", "not", "not"]

    def refuse() -> None:
        raise ArtifactError("counts has 2 values, not 3")

    for _ in range(2):
        with pytest.raises(ArtifactError, match=r"out: counts has 2 values, not 3; make it again"):
            open_artifact(tmp_path / "out").check_once("another", refuse)


def test_files_are_copied_from_the_folder_that_was_opened(tmp_path: Path) -> None:
    artifact = open_artifact(make(tmp_path / "out", "one"))
    artifact.copy_files(tmp_path / "copy", artifact.files("sub"))
    assert sha256(tmp_path / "copy" / "sub" / "2.txt") == artifact.manifest["files"]["sub/2.txt"]
    make(tmp_path / "out", "two")
    with pytest.raises(ArtifactError):
        artifact.copy_files(tmp_path / "again", artifact.files("sub"))


def test_a_descriptor_is_closed_with_its_artifact(tmp_path: Path) -> None:
    make(tmp_path / "out", "one")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(5):
        open_artifact(tmp_path / "out").file("sub/0.txt").read_text()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


SWAPPING = """
import sys
from pathlib import Path
from nextquery.artifacts import publish
while True:
    for text in ("one", "two"):
        with publish(Path(sys.argv[1]), "data", {"text": text}) as folder:
            (folder / "sub").mkdir()
            for number in range(20):
                (folder / "sub" / f"{number}.txt").write_text(text)
"""


def test_no_mixture_while_a_writer_swaps(tmp_path: Path) -> None:
    target = make(tmp_path / "out", "one", files=20)
    result: list[frozenset[str]] = []

    def read(artifact: Artifact) -> frozenset[str]:
        texts = (artifact.file(name).read_text() for name in artifact.manifest["files"])
        return frozenset({artifact.entry("text"), *texts})

    with subprocess.Popen([sys.executable, "-c", SWAPPING, str(target)]) as writer:
        try:
            while len(set(result)) < 2 or len(result) < 60:
                result.append(read_artifact(target, read))
        finally:
            writer.kill()
    assert set(result) == {frozenset({"one"}), frozenset({"two"})}


def test_an_altered_file_is_a_checksum_error(tmp_path: Path) -> None:
    make(tmp_path / "out", "one")
    (tmp_path / "out" / "sub" / "0.txt").write_text("two")
    with pytest.raises(ChecksumError, match=r"sub/0\.txt: altered"):
        open_artifact(tmp_path / "out", verify=False).verify()
