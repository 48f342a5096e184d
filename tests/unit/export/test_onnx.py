"""ONNX graphs, run by onnxruntime, against the model for every form of it."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from nextquery.artifacts import open_artifact
from nextquery.errors import ArtifactError, InputError
from nextquery.export import onnx as onnx_export
from nextquery.export import onnx_graphs
from nextquery.export.export import export_model
from nextquery.export.lists import ExportSettings
from nextquery.export.onnx import OnnxModel, write_graphs
from nextquery.guard.guard import Guard
from nextquery.inference.context import ContextLimits
from nextquery.inference.decoder import NeuralModel
from nextquery.inference.hred import HREDModel
from nextquery.inference.hred_network import HREDNetwork
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig
from nextquery.inference.transformer import TransformerModel
from nextquery.inference.transformer import weight_shapes as transformer_shapes
from nextquery.inference.weights import weight_shapes
from nextquery.model.settings import ModelConfig, TransformerConfig
from nextquery.suggesters.base import Suggester
from nextquery.suggesters.loading import load
from nextquery.text.vocabulary import END_OF_QUERY, PADDING, Vocabulary

WORDS = 40
AUTHORS = {"zero_step": True, "start_query": True, "gru_biases": True, "output_bias": True}
FORMS: dict[str, dict[str, Any]] = {
    f"{context}-{name}": {"decoder_context": context, **settings}
    for context in ("first", "output", "all")
    for name, settings in {
        "paper": {},
        "copying": {"copy": True},
        "unfactored": {"factored": False, **AUTHORS},
        "tied-copying": {"tied": True, "copy": True, "zero_step": True},
    }.items()
}


def random_network(seed: int = 0, **settings: Any) -> HREDNetwork:
    generator = np.random.default_rng(seed)
    config = ModelConfig(
        **{"vocabulary_size": WORDS, "embedding_size": 6, "query_size": 8, "session_size": 10}
        | settings
    )
    vocabulary = Vocabulary(f"w{number}" for number in range(WORDS))
    shapes = weight_shapes(config, len(vocabulary))
    weights = {
        name: generator.normal(scale=0.7, size=shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    return HREDNetwork(config, vocabulary, weights)


def opened(model: onnx.ModelProto) -> Any:
    return onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("settings", FORMS.values(), ids=list(FORMS))
def test_queries_and_sessions_are_encoded_as_by_the_model(settings: dict[str, Any]) -> None:
    network = random_network(**settings)
    queries = [[4, 5, END_OF_QUERY], [END_OF_QUERY], [7, 8, 9, 2, END_OF_QUERY]]
    words = np.zeros((3, 5), dtype=np.int64)
    for row, query in enumerate(queries):
        words[row, : len(query)] = query
    feeds = {"words": words, "lengths": np.array([3, 1, 5])}
    vectors, *states = opened(onnx_graphs.query_encoder(network)).run(None, feeds)
    expected = network.encode_queries(queries)
    close(vectors, [item[-1] for item in expected])
    assert bool(states) == network.config.copying
    if states:
        close(states[0][2], expected[2])
    state = np.random.default_rng(1).normal(size=(3, 10)).astype(np.float32)
    asked = {"session_state": state, "query_vector": vectors}
    after = opened(onnx_graphs.session_encoder(network)).run(None, asked)[0]
    close(after, network.extend_session(state, vectors)[0])


@pytest.mark.parametrize("settings", FORMS.values(), ids=list(FORMS))
def test_a_step_is_that_of_the_model(settings: dict[str, Any]) -> None:
    network = random_network(**settings)
    rows = np.random.default_rng(2).normal(size=(2, 10)).astype(np.float32)
    before = np.random.default_rng(3).normal(size=(2, 8)).astype(np.float32)
    word = np.array([PADDING, 5])
    feeds = {"session_state": rows, "decoder_state": before, "word": word}
    if network.config.copying:  # an empty session: the softmax alone
        feeds |= {"source_states": np.ones((1, 8), dtype=np.float32), "source_ages": np.array([0])}
    decoder = opened(onnx_graphs.decoder(network))
    names = [item.name for item in decoder.get_outputs()]
    result = dict(zip(names, decoder.run(None, feeds), strict=True))
    session = network.session_inputs(rows)
    state = network.advance_decoder(before, word, session)
    state[0] = network.start_decoder(rows, session)[0]
    close(result["next_decoder_state"], state)
    previous = network.previous_words(word)
    previous[0] = 0
    omega = network.output_vector(state, previous, session)
    logits = omega @ network.output_matrix.T + network.weights.get("output_bias", np.float32(0))
    logits[:, PADDING] = -np.inf
    expected = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    close(result["log_probabilities"][:, 1:], expected[:, 1:])
    assert (result["log_probabilities"][:, PADDING] == -np.inf).all()
    if network.config.copying:
        assert (result["copy_log_probabilities"] == -np.inf).all()


def test_with_copying_all_probabilities_sum_to_one() -> None:
    network = random_network(copy=True)
    decoder = opened(onnx_graphs.decoder(network))
    feeds = {
        "session_state": np.ones((2, 10), dtype=np.float32),
        "decoder_state": np.ones((2, 8), dtype=np.float32),
        "word": np.array([PADDING, 7]),
        "source_states": np.random.default_rng(4).normal(size=(5, 8)).astype(np.float32),
        "source_ages": np.array([30, 2, 2, 1, 1]),
    }
    names = ["log_probabilities", "copy_log_probabilities"]
    generated, copied = decoder.run(names, feeds)
    total = np.exp(generated).sum(axis=1) + np.exp(copied).sum(axis=1)
    close(total, [1.0, 1.0])
    assert (np.exp(copied) > 0).all()


def test_what_no_file_of_onnx_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_graphs, "_LARGEST", 1000)
    with pytest.raises(InputError, match=r"decoder\.onnx would have .* GB"):
        onnx_graphs.decoder(random_network())


LIMITS = ContextLimits(queries=3, words=2)
CONTEXTS = [[], ["w1 w2"], ["w1", "outside w3", "w4 w5 w6"], ["w9", "w1", "w2", "outside", "w3"]]
CANDIDATES = ["w1 w2", "outside", "w7 w8 w9", "w3 outside w1"]


@pytest.mark.parametrize("settings", FORMS.values(), ids=list(FORMS))
def test_likelihoods_are_those_of_hred(settings: dict[str, Any], tmp_path: Path) -> None:
    assert_scores_alike(HREDModel(random_network(**settings)), tmp_path)


@pytest.mark.parametrize("copy", [False, True], ids=["plain", "copying"])
def test_likelihoods_are_those_of_the_transformer(copy: bool, tmp_path: Path) -> None:
    sizes = {"vocabulary_size": 40, "embedding_size": 6, "model_size": 16, "heads": 2, "layers": 3}
    config = TransformerConfig.model_validate({**sizes, "copy": copy})
    vocabulary = Vocabulary(f"w{number}" for number in range(40))
    generator = np.random.default_rng(0)
    weights = {
        name: generator.normal(scale=0.5, size=shape).astype(np.float32)
        for name, shape in transformer_shapes(config, len(vocabulary)).items()
    }
    assert_scores_alike(TransformerModel(config, vocabulary, weights), tmp_path)


def assert_scores_alike(model: NeuralModel[Any], folder: Path) -> None:
    """Cut sessions and queries, words outside the vocabulary and empty sessions included."""
    write_graphs(model, LIMITS, folder)
    (folder / "vocabulary.txt").write_text("\n".join(model.vocabulary.words) + "\n")
    exported, predictor = OnnxModel(folder), Predictor(model, Guard(), LIMITS)
    states = predictor.encoder.encode_many(CONTEXTS)
    expected = predictor.score_many(states, [CANDIDATES] * len(CONTEXTS))
    for context, scores in zip(CONTEXTS, expected, strict=True):
        exported_scores = [exported.score(context, text) for text in CANDIDATES]
        expected_scores = [score.log_likelihood for score in scores]
        assert exported_scores == pytest.approx(expected_scores, abs=1e-4)


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
    """The graphs read them as the unknown word, which is not a fault of an export."""
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
    assert onnx_export._read_alike("red shoes", hred)
    assert not onnx_export._read_alike("red unheard", hred)


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
    readme = onnx_export._readme({**facts, "character_ngrams": 0}, Guard(), 1e-6)
    assert "(sources, 64)" in readme
    assert "n-grams" not in readme
    readme = onnx_export._readme({**facts, "character_ngrams": 9}, Guard(), 1e-6)
    assert "by its character n-grams" in readme
    assert "{" not in readme


@pytest.fixture(scope="module")
def node_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with onnxruntime-node from npm."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("npm")
    (folder / "package.json").write_text("{}")
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "onnxruntime-node"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.skip(f"npm cannot install onnxruntime-node: {done.stderr[-300:]}")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hred", "transformer"])
def test_the_example_in_javascript_suggests_as_the_model(
    kind: str, served_models: dict[str, Path], node_folder: Path
) -> None:
    """A beam over known queries, ranked by likelihood alone."""
    model: Any = load(served_models[kind])
    export_model(model, "onnx", node_folder / kind)
    context = ["red shoes", "Paris!"]
    command = ["node", f"{kind}/suggest.mjs", *context]
    shown = subprocess.run(command, cwd=node_folder, capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0, shown.stderr
    suggested = json.loads(shown.stdout)
    config = DecodeConfig(known="only", specificity=0.0, fold=False)
    expected = model.suggest(context, 5, config=config)
    assert [item["shown"] for item in suggested] == [item.text for item in expected]
    assert [item["score"] for item in suggested] == pytest.approx(
        [item.score for item in expected], abs=1e-3
    )
