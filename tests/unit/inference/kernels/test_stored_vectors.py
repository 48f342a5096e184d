"""Word vectors that stay in the model file: rows read when asked for, some kept."""

from pathlib import Path

import pytest
import torch

from nextquery.errors import ArtifactError
from nextquery.guard.guard import Guard
from nextquery.inference.kernels import stored_vectors
from nextquery.inference.kernels.stored_vectors import StoredVectors, blocks, leave_on_disk
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig
from nextquery.model.hred import HRED, WEIGHTS
from nextquery.suggesters.neural import HREDSuggester

from ..conftest import ModelMaker

MODELS = [{}, {"tied": True}, {"factored": False}, {"copy": True}]


@pytest.fixture
def folder(make_model: ModelMaker, tmp_path: Path) -> Path:
    make_model().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("settings", MODELS, ids=str)
@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_rows_on_disk_change_no_suggestion(
    make_model: ModelMaker, tmp_path: Path, settings: dict[str, bool], mode: str
) -> None:
    make_model(**settings).save_pretrained(tmp_path / "model")
    config = DecodeConfig(mode=mode)  # type: ignore[arg-type]
    served = HREDSuggester.load(tmp_path / "model", Guard(), config)
    mapped = Predictor(HRED.from_pretrained(tmp_path / "model"), Guard())
    for context in (["w1 w2", "w3"], ["w7"], ["w1 zebra"]):
        states = mapped.encoder.encode_many([context])
        assert served.suggest(context, 10) == mapped.suggest_many(states, 10, config)[0]
    embeddings = [m for m in served.model.modules() if isinstance(m, torch.nn.Embedding)]
    assert all(isinstance(embedding, StoredVectors) for embedding in embeddings)


@pytest.mark.parametrize("kept_rows", [1, 5, 1000])
def test_any_number_of_kept_rows_gives_the_same_rows(
    folder: Path, kept_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, model = HRED.from_pretrained(folder), HRED.from_pretrained(folder)
    monkeypatch.setattr(stored_vectors, "KEPT_BYTES", kept_rows * 4 * model.config.embedding_size)
    leave_on_disk(model, folder / WEIGHTS)
    for seed in range(20):
        torch.manual_seed(seed)
        words = torch.randint(0, len(model.vocabulary), (2, 3))
        with torch.inference_mode():
            torch.testing.assert_close(
                model.output_vectors(words), plain.output_vectors(words), rtol=0, atol=0
            )
    assert torch.equal(torch.cat(list(blocks(model.output_vectors, 7, 1))), plain.output_matrix)
    filled = torch.cat(list(blocks(model.output_vectors, 14, 7)))
    assert len(filled) % 7 == 0
    assert torch.equal(filled, torch.cat(list(blocks(plain.output_vectors, 14, 7))))


def test_no_words_have_no_vectors(folder: Path) -> None:
    model = HRED.from_pretrained(folder)
    leave_on_disk(model, folder / WEIGHTS)
    assert model.output_vectors(torch.empty(0, dtype=torch.long)).shape == (0, 12)


def test_a_completion_that_the_guard_refuses_wholly_is_an_empty_list(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "blocked.txt").write_text("\n".join(f"w{n}" for n in range(40)) + "\n")
    suggester = HREDSuggester.load(folder, Guard(blocklist=tmp_path / "blocked.txt"))
    for prefix in ("w", "w1", "w2 w3", "w5 unheard"):
        assert suggester.complete(["w1 w2"], prefix) == []


def test_a_file_cut_short_is_an_error(folder: Path) -> None:
    model = HRED.from_pretrained(folder)
    leave_on_disk(model, folder / WEIGHTS)
    whole = (folder / WEIGHTS).stat().st_size
    assert model.word_vectors is not None
    with (folder / WEIGHTS).open("r+b") as stream:
        stream.truncate(whole // 2)
    with pytest.raises(ArtifactError, match="shorter than when it was opened"):
        model.word_vectors(torch.arange(len(model.vocabulary)))
