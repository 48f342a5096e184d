"""A manifest is read without trust; one of a later form is refused by name."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery._version import __version__
from nextquery.artifacts import MANIFEST, open_artifact, publish, write_manifest
from nextquery.artifacts.manifest import FORMAT, parse_manifest
from nextquery.errors import ArtifactError, ChecksumError

HERE = Path("place")


def parse(**changes: object) -> dict[str, object]:
    manifest = {"kind": "data", "files": {"a/b.txt": "0" * 64}} | changes
    return parse_manifest(json.dumps(manifest).encode(), HERE)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"kind": "data"}', b"\xff", b"[" * 100_000, b"1e999", b"\0"]
)
def test_a_broken_manifest_is_a_clear_error(content: bytes) -> None:
    with pytest.raises(ArtifactError, match=r"place/manifest\.json"):
        parse_manifest(content, HERE)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": 3},
        {"files": ["a"]},
        {"files": {"a": 1}},
        {"sizes": {"a/b.txt": "1"}},
        {"sizes": {"b": 1}},
        {"sizes": []},
        {"format": "1"},
        {"format": 0},
        {"format": True},
        {"format": None},
    ],
)
def test_keys_of_the_wrong_form_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ArtifactError, match=r"manifest\.json"):
        parse(**changes)


@pytest.mark.parametrize(
    "name", ["../secret.txt", "/etc/passwd", "a/../../b", ".", "", "./a", "a//b", "a/", "a\\b"]
)
def test_files_outside_the_folder_are_refused(name: str) -> None:
    with pytest.raises(ArtifactError, match="outside"):
        parse(files={name: "0" * 64})


def test_a_later_form_is_refused_by_name() -> None:
    assert parse(format=FORMAT)["format"] == FORMAT
    with pytest.raises(ArtifactError, match=rf"place: written by a later .* {__version__} reads"):
        parse(format=FORMAT + 1)


def test_an_altered_setting_is_found(tmp_path: Path) -> None:
    with publish(tmp_path / "out", "data", {"settings": {"min_users": 3}}):
        pass
    file = tmp_path / "out" / MANIFEST
    file.write_text(file.read_text().replace('"min_users": 3', '"min_users": 1'))
    with pytest.raises(ChecksumError, match=r"manifest\.json: altered"):
        open_artifact(tmp_path / "out", verify=False)


@given(st.binary(max_size=200))
def test_no_bytes_give_another_error(content: bytes) -> None:
    try:
        parse_manifest(content, HERE)
    except ArtifactError:
        return


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(
    st.fixed_dictionaries({"kind": JSON, "files": JSON}, optional={"sizes": JSON, "format": JSON})
)
def test_no_values_give_another_error(manifest: object) -> None:
    try:
        found = parse_manifest(json.dumps(manifest).encode(), HERE)
    except ArtifactError:
        return
    assert isinstance(found["kind"], str)


def test_reserved_keys_are_not_taken_from_a_copied_manifest(tmp_path: Path) -> None:
    with publish(tmp_path / "out", "data", {"files": {"x": "y"}, "format": 9, "n": 1}):
        pass
    manifest = open_artifact(tmp_path / "out").manifest
    assert (manifest["files"], manifest["format"], manifest["n"]) == ({}, FORMAT, 1)


def test_a_manifest_below_is_a_file_like_others(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / MANIFEST).write_text("{}")
    write_manifest(tmp_path, "report", {})
    write_manifest(tmp_path, "report", {})
    assert list(open_artifact(tmp_path).manifest["files"]) == [f"inner/{MANIFEST}"]
