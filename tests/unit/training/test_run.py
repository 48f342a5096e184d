"""A training run: its folders, its checks and its errors."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from nextquery import api
from nextquery.artifacts import publish
from nextquery.errors import ArtifactError, ChecksumError, TrainingError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.synthetic.log import write_log
from nextquery.model.hred import HRED
from nextquery.model.likelihood import new_model
from nextquery.model.settings import ModelConfig, RunConfig, TrainConfig, TransformerConfig
from nextquery.text.vocabulary import Vocabulary
from nextquery.training.continuing import Continuation
from nextquery.training.run import (
    RUN,
    _disk_errors,
    _feed,
    _memory_errors,
    check_folders,
    claimed,
    folder_of_run,
    identity,
    remove,
    run_id,
    train,
)
from nextquery.training.trainer import METRICS, StopRequest, read_metrics

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
@pytest.mark.parametrize(("most_scores", "sampled"), [(10**10, False), (1, True)])
def test_too_many_validation_sessions_are_sampled_for_the_finished_model(
    data: PreparedData,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    most_scores: int,
    sampled: bool,
) -> None:
    monkeypatch.setattr("nextquery.training.run.MOST_SCORES", most_scores)
    train_config = SMALL.train.model_copy(update={"validation_sessions": 5, "max_steps": 1})
    config = SMALL.model_copy(update={"train": train_config})
    outcome = train(data, tmp_path / "model", config, ALONE, say=print)

    assert outcome.facts is not None
    lines = read_metrics(tmp_path / "model" / METRICS)
    [validated] = [line for line in lines if "validation_perplexity" in line]
    perplexity = outcome.facts.perplexity[None].perplexity
    assert (perplexity == validated["validation_perplexity"]) is sampled


@pytest.mark.slow
def test_a_transformer_resumes_bit_identically_and_is_continued(
    data: PreparedData, tmp_path: Path
) -> None:
    sizes = TransformerConfig(embedding_size=4, model_size=8, heads=2, copy=True, dropout=0.1)
    config = RunConfig(model=sizes, train=SMALL.train.model_copy(update={"batch_words": 1000}))

    @contextmanager
    def after_three_steps() -> Iterator[StopRequest]:
        asked = iter([0, 0, 15])

        class Stop(StopRequest):
            def __getattribute__(self, name: str) -> Any:
                return next(asked, 15) if name == "signal" else super().__getattribute__(name)

        yield Stop()

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(data, whole, config, ALONE, say=print)
    stopped = train(data, parts, config, ALONE, say=print, stopping=after_three_steps)
    assert (stopped.facts, stopped.position.step) == (None, 3)
    resumed = train(data, parts, config, ALONE, resume=True, say=print)
    assert resumed.facts is not None
    assert resumed.facts.perplexity.keys() == {0, 1, 2, None}
    weights = [(out / "model.safetensors").read_bytes() for out in (whole, parts)]
    assert weights[0] == weights[1]
    assert (whole / "README.md").read_text().startswith("# Transformer query-suggestion model")
    notices: list[str] = []
    continuation = Continuation(whole)
    train(data, parts, config, ALONE, continuation=continuation, say=notices.append)
    assert "continuing from" in notices[0]
    assert (parts / "model.safetensors").read_bytes() != weights[0]


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

    assert changed(epochs=9, max_steps=5, patience=7, report_every=3) == set()
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
    ],
)
def test_a_large_vocabulary_is_sampled(settings: dict[str, Any], sampled: bool) -> None:
    model = new_model(SMALL.model, Vocabulary(f"w{n}" for n in range(SIZE - 3)))
    config = SMALL.train.model_copy(update=settings)
    feed = _feed(model, config, random_sessions(20, 1), ALONE)
    [*_, step] = feed.steps(feed.epoch(0), 0, 1)
    assert (step.candidates is not None) == sampled
    assert model.output_vectors.sparse == sampled


def test_a_full_disk_says_that_nothing_is_lost(tmp_path: Path) -> None:
    with (
        pytest.raises(TrainingError, match="free some space and run again with `resume`"),
        _disk_errors(tmp_path / "model"),
    ):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("name", ["model.training/metrics.jsonl", ".model.0a.partial/x", "model"])
def test_other_errors_of_the_run_folder_do_not_speak_of_space(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    with pytest.raises(TrainingError) as caught, _disk_errors(tmp_path / "model"):
        raise PermissionError(13, "Permission denied", str(file))
    assert str(caught.value) == (
        f"{file}: Permission denied; make it writable and run again with `resume`"
    )


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No such file or directory", "/elsewhere/vectors.txt"),
        PermissionError(13, "Permission denied", "/elsewhere/vectors.txt"),
        BrokenPipeError(32, "Broken pipe"),
        ConnectionResetError(104, "Connection reset by peer"),
    ],
)
def test_errors_of_other_files_are_left_as_they_are(tmp_path: Path, error: OSError) -> None:
    with pytest.raises(OSError) as caught, _disk_errors(tmp_path / "model"):  # noqa: PT011
        raise error
    assert caught.value is error


@pytest.mark.slow
@pytest.mark.parametrize("every", [0, 7])
def test_epochs_are_those_of_the_metrics_after_early_stopping(
    data: PreparedData, tmp_path: Path, every: int
) -> None:
    settings = {"epochs": 50, "patience": 1, "rate": 3.0, "validate_every": every}
    config = SMALL.model_copy(update={"train": SMALL.train.model_copy(update=settings)})
    outcome = train(data, tmp_path / "model", config, ALONE, say=print)
    assert outcome.facts is not None
    lines = (tmp_path / "model" / "metrics.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    assert "validation_nll" in last
    assert outcome.facts.epochs == last["epoch"] < 50


def test_too_little_memory_is_said_in_one_line() -> None:
    message = r"^not enough memory \(.*\); lower train\.batch_words"
    with pytest.raises(TrainingError, match=message), _memory_errors():
        torch.empty(1 << 60)
    with pytest.raises(RuntimeError, match="shape"), _memory_errors():
        torch.zeros(2) @ torch.zeros(3, 3)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The place of a model whose run has begun."""
    folder_of_run(tmp_path / "m").mkdir()
    return tmp_path / "m"


def silent(text: str) -> None:
    raise AssertionError(text)


def finish(out: Path, run: str) -> None:
    with publish(out, "hred", {"training": {"run": run}}):
        pass


def test_a_folder_is_trained_in_by_one_process_only(tmp_path: Path) -> None:
    with claimed(tmp_path / "run"), pytest.raises(ArtifactError, match="another process"):
        claimed(tmp_path / "run").__enter__()
    with claimed(tmp_path / "run"):
        assert (tmp_path / "run").is_dir()


def test_an_unfinished_run_is_resumed_or_refused(out: Path) -> None:
    check_folders(out, resume=True)
    with pytest.raises(ArtifactError, match="not finished"):
        check_folders(out, resume=False)


def test_a_count_model_is_not_a_finished_run(tmp_path: Path) -> None:
    with publish(tmp_path / "m", "adjacency", {}):
        pass
    with pytest.raises(ArtifactError, match="no run of training made it"):
        check_folders(tmp_path / "m", resume=True)


def put_aside(folder: Path) -> None:
    """The first half of a clean-up."""
    folder.rename(folder.with_name(".m.training.0123abcd.finished"))


@pytest.mark.parametrize("clean_up", [remove, put_aside, lambda folder: None])
def test_a_finished_run_is_not_resumed_wherever_it_was_killed(
    out: Path, clean_up: Callable[[Path], None]
) -> None:
    finish(out, run_id(folder_of_run(out), 1, silent))
    clean_up(folder_of_run(out))
    with pytest.raises(ArtifactError, match="this run is finished"):
        check_folders(out, resume=True)
    assert [path.name for path in out.parent.iterdir()] == ["m"]
    check_folders(out, resume=False)


def test_a_run_that_would_replace_the_model_of_another_run_continues(out: Path) -> None:
    run_id(folder_of_run(out), 1, silent)
    finish(out, "the run before")
    check_folders(out, resume=True)
    assert folder_of_run(out).is_dir()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"run": null}'])
def test_a_folder_without_an_id_is_not_a_finished_run(out: Path, content: str) -> None:
    (folder_of_run(out) / RUN).write_text(content)
    with publish(out, "hred", {"training": {}}):
        pass
    check_folders(out, resume=True)
    assert folder_of_run(out).is_dir()


def test_only_own_remains_are_removed(out: Path) -> None:
    rest = [".m.training.v2.0123abcd.finished", ".m.training.0123abcd.other", ".m.training"]
    for name in rest:
        (out.parent / name).mkdir()
    check_folders(out, resume=True)
    assert all((out.parent / name).is_dir() for name in rest)


def test_an_id_stays_and_other_threads_are_said(out: Path) -> None:
    said: list[str] = []
    first = run_id(folder_of_run(out), 1, said.append)
    assert run_id(folder_of_run(out), 1, said.append) == first
    assert said == []
    assert run_id(folder_of_run(out), 2, said.append) == first
    assert said == ["this run began with 1 threads; with 2 its weights differ a little"]


def test_a_run_of_the_compiled_training_kernels_is_resumed_with_a_notice(out: Path) -> None:
    said: list[str] = []
    (folder_of_run(out) / RUN).write_text('{"run": "0af3", "threads": 1, "compiled": true}')
    assert run_id(folder_of_run(out), 1, said.append) == "0af3"
    (text,) = said
    assert "began with compiled kernels" in text
