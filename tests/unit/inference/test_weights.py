"""The weights of a model folder: mapped, and refused when they are not what the manifest says."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from nextquery.errors import ArtifactError
from nextquery.inference.weights import check_finite, read_weights, weight_shapes
from nextquery.model.settings import WEIGHTS

from .conftest import ModelMaker

SETTINGS: list[dict[str, Any]] = [
    {"usefulness": True},
    {},
    {"factored": False},
    {"tied": True, "output_bias": True},
    {"decoder_context": "output"},
    {"character_ngrams": 50},
    {"character_ngrams": 50, "tied": True},
    {"decoder_context": "all", "gru_biases": True, "copy": True},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_names_and_shapes_are_those_of_the_model(
    make_model: ModelMaker, settings: dict[str, Any], tmp_path: Path
) -> None:
    model = make_model(**settings)
    shapes = weight_shapes(model.config, len(model.vocabulary))
    expected = model.arrays()
    assert shapes == {name: each.shape for name, each in expected.items()}
    model.save_pretrained(tmp_path / "model")
    found = read_weights(tmp_path / "model" / WEIGHTS, shapes, tmp_path)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_other_tensors_are_refused(tmp_path: Path) -> None:
    save_file({"one": np.zeros((2, 3), dtype=np.float32)}, tmp_path / "weights")
    shown = Path("model") / WEIGHTS
    assert read_weights(tmp_path / "weights", {"one": (2, 3)}, shown)["one"].shape == (2, 3)
    for shapes in ({"one": (3, 2)}, {"two": (2, 3)}, {"one": (2, 3), "two": (1,)}, {}):
        with pytest.raises(ArtifactError, match=r"model\.safetensors: its tensors do not fit"):
            read_weights(tmp_path / "weights", shapes, shown)
    save_file({"one": np.zeros((2, 3))}, tmp_path / "weights")
    with pytest.raises(ArtifactError, match="do not fit"):
        read_weights(tmp_path / "weights", {"one": (2, 3)}, shown)


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b"{}", b"\x02" + bytes(7) + b"[]"])
def test_what_is_no_safetensors_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "weights").write_bytes(content)
    with pytest.raises(ArtifactError, match="cannot be read as safetensors"):
        read_weights(tmp_path / "weights", {}, tmp_path)


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    save_file({"one": np.zeros((20, 3), dtype=np.float32)}, tmp_path / "weights")
    whole = (tmp_path / "weights").read_bytes()
    (tmp_path / "weights").write_bytes(whole[:-4])
    with pytest.raises(ArtifactError, match="cannot be read as safetensors"):
        read_weights(tmp_path / "weights", {"one": (20, 3)}, tmp_path)


def test_weights_that_are_no_numbers_are_refused() -> None:
    values = np.zeros((5000, 2), dtype=np.float32)
    check_finite({"one": values})
    values[4999, 1] = np.nan
    with pytest.raises(ArtifactError, match="values in one that are not finite"):
        check_finite({"one": values})


def test_arrays_may_be_changed_without_changing_the_file(tmp_path: Path) -> None:
    save_file({"one": np.zeros(3, dtype=np.float32)}, tmp_path / "weights")
    read_weights(tmp_path / "weights", {"one": (3,)}, tmp_path)["one"][:] = 7.0
    again = read_weights(tmp_path / "weights", {"one": (3,)}, tmp_path)["one"]
    np.testing.assert_array_equal(again, 0.0)
