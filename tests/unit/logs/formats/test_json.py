"""Documents in pieces: whatever the chunks, the same objects; a damaged one stops the job."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.errors import LogError
from nextquery.logs.formats import json as json_format
from nextquery.logs.formats.json import (
    JsonLayout,
    extract_fields,
    read_objects,
    sample_document,
    sample_objects,
    sample_paths,
)
from nextquery.logs.reading import json_objects, rejects
from nextquery.logs.reading.open import LogFile, Sample
from nextquery.logs.reading.rows import Layout, ParsedRows, parse_lines


def sample(*lines: str) -> Sample:
    return Sample(Path("log"), lines)


def extract(path: str, *objects: Any) -> list[str | None]:
    texts = [each if isinstance(each, str) else json.dumps(each) for each in objects]
    lines = pl.DataFrame({"text": texts}).with_columns(reason=pl.lit(None, pl.String))
    return extract_fields(lines, {"found": path})["found"].to_list()


def test_objects_count_only_if_most_lines_are_objects() -> None:
    assert sample_objects(sample('{"a": 1}', "[1]", '{"b": 2}')) == [{"a": 1}, {"b": 2}]
    assert sample_objects(sample('{"a": 1}', "red")) == []
    assert sample_objects(sample('{"_source": {"a": 1}}')) == [{"a": 1}]


def test_paths_are_those_of_all_objects() -> None:
    found = sample_paths(sample('{"a": {"b": {"c": 1}}}', '{"d": [1]}'))
    assert found == {"a", "a.b", "a.b.c", "d"}


def test_a_path_is_nested_or_a_key_with_dots() -> None:
    assert extract("a.b", {"a": {"b": "x"}}, {"a.b": "y"}, {"_source": {"a": {"b": 3}}}, {}) == [
        *("x", "y", "3", None)
    ]


def test_paths_are_tried_in_turn() -> None:
    assert extract("a|b", {"a": "x", "b": "y"}, {"b": "y"}, {"a": None, "b": "z"}) == [
        "x",
        "y",
        "z",
    ]


def test_only_scalars_count() -> None:
    assert extract("a", {"a": {"b": 1}}, {"a": [1]}, {"a": None}, {"a": True}) == [
        *(None, None, None, "true")
    ]


def test_what_is_no_object_has_its_reason() -> None:
    lines = pl.DataFrame({"text": ["{", "[1]", '{"a": "x\\u0000"}']}).with_columns(
        reason=pl.lit(None, pl.String)
    )
    found = extract_fields(lines, {"a": "a"})["reason"].to_list()
    assert found == [rejects.NOT_JSON, rejects.NOT_JSON, rejects.NUL_BYTE]


@pytest.mark.parametrize(
    "line", ['{"_source": "x"}', '{"_source": 1}', '{"_source": null, "a": 1}']
)
def test_a_source_that_is_no_object_is_a_field(line: str) -> None:
    assert "_source" in sample_paths(sample(line))


PLAIN = JsonLayout(user="who", time="at", query="search.text", click="clicked")


def parse(layout: Layout, *objects: Any) -> ParsedRows:
    texts = [each if isinstance(each, str) else json.dumps(each) for each in objects]
    return parse_lines(layout, pl.DataFrame({"line": range(1, len(texts) + 1), "text": texts}))


def fields(parsed: ParsedRows) -> list[tuple[Any, ...]]:
    return parsed.accepted.select("user", "time", "query", "click").rows()


def test_any_ndjson_by_paths() -> None:
    row = {"who": 17, "at": 1141197432, "search": {"text": 'say "é"'}, "clicked": "x", "more": []}
    assert fields(parse(PLAIN, row)) == [("17", datetime(2006, 3, 1, 7, 17, 12), 'say "é"', "x")]


def test_milliseconds_as_a_number() -> None:
    row = {"who": "a", "at": 1141197432250, "search.text": "red"}
    assert fields(parse(PLAIN, row))[0][1] == datetime(2006, 3, 1, 7, 17, 12, 250000)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
KEYS = st.sampled_from(["a", "b", "c", "b.a", "_source"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["who", "at", "search", "text", "clicked", "_source"]), inner
        )
    ),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.lists(VALUES.map(json.dumps) | st.text(max_size=10), max_size=8))
def test_every_line_is_accepted_or_rejected_once(texts: list[str]) -> None:
    parsed = parse(PLAIN, *[text.replace("\n", "") for text in texts])
    numbers = parsed.accepted["line"].to_list() + parsed.rejected["line"].to_list()
    assert sorted(numbers) == list(range(1, len(texts) + 1))
    assert parsed.rejected["reason"].null_count() == 0


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


KEYS = st.sampled_from(["a", "b", "c", "b.a", "_source"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
JSON_LINES = st.builds(json.dumps, st.dictionaries(KEYS, VALUES), ensure_ascii=st.booleans())
BAD_LINES = st.sampled_from(
    ["x", "[1]", "null", '{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}', '{"a": 1, "a": 2}', "{"]
)


@given(st.lists(JSON_LINES | BAD_LINES, max_size=12))
def test_lines_have_the_same_fields_together_and_one_by_one(lines: list[str]) -> None:
    texts = pl.DataFrame({"text": lines}, {"text": pl.String}).with_columns(
        reason=pl.lit(None, pl.String)
    )
    paths = {"first": "a", "inner": "b.a", "other": "c|b.c"}
    together = extract_fields(texts, paths)
    one_by_one = [extract_fields(texts[number : number + 1], paths) for number in range(len(lines))]
    assert together.rows() == [row for frame in one_by_one for row in frame.rows()]


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_very_deep_nesting_is_rejected_not_a_crash(opening: str) -> None:
    deep = '{"user": "u", "more": ' + opening * 100_000
    lines = pl.DataFrame({"text": [deep, '{"user": "v"}'], "reason": [None, None]})
    fields = extract_fields(lines.cast({"reason": pl.String}), {"user": "user"})
    assert fields.select("user", "reason").rows() == [(None, rejects.NOT_JSON), ("v", None)]
