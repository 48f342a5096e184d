"""The training loop, its perplexity and its reports."""

import json
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
from nextquery.training.trainer import (
    EVENTS,
    METRICS,
    Feed,
    Trainer,
    TrainingLog,
    measure,
    read_metrics,
)

from .conftest import ALONE, SIZE, random_sessions


def likelihood_of(dropout: float = 0.0) -> SessionLikelihood:
    torch.manual_seed(1)
    config = ModelConfig(embedding_size=6, query_size=8, session_size=10, dropout=dropout)
    model = HRED(config, Vocabulary(f"word{index}" for index in range(SIZE - 3)))
    return SessionLikelihood(model, chunk=7)


def trainer(folder: Path, **settings: Any) -> Trainer:
    train = TrainConfig.model_validate({"batch_words": 64, "report_every": 1, **settings})
    return Trainer(
        likelihood_of(),
        train,
        Feed(random_sessions(40, 1), train.seed, train.batch_words, train.sort_window),
        random_sessions(10, 2),
        CheckpointFolder(folder, {}),
        ALONE,
    )


def test_a_loss_that_is_not_finite_names_the_batch(tmp_path: Path) -> None:
    training = trainer(tmp_path, rate=1e30)
    with pytest.raises(TrainingError, match=r"step \d+: loss .* batch \d+ \(sessions 1\d\d, "):
        training.run(None)


def test_training_stops_after_its_steps_with_a_validation(tmp_path: Path) -> None:
    training = trainer(tmp_path, epochs=100, max_steps=3)
    training.run(None)
    assert (training.position.step, training.position.validated_step) == (3, 3)

    finished = trainer(tmp_path, epochs=100, max_steps=2)  # a stopped run, resumed to end now
    finished.restore(CheckpointFolder(tmp_path, {}).load(3))
    finished.run(None)
    assert finished.position.step == 3


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
    else:
        assert len(validated) == 2
    assert validated[-1] == steps[-1]
    for entry in entries:
        if "validation_nll" in entry:
            assert entry["validation_perplexity"] == pytest.approx(np.exp(entry["validation_nll"]))


def rates(folder: Path, **settings: Any) -> list[float]:
    with TrainingLog(folder, 0, 1, 1) as journal:
        trainer(folder / "checkpoints", **settings).run(journal)
    return [entry["rate"] for entry in read_metrics(folder / METRICS) if "rate" in entry]


def test_the_rate_warms_up_evenly_and_then_stays(tmp_path: Path) -> None:
    result = rates(tmp_path, epochs=2, rate=0.01, warmup_steps=4)
    assert result[:4] == pytest.approx([0.0025, 0.005, 0.0075, 0.01])
    assert set(result[4:]) == {0.01}


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


def test_perplexity_is_the_same_for_any_batch_size() -> None:
    likelihood = likelihood_of(dropout=0.5)
    sessions = random_sessions(20, 5)
    result = [measure(likelihood, sessions, ALONE, None, words) for words in (10, 1000)]
    assert result[0].nll == pytest.approx(result[1].nll, abs=1e-6)
    assert result[0].symbols == len(sessions.words)
    assert likelihood.training


def test_an_untrained_model_that_knows_nothing_is_as_good_as_chance() -> None:
    likelihood = likelihood_of()
    with torch.no_grad():
        for parameter in likelihood.parameters():
            parameter.zero_()
    result = measure(likelihood, random_sessions(20, 5), ALONE)
    assert result.perplexity == pytest.approx(SIZE - 1, rel=1e-5)  # padding is never predicted


def test_context_limits_what_a_query_is_predicted_from() -> None:
    likelihood, sessions = likelihood_of(), random_sessions(20, 5)
    with torch.no_grad():
        for parameter in likelihood.parameters():
            parameter.mul_(3)
    by_context = [measure(likelihood, sessions, ALONE, k) for k in (0, 1, 9, None)]
    assert [result.symbols for result in by_context] == [len(sessions.words)] * 4
    assert by_context[2].nll == pytest.approx(by_context[3].nll, abs=1e-6)
    assert abs(by_context[0].nll - by_context[3].nll) > 1e-3


def test_processes_share_the_sessions() -> None:
    likelihood, sessions = likelihood_of(), random_sessions(20, 5)
    whole = measure(likelihood, sessions, ALONE, batch_words=20)

    class Half:
        """One of two processes, which asks nobody else for a total."""

        def __init__(self, rank: int) -> None:
            self.rank, self.count = rank, 2

        def total(self, values: list[float]) -> list[float]:
            return values

    halves = [measure(likelihood, sessions, Half(rank), batch_words=20) for rank in (0, 1)]  # type: ignore[arg-type]
    sums = np.sum([(half.log_likelihood, half.symbols) for half in halves], axis=0)
    assert sums.tolist() == pytest.approx([whole.log_likelihood, whole.symbols])
    assert all(half.symbols > 0 for half in halves)


def test_reports_before_a_checkpoint_are_kept_and_later_ones_dropped(tmp_path: Path) -> None:
    file = tmp_path / METRICS
    file.write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n{"step": 3, "lo')
    with TrainingLog(tmp_path, 1, 10, 1) as training_log:
        training_log.report(2, {"loss": 1.5, "words_per_second": 1.0})
    assert [json.loads(line)["loss"] for line in file.read_text().splitlines()] == [2.0, 1.5]


def test_a_validation_is_a_line_for_people_and_one_for_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"epoch": 2, "validation_nll": 2.0, "validation_perplexity": 7.389}
    with TrainingLog(tmp_path, 0, 10, 3) as training_log:
        training_log.report(5, {"loss": 1.0, "words_per_second": 1234.4})
        training_log.validation(5, values)
    assert list(read_metrics(tmp_path / METRICS))[1] == {"step": 5, **values}
    message = " ".join(capsys.readouterr().err.split())
    assert "step 5: epoch 2, training perplexity 2.7, validation perplexity 7.4" in message
    assert "words/s 1234" in message
    assert list((tmp_path / EVENTS).iterdir())


def test_a_line_is_on_the_disk_before_the_run_ends(tmp_path: Path) -> None:
    with TrainingLog(tmp_path, 0, 10, 1) as training_log:
        training_log.report(1, {"loss": 1e9, "words_per_second": 1.0})
        [entry] = read_metrics(tmp_path / METRICS)
    assert entry["loss"] == 1e9
