"""HRED step by step against its definition, its first weights, and what saving keeps."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nextquery.errors import ArtifactError, ChecksumError
from nextquery.model.hred import HRED, initialise_as_authors
from nextquery.model.settings import WEIGHTS, ModelConfig
from nextquery.model.stored import take_word_vectors
from nextquery.text.vectors import WordVectors
from nextquery.text.vocabulary import END_OF_QUERY, PADDING, Vocabulary

VOCABULARY = Vocabulary([f"word{index}" for index in range(9)])


def small(**choices: bool | float | str) -> HRED:
    torch.manual_seed(3)
    sizes = {"embedding_size": 4, "query_size": 5, "session_size": 6}
    return HRED(ModelConfig.model_validate({**sizes, **choices}), VOCABULARY).eval()


def test_padding_does_not_change_query_vectors() -> None:
    model = small()
    words = torch.tensor([[3, END_OF_QUERY, 0, 0], [4, 5, 6, END_OF_QUERY]])
    vectors, states = model.encode_queries(words, torch.tensor([2, 4]))
    alone, _ = model.encode_queries(words[:1, :2], torch.tensor([2]))
    torch.testing.assert_close(vectors[:1], alone)
    torch.testing.assert_close(states[1, 3], vectors[1])
    assert not states[0, 2:].any()


def test_a_session_starts_at_zero_as_in_the_paper() -> None:
    assert not small().start_session(2).any()
    assert small(start_query=True).start_session(2).abs().sum() > 0


def test_the_first_word_comes_from_d0_itself_as_in_the_paper() -> None:
    paper, code = small(), small(zero_step=True)
    state = torch.randn(3, 6)
    expected = torch.tanh(state @ paper.decoder_start.weight.t() + paper.decoder_start.bias)
    nothing = paper.session_inputs(state)
    torch.testing.assert_close(paper.start_decoder(state, nothing), expected)
    stepped, _ = code.decoder.step(torch.zeros(3, 15), expected)
    torch.testing.assert_close(code.start_decoder(state, nothing), stepped)


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"copy": True},
        {"tied": True},
        {"factored": False},
        {"decoder_context": "all", "gru_biases": True, "output_bias": True},
    ],
)
def test_a_saved_model_comes_back_bit_for_bit(
    tmp_path: Path, choices: dict[str, bool | str]
) -> None:
    model = small(**choices)
    model.save_pretrained(tmp_path / "model")
    loaded = HRED.from_pretrained(tmp_path / "model")
    assert loaded.config == model.config
    assert loaded.vocabulary.words == VOCABULARY.words
    expected = dict(model.named_parameters())
    assert expected.keys() == dict(loaded.named_parameters()).keys()
    for name, parameter in loaded.named_parameters():
        assert torch.equal(parameter, expected[name])


def test_a_folder_from_before_the_newer_keys_opens_as_the_papers_form(tmp_path: Path) -> None:
    model = small()
    model.save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / "manifest.json"
    manifest = json.loads(file.read_text())
    for key in ("decoder_context", "gru_biases", "output_bias"):
        del manifest["model"][key]
    for key in ("checksum", "format", "sizes"):  # such folders have none of these either
        del manifest[key]
    file.write_text(json.dumps(manifest))
    assert HRED.from_pretrained(tmp_path / "model").config == model.config


def test_the_session_reaches_the_decoder_where_the_setting_says() -> None:
    states = torch.randn(3, 6)
    seen = {
        context: [
            part is not None for part in small(decoder_context=context).session_inputs(states)
        ]
        for context in ("first", "output", "all")
    }
    assert seen == {"first": [False, False], "output": [False, True], "all": [True, True]}


def test_an_altered_weight_file_is_refused(tmp_path: Path) -> None:
    small().save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / WEIGHTS
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(ChecksumError, match=WEIGHTS):
        HRED.from_pretrained(tmp_path / "model")
    file.write_bytes(content[:-8])
    with pytest.raises(ArtifactError, match="cannot be read as safetensors"):
        HRED.from_pretrained(tmp_path / "model", verify=False)


LARGER_VOCABULARY = Vocabulary([f"word{index}" for index in range(200)])


@pytest.mark.parametrize("factored", [True, False])
def test_matrices_are_small_biases_zero_and_recurrences_orthogonal(factored: bool) -> None:
    torch.manual_seed(2)
    sizes = {"embedding_size": 32, "query_size": 40, "session_size": 48}
    choices = {"gru_biases": True, "output_bias": True, "decoder_context": "all", "copy": True}
    config = ModelConfig.model_validate({**sizes, **choices, "factored": factored})
    model = HRED(config, LARGER_VOCABULARY)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.fill_(1.0)
    initialise_as_authors(model)
    for name, parameter in model.named_parameters():
        if name.endswith((".gates", ".candidate")):
            for matrix in parameter.detach().view(-1, *parameter.shape[1:] * 2):
                torch.testing.assert_close(matrix @ matrix.t(), torch.eye(len(matrix)))
        elif parameter.dim() == 1:
            assert not parameter.any(), name
        else:
            assert 0.008 < float(parameter.detach().std()) < 0.012, name
    assert not model.output_matrix[PADDING].any()


@pytest.mark.parametrize("size", [20, 3])
def test_given_vectors_are_reduced_and_as_long_as_random_ones(size: int) -> None:
    torch.manual_seed(2)
    model = HRED(ModelConfig(embedding_size=8, query_size=8, session_size=8), LARGER_VOCABULARY)
    assert model.word_vectors is not None
    before = model.word_vectors.weight.detach().clone()
    rng = np.random.default_rng(3)
    words = tuple(f"word{number}" for number in range(0, 200, 2))
    vectors = WordVectors(words, (5 * rng.normal(size=(100, size))).astype(np.float32))
    take_word_vectors(model.word_vectors, model.vocabulary, vectors)
    after = model.word_vectors.weight.detach()
    changed = (after != before).any(dim=1)
    assert changed.sum() == 100
    assert not changed[LARGER_VOCABULARY.id("word1")]
    assert changed[LARGER_VOCABULARY.id("word2")]
    kept = min(size, 8)
    assert torch.equal(after[:, kept:], before[:, kept:])
    assert float(after[changed, :kept].std()) == pytest.approx(0.1, rel=0.1)
    expected = torch.from_numpy(vectors.reduced(8).vectors)
    rows = torch.tensor([LARGER_VOCABULARY.id(word) for word in words])
    ratio = after[rows, :kept] / expected
    torch.testing.assert_close(ratio, ratio[:1, :1].expand_as(ratio))


class Writes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The operations that write into a tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.memory = tensor.untyped_storage().data_ptr()
        self.operations: list[str] = []

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        written = isinstance(args[0], torch.Tensor) if operation._schema.is_mutable else False
        if written and args[0].untyped_storage().data_ptr() == self.memory:
            self.operations.append(str(operation))
        return operation(*args, **(kwargs or {}))


def test_given_vectors_reach_a_model_on_another_device() -> None:
    """`copy_` takes values of any device; all other operations want those of the tensor."""
    model = HRED(ModelConfig(embedding_size=8, query_size=8, session_size=8), LARGER_VOCABULARY)
    assert model.word_vectors is not None
    vectors = WordVectors(("word3", "word7"), np.eye(2, 20, dtype=np.float32))
    with Writes(model.word_vectors.weight) as writes:
        take_word_vectors(model.word_vectors, model.vocabulary, vectors)
    assert writes.operations == ["aten.copy_.default"]
