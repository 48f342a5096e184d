"""A log file is recognised by the hash of its unpacked bytes."""

import gzip
import hashlib
from pathlib import Path

import pytest

from nextquery.logs.reading import open
from nextquery.logs.reading.open import hash_content

TEXT = b"one line\nand another\n"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("chunk", [1, 3, 5, 9, 1000])
@pytest.mark.parametrize("packed", [False, True])
def test_bytes_are_hashed_unpacked_with_their_beginnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, packed: bool
) -> None:
    monkeypatch.setattr(open, "_CHUNK", chunk)
    file = tmp_path / "log"
    file.write_bytes(gzip.compress(TEXT) if packed else TEXT)
    found = hash_content(file, [3, 9, 10, len(TEXT), 1000])
    assert (found.sha256, found.size) == (sha256(TEXT), len(TEXT))
    assert found.beginnings == {size: sha256(TEXT[:size]) for size in (3, 9, 10)}
