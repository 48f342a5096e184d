"""HRED's pieces, step by step, against their definition, and what saving keeps."""

import json
from pathlib import Path

import pytest
import torch

from nextquery.errors import ArtifactError, ChecksumError
from nextquery.model.hred import HRED
from nextquery.model.settings import WEIGHTS, ModelConfig
from nextquery.text.vocabulary import END_OF_QUERY, Vocabulary

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


def test_words_in_another_order_give_another_query_vector() -> None:
    model = small()
    words = torch.tensor([[3, 4, END_OF_QUERY], [4, 3, END_OF_QUERY]])
    vectors, _ = model.encode_queries(words, torch.tensor([3, 3]))
    assert not torch.allclose(vectors[0], vectors[1])


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
