import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextquery.artifacts import open_artifact
from nextquery.errors import ArtifactError, InputError
from nextquery.export import onnx
from nextquery.export.engines import ExportSettings
from nextquery.export.export import export_model
from nextquery.export.onnx import OnnxModel
from nextquery.inference.settings import DecodeConfig
from nextquery.suggesters.base import Suggester
from nextquery.suggesters.loading import load


@pytest.fixture
def hred(served_models: dict[str, Path], tmp_path: Path) -> Any:
    blocked = tmp_path / "blocked.txt"
    blocked.write_text("leather\n")
    return load(served_models["hred"], blocklist=blocked)


def test_an_export_is_complete_and_scores_as_the_model(hred: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    facts = export_model(hred, "onnx", out, ExportSettings(queries=5))
    open_artifact(out, "export").verify()
    assert facts.queries == 5
    assert facts.largest_difference is not None
    assert facts.largest_difference < 1e-4
    context, candidate = ["red shoes", "unheard"], "paris hotels"
    expected = hred.score(context, [candidate])[0].log_likelihood
    assert OnnxModel(out).score(context, candidate) == pytest.approx(expected, abs=1e-4)
    readme = (out / "README.md").read_text()
    assert "{" not in readme
    assert "copy_log_probabilities" not in readme


def test_a_transformer_is_exported_as_one_graph(
    served_models: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    facts = export_model(load(served_models["transformer"]), "onnx", out, ExportSettings(queries=5))
    assert facts.largest_difference is not None
    assert facts.largest_difference < 1e-4
    assert [path.name for path in out.glob("*.onnx")] == ["transformer.onnx"]
    readme = (out / "README.md").read_text()
    assert "{" not in readme
    assert "transformer.onnx" in readme


def test_words_known_by_their_n_grams_are_not_compared(hred: Any, tmp_path: Path) -> None:
    """The graphs read them as the unknown word, which is no fault of an export."""
    network = hred.network
    network.config = network.config.model_copy(update={"character_ngrams": 7})
    size = (7, network.config.embedding_size)
    network.weights = {**network.weights, "character_ngrams.weight": np.ones(size, np.float32)}
    out = tmp_path / "out"
    facts = export_model(hred, "onnx", out, ExportSettings(queries=5))
    assert facts.largest_difference is not None
    assert facts.largest_difference < 1e-4
    scores = [
        OnnxModel(out).score(["unheard"], "paris"),
        hred.score(["unheard"], ["paris"])[0].log_likelihood,
    ]
    assert abs(scores[0] - scores[1]) > 1e-4
    assert onnx._read_alike("red shoes", hred)
    assert not onnx._read_alike("red unheard", hred)


def test_nothing_that_the_guard_refuses_leaves(hred: Any, tmp_path: Path) -> None:
    export_model(hred, "onnx", tmp_path / "out")
    words = (tmp_path / "out" / "vocabulary.txt").read_text().splitlines()
    assert len(words) == len(hred.model.vocabulary)
    assert words.count("<hidden>") == 1, "the blocked word"
    assert all(b"leather" not in path.read_bytes() for path in (tmp_path / "out").iterdir())


def test_only_a_network_is_exported(model: Suggester, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a model of the kind adjacency"):
        export_model(model, "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_graphs_that_score_differently_are_not_published(
    hred: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OnnxModel, "score", lambda *_: float("nan"))
    with pytest.raises(ArtifactError, match="differently from the model"):
        export_model(hred, "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_copying_part_of_the_readme_says_its_sizes() -> None:
    facts = {"kind": "hred", "query_size": 64, "session_size": 96, "words": 9, "copying": True}
    readme = onnx._readme({**facts, "character_ngrams": 0}, load_guard(), 1e-6)
    assert "(sources, 64)" in readme
    assert "n-grams" not in readme
    readme = onnx._readme({**facts, "character_ngrams": 9}, load_guard(), 1e-6)
    assert "by its character n-grams" in readme
    assert "{" not in readme


def load_guard() -> Any:
    from nextquery.guard.guard import Guard

    return Guard()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hred", "transformer"])
def test_the_example_in_javascript_suggests_as_the_model(
    kind: str,
    served_models: dict[str, Path],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """With onnxruntime-node from npm: a beam over known queries, ranked by likelihood alone."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    out = tmp_path / "out"
    model: Any = load(served_models[kind])
    export_model(model, "onnx", out)
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "onnxruntime-node"]
    place = tmp_path_factory.mktemp("npm")
    (place / "package.json").write_text("{}")
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.skip(f"npm cannot install onnxruntime-node: {done.stderr[-300:]}")
    shutil.copytree(out, place / "out")
    context = ["red shoes", "Paris!"]
    shown = subprocess.run(
        ["node", "out/suggest.mjs", *context], cwd=place, capture_output=True, text=True, timeout=60
    )
    assert shown.returncode == 0, shown.stderr
    suggested = json.loads(shown.stdout)
    config = DecodeConfig(known="only", specificity=0.0, fold=False)
    expected = model.suggest(context, 5, config=config)
    assert [each["shown"] for each in suggested] == [each.text for each in expected]
    assert [each["score"] for each in suggested] == pytest.approx(
        [each.score for each in expected], abs=1e-3
    )
