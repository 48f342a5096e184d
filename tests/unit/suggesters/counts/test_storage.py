"""Arrays and tries in a model folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nextquery.artifacts import Artifact, open_artifact, publish
from nextquery.errors import ArtifactError
from nextquery.suggesters.counts import (
    build_trie,
    load_array,
    load_record,
    load_trie,
    save_array,
    save_record,
)


@dataclass(frozen=True)
class Table:
    rows: NDArray[Any]
    counts: NDArray[Any]


TABLE = Table(np.arange(5), np.array([0.5, 1.5]))


@pytest.fixture
def artifact(tmp_path: Path) -> Artifact:
    with publish(tmp_path / "model", "popularity", {}) as folder:
        save_array(folder, "one.npy", np.arange(3, dtype=np.int32))
        save_record(folder, "table", TABLE)
        build_trie(["paris", "rome"]).save(str(folder / "names.trie"))
    return open_artifact(tmp_path / "model", "popularity")


def test_what_is_written_is_read(artifact: Artifact) -> None:
    assert load_array(artifact, "one.npy").tolist() == [0, 1, 2]
    found = load_record(artifact, "table", Table)
    assert found.rows.tolist() == TABLE.rows.tolist()
    assert found.counts.tolist() == TABLE.counts.tolist()
    assert "rome" in load_trie(artifact, "names.trie")


def test_a_record_has_one_file_for_each_field(artifact: Artifact) -> None:
    names = sorted(path.name for path in artifact.path.glob("table_*"))
    assert names == ["table_counts.npy", "table_rows.npy"]


def test_an_array_of_objects_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        save_array(tmp_path, "bad.npy", np.array([{}], dtype=object))


@pytest.mark.parametrize("name", ["one.npy", "names.trie"])
def test_a_file_that_is_no_such_thing_is_a_clear_error(artifact: Artifact, name: str) -> None:
    (artifact.path / name).write_bytes(b"nonsense")
    read = load_array if name.endswith("npy") else load_trie
    with pytest.raises(ArtifactError, match=name):
        read(artifact, name)
