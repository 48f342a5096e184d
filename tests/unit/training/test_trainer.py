"""The training loop on a few random sessions: stopping, the batch named, its reports."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nextquery.errors import TrainingError
from nextquery.model.hred import HRED
from nextquery.model.likelihood import SessionLikelihood
from nextquery.model.settings import ModelConfig, TrainConfig
from nextquery.text.batching import build_batch
from nextquery.text.vocabulary import Vocabulary
from nextquery.training.checkpoint import CheckpointFolder
from nextquery.training.feed import Feed, Order
from nextquery.training.trainer import METRICS, Trainer, TrainingLog, read_metrics

from .conftest import ALONE, SIZE, random_sessions


def trainer(folder: Path, **settings: Any) -> Trainer:
    torch.manual_seed(1)
    config = ModelConfig(embedding_size=6, query_size=8, session_size=10)
    model = HRED(config, Vocabulary(f"word{index}" for index in range(SIZE - 3)))
    train = TrainConfig.model_validate({"batch_words": 64, "report_every": 1, **settings})
    return Trainer(
        SessionLikelihood(model, chunk=32),
        train,
        Feed(random_sessions(40, 1), Order(train.seed, train.batch_words, train.sort_window)),
        random_sessions(10, 2),
        CheckpointFolder(folder, {}),
        ALONE,
    )


def test_a_loss_that_is_not_finite_names_the_batch(tmp_path: Path) -> None:
    training = trainer(tmp_path, rate=1e30)
    with pytest.raises(TrainingError, match=r"step \d+: loss .* batch \d+ \(sessions 1\d\d, "):
        training.run(None)


@pytest.mark.slow
def test_training_stops_when_validation_does_not_improve(tmp_path: Path) -> None:
    training = trainer(tmp_path, rate=0.3, epochs=100, patience=2, decay=0.5)
    training.run(None)
    position = training.position
    assert position.stale == 2
    assert position.epoch < 99
    assert position.best_step < position.step
    assert position.rate <= 0.3 * 0.5**2
    assert tmp_path.joinpath(f"step-{position.best_step:08d}").is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("every", [0, 3])
def test_validations_come_when_asked(tmp_path: Path, every: int) -> None:
    training = trainer(tmp_path / "checkpoints", epochs=2, validate_every=every)
    with TrainingLog(tmp_path, 0, 1, 2) as training_log:
        training.run(training_log)
    entries = list(read_metrics(tmp_path / METRICS))
    steps = [entry["step"] for entry in entries if "loss" in entry]
    validated = [entry["step"] for entry in entries if "validation_nll" in entry]
    assert steps == list(range(1, training.position.step + 1))
    if every:
        assert validated[:-1] == [step for step in steps[:-1] if step % every == 0]
    assert len(validated) == (2 if not every else len(validated))
    assert validated[-1] == steps[-1]
    for entry in entries:
        if "validation_nll" in entry:
            assert entry["validation_perplexity"] == pytest.approx(np.exp(entry["validation_nll"]))


def rates(folder: Path, **settings: Any) -> list[float]:
    with TrainingLog(folder, 0, 1, 1) as journal:
        trainer(folder / "checkpoints", **settings).run(journal)
    return [entry["rate"] for entry in read_metrics(folder / METRICS) if "rate" in entry]


def test_the_rate_warms_up_evenly_and_then_stays(tmp_path: Path) -> None:
    found = rates(tmp_path, epochs=2, rate=0.01, warmup_steps=4)
    assert found[:4] == pytest.approx([0.0025, 0.005, 0.0075, 0.01])
    assert set(found[4:]) == {0.01}


def test_a_step_of_the_warm_up_is_as_small_as_its_rate(tmp_path: Path) -> None:
    moved: list[torch.Tensor] = []
    for settings in ({"rate": 0.001}, {"rate": 0.01, "warmup_steps": 10}):
        training = trainer(tmp_path / str(len(moved)), epochs=1, batch_words=10_000, **settings)
        training.run(None)
        assert training.position.step == 1
        moved.append(training.likelihood.model.output_matrix.detach().clone())
    assert torch.equal(*moved)


@pytest.mark.slow
@pytest.mark.parametrize("per", ["word", "session"])
def test_the_loss_is_a_mean_over_words_or_sessions(tmp_path: Path, per: str) -> None:
    """By the norm of the first gradient; what is reported stays per word."""
    with TrainingLog(tmp_path, 0, 1, 1) as journal:
        settings = {"epochs": 1, "batch_words": 10_000, "clip": 1e9, "loss_per": per}
        training = trainer(tmp_path / "checkpoints", **settings)
        model = trainer(tmp_path / "same", **settings).likelihood  # with the first weights
        training.run(journal)
    corpus = random_sessions(40, 1)
    total, rows = model(build_batch(corpus, np.arange(40)))
    (total / (len(rows) if per == "word" else 40)).backward()
    expected = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    first = next(iter(read_metrics(tmp_path / METRICS)))
    assert first["gradient_norm"] == pytest.approx(float(expected.norm()), rel=1e-4)
    assert first["loss"] == pytest.approx(-float(total.detach()) / len(rows), rel=1e-5)
