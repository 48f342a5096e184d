"""Tries are mapped only when their file is sound and every key is text."""

from pathlib import Path

import marisa_trie
import pytest

from nextquery.artifacts import Artifact, open_artifact, publish
from nextquery.artifacts.arrays import load_record_trie, load_trie
from nextquery.errors import ArtifactError


def stored(folder: Path, content: bytes) -> Artifact:
    with publish(folder / "out", "data", {}) as partial:
        (partial / "t.trie").write_bytes(content)
    return open_artifact(folder / "out")


def test_a_trie_comes_back(tmp_path: Path) -> None:
    built = marisa_trie.Trie(["ä", "b c", ""])
    found = load_trie(stored(tmp_path, built.tobytes()), "t.trie")
    assert dict(found.items()) == dict(built.items())


def test_records_come_back(tmp_path: Path) -> None:
    built = marisa_trie.RecordTrie("<Q", [("ä", (255,)), ("b c", (2**40,))])
    found = load_record_trie(stored(tmp_path, built.tobytes()), "t.trie", "<Q", 8)
    assert found["ä"] == [(255,)]
    assert found["b c"] == [(2**40,)]


@pytest.mark.parametrize(
    "content",
    [b"", b"no trie", marisa_trie.BinaryTrie([b"\xff\xfe"]).tobytes()],
)
def test_what_is_no_trie_of_texts_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ArtifactError, match=r"out: t\.trie"):
        load_trie(stored(tmp_path, content), "t.trie")


@pytest.mark.parametrize("keys", [[b"no separator"], [b"text\xff1234567"], [b"\xfe\xff12345678"]])
def test_records_of_another_form_are_refused(tmp_path: Path, keys: list[bytes]) -> None:
    artifact = stored(tmp_path, marisa_trie.BinaryTrie(keys).tobytes())
    with pytest.raises(ArtifactError, match="not text"):
        load_record_trie(artifact, "t.trie", "<Q", 8)
