"""A run from data folder to model folder: what is checked, what must be the same, what is left."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nextquery import api
from nextquery.artifacts import open_artifact
from nextquery.errors import ChecksumError, TrainingError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.synthetic.log import write_log
from nextquery.model.hred import HRED
from nextquery.model.settings import ModelConfig, RunConfig, TrainConfig
from nextquery.text.vocabulary import Vocabulary
from nextquery.training.run import _disk_errors, _feed, identity, train
from nextquery.training.trainer import StopRequest

from .conftest import ALONE, SIZE, random_sessions

SMALL = RunConfig(
    model=ModelConfig(embedding_size=4, query_size=6, session_size=8),
    train=TrainConfig(epochs=1, batch_words=2000, validation_sessions=50),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    folder = tmp_path_factory.mktemp("run")
    write_log(folder / "log.tsv", sessions=600, seed=1)
    return api.prepare(folder / "log.tsv", folder / "data", spelling=False)


@pytest.mark.slow
def test_a_run_ends_in_a_model_folder_and_nothing_else(data: PreparedData, tmp_path: Path) -> None:
    outcome = train(data, tmp_path / "model", SMALL, ALONE, say=print)
    assert outcome.signal == 0
    assert outcome.facts is not None
    assert outcome.facts.steps == outcome.position.step > 3
    assert outcome.facts.perplexity.keys() == {0, 1, 2, None}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    model = HRED.from_pretrained(tmp_path / "model")
    assert list(model.vocabulary.words) == list(Vocabulary(data.words()).words)


@pytest.mark.slow
def test_a_student_goes_on_bit_for_bit_and_names_its_teachers(
    data: PreparedData, tmp_path: Path
) -> None:
    """Words have n-grams, too, and copying and dropout are on."""
    sizes = SMALL.model.model_dump(by_alias=True)
    model = ModelConfig(**{**sizes, "character_ngrams": 50, "copy": True, "dropout": 0.2})
    config = SMALL.model_copy(update={"model": model})
    train(data, tmp_path / "teacher", config, ALONE, say=print)
    given = {"teachers": (str(tmp_path / "teacher"),), "distillation": 0.6, "seed": 2}
    config = config.model_copy(update={"train": SMALL.train.model_copy(update=given)})
    whole = train(data, tmp_path / "whole", config, ALONE, say=print)
    out = tmp_path / "student"

    @contextmanager
    def at_once() -> Iterator[StopRequest]:
        yield StopRequest(signal=15)

    stopped = train(data, out, config, ALONE, say=print, stopping=at_once)
    assert stopped.signal == 15
    assert 0 < stopped.position.step < whole.position.step
    train(data, out, config, ALONE, say=print, resume=True)
    weights = [folder / "model.safetensors" for folder in (tmp_path / "whole", out)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    teacher, student = (open_artifact(each).manifest for each in (tmp_path / "teacher", out))
    [named] = student["training"]["teachers"]
    assert named["run"] == teacher["training"]["run"]
    assert named["validation_perplexity"] == teacher["training"]["validation_perplexity"]
    assert "teachers" not in teacher["training"]
    assert "Learnt from 1 trained model as well" in (out / "README.md").read_text()


def test_an_altered_data_folder_is_refused(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    data = prepared(tiny_log([("a", ("one", "two"))]))
    file = data.session_files("background")[0]
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ChecksumError, match="part-00000"):
        train(data, tmp_path / "model", RunConfig(), ALONE, say=print)


def test_what_a_resumed_run_may_be_given_anew(data: PreparedData) -> None:
    words = Vocabulary(["a", "b"])
    first = identity(SMALL, data, words)

    def changed(**keys: Any) -> set[str]:
        config = SMALL.model_copy(update={"train": SMALL.train.model_copy(update=keys)})
        second = identity(config, data, words)
        return {key for key in first if first[key] != second[key]}

    assert changed(epochs=9, patience=7, report_every=3) == set()
    assert changed(seed=5) == {"train.seed"}
    other = identity(SMALL, data, Vocabulary(["a", "c"]))
    assert {key for key in first if first[key] != other[key]} == {"vocabulary"}


@pytest.mark.parametrize(
    ("settings", "sampled"),
    [
        ({"loss": "auto", "exact_below": 100}, False),
        ({"loss": "auto", "exact_below": 5}, True),
        ({"loss": "sampled", "exact_below": 100}, True),
        ({"loss": "exact", "exact_below": 5}, False),
        ({"loss": "auto", "exact_below": 5, "teachers": ("model",)}, False),
    ],
)
def test_a_large_vocabulary_is_sampled(settings: dict[str, Any], sampled: bool) -> None:
    model = HRED(SMALL.model, Vocabulary(f"w{n}" for n in range(SIZE - 3)))
    config = SMALL.train.model_copy(update=settings)
    feed = _feed(model, config, random_sessions(20, 1), ALONE)
    [*_, step] = feed.steps(feed.epoch(0), 0, 1)
    assert (step.candidates is not None) == sampled
    assert model.output_vectors.sparse == sampled


def test_a_full_disk_says_that_nothing_is_lost(tmp_path: Path) -> None:
    with (
        pytest.raises(TrainingError, match="free some space and run again with `resume`"),
        _disk_errors(tmp_path),
    ):
        raise OSError(28, "No space left on device")
