"""Opening the guard's tables: what is not as it was written is refused by name."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextquery.artifacts import publish
from nextquery.errors import ArtifactError
from nextquery.guard.tables import Tables, open_tables, write_tables

from .conftest import DataMaker

CROWD = [(f"user{number}", ["hotel paris", "cheap hotel"]) for number in range(3)]


def written(make_data: DataMaker, folder: Path, **changes: Any) -> Path:
    """A model folder whose guard files were changed before its manifest was made."""
    with publish(folder, "adjacency", {}) as partial:
        write_tables(make_data(CROWD, 3), partial)
        for name, contents in changes.items():
            file = partial / "guard" / name.replace("__", ".")
            if isinstance(contents, np.ndarray):
                np.save(file, contents)
            else:
                file.write_text(contents)
    return folder


def test_tables_that_know_nothing_refuse_nothing() -> None:
    tables = Tables()
    tables.check()
    assert (tables.min_users, tables.count("anything"), len(tables.words)) == (1, 0, 0)
    assert not tables.rare_pairs.contains(np.array([12345], np.uint64)).any()


def test_a_folder_is_opened_as_it_was_written(make_data: DataMaker, tmp_path: Path) -> None:
    tables = open_tables(written(make_data, tmp_path / "model"))
    assert (tables.min_users, tables.count("cheap hotel")) == (3, 3)


@pytest.mark.parametrize(
    "settings",
    [
        "not json",
        "[]",
        json.dumps({"min_users": 3}),
        json.dumps({"min_users": 3, "key": "no hex"}),
    ],
)
def test_settings_that_cannot_be_read(make_data: DataMaker, tmp_path: Path, settings: str) -> None:
    folder = written(make_data, tmp_path / "model", settings__json=settings)
    with pytest.raises(ArtifactError, match=r"settings.json: cannot be read .*make the model"):
        open_tables(folder)


@pytest.mark.parametrize(
    "settings",
    [
        {"min_users": 0, "key": ""},
        {"min_users": True, "key": ""},
        {"min_users": 3, "key": "00" * 65},
    ],
)
def test_settings_that_make_no_sense(
    make_data: DataMaker, tmp_path: Path, settings: dict[str, Any]
) -> None:
    folder = written(make_data, tmp_path / "model", settings__json=json.dumps(settings))
    with pytest.raises(ArtifactError, match="not as it should be; make the model again"):
        open_tables(folder)


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("common_pairs__npy", np.array([5, 3], np.uint64), "common_pairs are out of order"),
        ("common_pairs__npy", np.array([3, 5], np.uint32), "common_pairs are not keys"),
        ("rare_pairs__npy", np.zeros(0, np.uint8), "rare_pairs is no filter"),
        ("rare_queries__npy", np.zeros(0, np.uint8), "rare_queries is no filter"),
    ],
)
def test_arrays_that_contradict_what_they_are(
    make_data: DataMaker, tmp_path: Path, name: str, values: Any, said: str
) -> None:
    folder = written(make_data, tmp_path / "model", **{name: values})
    with pytest.raises(ArtifactError, match=said):
        open_tables(folder)
