import json
from pathlib import Path

import pytest

from nextquery.artifacts import MANIFEST, open_artifact, publish
from nextquery.errors import ArtifactError, ChecksumError


def _publish(target: Path, text: str) -> None:
    with publish(target, "data", {"counts": {"rows": 1}}) as folder:
        (folder / "part.txt").write_text(text)


def test_a_published_folder_opens_and_verifies(tmp_path: Path) -> None:
    _publish(tmp_path / "out", "one")
    artifact = open_artifact(tmp_path / "out", "data")
    artifact.verify()
    assert artifact.file("part.txt").read_text() == "one"
    assert artifact.manifest["counts"] == {"rows": 1}


def test_a_failure_leaves_the_old_artifact_and_nothing_else(tmp_path: Path) -> None:
    _publish(tmp_path / "out", "old")
    with pytest.raises(RuntimeError), publish(tmp_path / "out", "data", {}) as folder:
        (folder / "part.txt").write_text("half")
        raise RuntimeError
    assert open_artifact(tmp_path / "out").file("part.txt").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_publishing_again_replaces(tmp_path: Path) -> None:
    _publish(tmp_path / "out", "old")
    _publish(tmp_path / "out", "new")
    assert (tmp_path / "out" / "part.txt").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_foreign_folder_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(ArtifactError, match="not an artifact"):
        _publish(tmp_path / "photos", "x")
    assert (tmp_path / "photos" / "cat.jpg").exists()


def test_an_altered_file_is_named(tmp_path: Path) -> None:
    _publish(tmp_path / "out", "one")
    (tmp_path / "out" / "part.txt").write_text("two")
    with pytest.raises(ChecksumError, match=r"part\.txt"):
        open_artifact(tmp_path / "out").verify()


@pytest.mark.parametrize("name", ["../secret.txt", "/etc/passwd"])
def test_files_outside_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    _publish(tmp_path / "out", "one")
    manifest = json.loads((tmp_path / "out" / MANIFEST).read_text())
    manifest["files"][name] = "0" * 64
    (tmp_path / "out" / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match="outside"):
        open_artifact(tmp_path / "out").file(name)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"kind": "data"}', "\xff"])
def test_a_broken_manifest_is_a_clear_error(tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST).write_text(content, encoding="latin-1")
    with pytest.raises(ArtifactError, match="manifest"):
        open_artifact(tmp_path)


def test_the_wrong_kind_is_refused(tmp_path: Path) -> None:
    _publish(tmp_path / "out", "one")
    with pytest.raises(ArtifactError, match="'data', but hred is needed"):
        open_artifact(tmp_path / "out", "hred")
