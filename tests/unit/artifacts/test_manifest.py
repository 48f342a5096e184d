"""Manifests are read without trust, and files are verified once per change."""

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery._version import __version__
from nextquery.artifacts import MANIFEST, manifest, open_artifact, publish, write_manifest
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
        result = parse_manifest(json.dumps(manifest).encode(), HERE)
    except ArtifactError:
        return
    assert isinstance(result["kind"], str)


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


SIZE = manifest.ALWAYS_HASHED + 100_000


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "nextquery" / "verified"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    with publish(tmp_path / "out", "data", {}) as folder:
        (folder / "large.bin").write_bytes(os.urandom(SIZE))
    return tmp_path / "out"


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A line for every file that is hashed from here on."""
    lines: list[str] = []
    digest = hashlib.file_digest

    def note(stream: Any, kind: Any) -> Any:
        lines.append(str(kind))
        return digest(stream, kind)

    monkeypatch.setattr(hashlib, "file_digest", note)
    # A file changed a moment ago is never noted: let it be long ago.
    monkeypatch.setattr(time, "time_ns", lambda: 2**62)
    return lines


def flip(file: Path, offset: int) -> None:
    with file.open("r+b") as stream:
        stream.seek(offset)
        byte = stream.read(1)[0]
        stream.seek(offset)
        stream.write(bytes([byte ^ 1]))


def test_a_large_file_is_hashed_once(model: Path, cache: Path, hashed: list[str]) -> None:
    for _ in range(3):
        open_artifact(model)
    assert len(hashed) == 1
    open_artifact(model, verify=False).verify()
    assert len(hashed) == 2


def test_a_small_file_is_hashed_always(tmp_path: Path, cache: Path, hashed: list[str]) -> None:
    with publish(tmp_path / "out", "data", {}) as folder:
        (folder / "small.bin").write_bytes(b"x")
    hashed.clear()
    for _ in range(2):
        open_artifact(tmp_path / "out")
    assert len(hashed) == 2
    assert not cache.exists()


@pytest.mark.parametrize("offset", [0, SIZE // 2 + 7, SIZE - 1])
def test_a_write_is_found_after_the_file_was_good(
    model: Path, cache: Path, hashed: list[str], offset: int
) -> None:
    open_artifact(model)
    assert list(cache.iterdir())
    flip(model / "large.bin", offset)
    with pytest.raises(ChecksumError, match=r"large\.bin"):
        open_artifact(model)


def test_a_write_with_its_time_set_back_is_found(
    model: Path, cache: Path, hashed: list[str]
) -> None:
    file = model / "large.bin"
    open_artifact(model)
    status = file.stat()
    flip(file, SIZE // 2 + 7)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(ChecksumError, match=r"large\.bin"):
        open_artifact(model)


def test_bytes_that_change_below_the_file_system_are_found_in_the_blocks_looked_at(
    model: Path, cache: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_artifact(model)
    monkeypatch.setattr(manifest, "_stamp", lambda status: ("the same as before",))
    open_artifact(model)
    flip(model / "large.bin", 5)
    with pytest.raises(ChecksumError):
        open_artifact(model)


def test_a_file_written_a_moment_ago_gets_no_note(model: Path, cache: Path) -> None:
    open_artifact(model)
    assert not cache.exists()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_notes_that_others_may_write_do_not_count(
    model: Path, cache: Path, hashed: list[str], mode: int
) -> None:
    open_artifact(model)
    cache.chmod(mode)
    open_artifact(model)
    assert len(hashed) == 2


def test_notes_of_another_user_do_not_count(
    model: Path, cache: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_artifact(model)
    monkeypatch.setattr(os, "geteuid", lambda: cache.stat().st_uid + 1)
    open_artifact(model)
    assert len(hashed) == 2


@pytest.mark.parametrize("cache_home", ["/proc/no/such", "/dev/null", "relative\0"])
def test_without_a_writable_cache_all_is_hashed(
    model: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch, cache_home: str
) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": cache_home}
    monkeypatch.setattr(os, "environ", environment)
    for _ in range(2):
        open_artifact(model)
    assert len(hashed) == 2


def test_old_notes_go(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(manifest, "_MOST_NOTES", 10)
    for number in range(40):
        manifest.write_note(f"{number:040}", "x")
    assert len(list(cache.iterdir())) <= 10
    assert manifest.read_note(f"{39:040}") == "x"
