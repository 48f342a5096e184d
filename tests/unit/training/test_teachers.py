"""Teachers that do not suit a student are refused by name."""

from pathlib import Path
from typing import Any

import pytest
import torch

from nextquery.artifacts import publish
from nextquery.errors import ArtifactError, ConfigError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.provenance import data_entry
from nextquery.model.files import KIND
from nextquery.model.hred import HRED
from nextquery.model.settings import ModelConfig
from nextquery.text.query_vectors import QueryVectorTable
from nextquery.text.vocabulary import Vocabulary
from nextquery.text.word_vectors import WordVectors
from nextquery.training.continuing import FRESH
from nextquery.training.teachers import open_teachers

WORDS = Vocabulary(["red", "shoes"])
SIZES = {"embedding_size": 4, "query_size": 5, "session_size": 6}


@pytest.fixture
def data(prepared: Any, tiny_log: Any) -> PreparedData:
    found: PreparedData = prepared(tiny_log([("a", ("red", "shoes")), ("b", ("red", "boots"))]))
    return found


def saved(folder: Path, words: Vocabulary = WORDS, **settings: Any) -> str:
    config = ModelConfig.model_validate({**SIZES, **settings})
    size = config.query_vectors
    table = QueryVectorTable(WordVectors(("red",), torch.ones((1, size)).numpy())) if size else None
    HRED(config, words, table).save_pretrained(folder)
    return str(folder)


def test_suitable_ones_are_opened_in_order(data: PreparedData, tmp_path: Path) -> None:
    folders = [saved(tmp_path / "a"), saved(tmp_path / "b", copy=True, query_size=7)]
    teachers = open_teachers(folders, ModelConfig(), WORDS, data)
    assert [teacher.model.config.query_size for teacher in teachers] == [5, 7]
    assert [teacher.facts.perplexity for teacher in teachers] == [None, None]
    assert open_teachers([], ModelConfig(), WORDS, data) == []


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"words": Vocabulary(["shoes", "red"])}, "another vocabulary .5 symbols, here 5.;"),
        ({"character_ngrams": 9}, "has model.character_ngrams = 9, here 0"),
        ({"query_vectors": 3}, "needs vectors of queries"),
    ],
)
def test_others_are_refused(
    data: PreparedData, tmp_path: Path, settings: dict[str, Any], problem: str
) -> None:
    folder = saved(tmp_path / "model", **settings)
    with pytest.raises(ConfigError, match=problem) as error:
        open_teachers([folder], ModelConfig(), WORDS, data)
    assert folder in str(error.value)


def test_who_was_forgotten_is_not_taught(data: PreparedData, tmp_path: Path) -> None:
    """A teacher that still knows a user would hand on what it knows."""
    model = HRED(ModelConfig.model_validate(SIZES), WORDS)
    entries = {**model.manifest_entries(), "data": data_entry(data)}
    with publish(tmp_path / "model", KIND, entries) as partial:
        model.write_files(partial)
    open_teachers([str(tmp_path / "model")], ModelConfig(), WORDS, data)
    assert isinstance(data.artifact.manifest, dict)
    data.artifact.manifest["revisions"] = [{"date": "2026-01-01", "forgotten_users": 2}]
    with pytest.raises(ConfigError, match="learnt from 2 users whom the data folder has forgotten"):
        open_teachers([str(tmp_path / "model")], ModelConfig(), WORDS, data)


def test_a_folder_that_is_no_model_is_refused(data: PreparedData, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError):
        open_teachers([str(tmp_path / "none")], ModelConfig(), WORDS, data)


def test_going_on_from_a_student_needs_no_teachers() -> None:
    """Its words may be others by then."""
    assert FRESH["teachers"] == ()
