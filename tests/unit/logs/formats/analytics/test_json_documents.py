"""Documents in pieces: whatever the chunks, the same objects; a damaged one stops the job."""

import json
from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import LogError
from nextquery.logs.formats import json as json_format
from nextquery.logs.formats.json import read_objects, sample_document
from nextquery.logs.reading import json_objects
from nextquery.logs.reading.open import LogFile, Sample

OBJECTS: list[dict[str, Any]] = [{"a": n, "text": "é]},{" * n, "in": {"b": [1]}} for n in range(9)]
DOCUMENTS = {
    "a list": json.dumps(OBJECTS),
    "under a name": json.dumps({"logs": OBJECTS}),
    "pages": json.dumps({"logs": OBJECTS[:4]}) + "\n" + json.dumps({"logs": OBJECTS[4:]}),
    "after another field": json.dumps({"page": 1, "logs": OBJECTS}),
    "lines": "".join(json.dumps(each) + "\n" for each in OBJECTS),
    "marked": "\ufeff" + json.dumps(OBJECTS, indent=1),
}


def objects(path: Path, list_name: str) -> list[dict[str, Any]]:
    with LogFile(path) as file:
        return [found for _, found in read_objects(file, list_name)]


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize("shape", DOCUMENTS)
def test_every_object_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str, chunk: int
) -> None:
    monkeypatch.setattr(json_format, "_CHUNK", chunk)
    path = tmp_path / "log.json"
    path.write_text(DOCUMENTS[shape])
    assert objects(path, "logs") == OBJECTS


@pytest.mark.parametrize(
    "text",
    [
        *('[{"a": 1}, {"a": ', "[{'a': 1}]", '[{"a": 1} x', '{"a": ' * 5000),
        # Cut between two objects, or before the end of the list or of what it is in.
        *('[{"a": 1}, {"a": 2},', '[{"a": 1}', '[{"a": 1}]\n[{"a": 2}', '[{"a": 1}]]'),
        *('{"logs": [{"a": 1}, ', '{"logs": [{"a": 1}]', '{"logs": [{"a": 1}]}\n{"logs": ['),
    ],
)
def test_a_damaged_document_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.json"
    path.write_text(text)
    with pytest.raises(LogError, match=r"log.json: is not JSON.* cut off, after \d objects"):
        objects(path, "logs")


def test_an_object_without_end_takes_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_objects, "LARGEST_OBJECT", 1000)
    monkeypatch.setattr(json_format, "_CHUNK", 500)
    path = tmp_path / "log.json"
    path.write_text('[{"a": "' + "x" * 100_000 + '"}]')
    with pytest.raises(LogError, match="after 0 objects"):
        objects(path, "")


def test_the_start_of_a_document() -> None:
    lines = tuple(json.dumps({"logs": OBJECTS}, indent=1).split("\n"))
    assert sample_document(Sample(Path("x"), lines[:20]), "logs") == OBJECTS[:2]
    assert sample_document(Sample(Path("x"), ("a,b",)), "logs") == []
