"""The training loop on a few random sessions: stopping, the batch named, its reports."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nextquery.errors import ChecksumError, TrainingError
from nextquery.model.hred import HRED
from nextquery.model.likelihood import SessionLikelihood
from nextquery.model.settings import ModelConfig, RunConfig, TrainConfig
from nextquery.text.batching import build_batch
from nextquery.text.corpus import EncodedSessions
from nextquery.text.vocabulary import END_OF_QUERY, Vocabulary
from nextquery.training.checkpoint import CheckpointFolder
from nextquery.training.distributed import Processes
from nextquery.training.feed import Feed, Order, ahead
from nextquery.training.perplexity import measure
from nextquery.training.run import train
from nextquery.training.trainer import Trainer
from nextquery.training.training_log import METRICS, TrainingLog, read_metrics

ALONE = Processes(0, 1, torch.device("cpu"))
SIZE = 10


def random_sessions(count: int, seed: int) -> EncodedSessions:
    rng = np.random.default_rng(seed)
    queries = rng.integers(2, 5, count)
    lengths = rng.integers(2, 5, queries.sum())
    words = rng.integers(3, SIZE, lengths.sum()).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    words[starts[1:] - 1] = END_OF_QUERY
    bounds = np.concatenate([[0], np.cumsum(queries)])
    return EncodedSessions(words, starts, bounds[:-1], bounds[1:], 100 + np.arange(count), SIZE)


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


def test_training_stops_when_validation_does_not_improve(tmp_path: Path) -> None:
    training = trainer(tmp_path, rate=0.3, epochs=100, patience=2, decay=0.5)
    training.run(None)
    position = training.position
    assert position.stale == 2
    assert position.epoch < 99
    assert position.best_step < position.step
    assert position.rate <= 0.3 * 0.5**2
    assert tmp_path.joinpath(f"step-{position.best_step:08d}").is_dir()


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


def test_reports_before_a_checkpoint_are_kept_and_later_ones_dropped(tmp_path: Path) -> None:
    file = tmp_path / METRICS
    file.write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n{"step": 3, "lo')
    with TrainingLog(tmp_path, 1, 10, 1) as training_log:
        training_log.report(2, {"loss": 1.5, "words_per_second": 1.0})
    assert [json.loads(line)["loss"] for line in file.read_text().splitlines()] == [2.0, 1.5]


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
        moved.append(training.likelihood.model.decoder_start.weight.detach().clone())
    assert torch.equal(*moved)


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


def test_batches_are_sorted_by_length_unless_asked_otherwise() -> None:
    corpus = random_sessions(200, 1)
    spread = {}
    for window in (64, 1):
        batches = Feed(corpus, Order(3, 60, window)).epoch(0)
        spread[window] = np.mean([corpus.queries()[batch].std() for batch in batches])
        assert sorted(np.concatenate(batches)) == list(range(200))
    assert spread[64] < 0.3 * spread[1]


def test_every_epoch_has_every_session_once_in_its_own_order() -> None:
    feed = Feed(random_sessions(50, 1), Order(3, 40))
    epochs = [np.concatenate(feed.epoch(epoch)) for epoch in (0, 1, 0)]
    assert [sorted(order) for order in epochs] == [list(range(50))] * 3
    assert (epochs[0] == epochs[2]).all()
    assert (epochs[0] != epochs[1]).any()
    assert (epochs[0] != np.concatenate(Feed(random_sessions(50, 1), Order(4, 40)).epoch(0))).any()


def test_an_error_in_the_input_reaches_the_loop() -> None:
    def items() -> Any:
        yield 1
        raise ValueError("broken input")

    found = ahead(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match="broken input"):
        next(found)


def test_perplexity_is_the_same_for_any_batch_size() -> None:
    torch.manual_seed(1)
    config = ModelConfig(embedding_size=6, query_size=8, session_size=10, dropout=0.5)
    model = HRED(config, Vocabulary(f"word{index}" for index in range(SIZE - 3)))
    likelihood = SessionLikelihood(model, chunk=7)
    sessions = random_sessions(20, 5)
    found = [measure(likelihood, sessions, ALONE, None, words) for words in (10, 1000)]
    assert found[0].nll == pytest.approx(found[1].nll, abs=1e-6)
    assert found[0].symbols == len(sessions.words)
    assert likelihood.training


def test_an_altered_data_folder_is_refused(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    data = prepared(tiny_log([("a", ("one", "two"))]))
    file = data.session_files("background")[0]
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ChecksumError, match="part-00000"):
        train(data, tmp_path / "model", RunConfig(), ALONE, say=print)
