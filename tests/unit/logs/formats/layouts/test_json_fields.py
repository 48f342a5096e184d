import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nextquery.logs.formats.json import extract_fields, sample_objects, sample_paths
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import Sample


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


@pytest.mark.parametrize(
    "line", ["[" * 100_000, '{"a":' * 100_000, '{"a":' * 500 + "1" + "}" * 500]
)
def test_brackets_without_end_are_no_traceback(line: str) -> None:
    assert len(sample_paths(sample(line))) <= 8
    assert extract("a", line) == [None]
