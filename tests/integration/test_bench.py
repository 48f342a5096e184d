"""`./scripts/bench`, and the trainers that its `train` compares."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.train import (
    _alone,
    _bucketed_loss,
    _figures,
    _grid,
    _model,
    _padded_loss,
    _ratios,
    _sessions,
)
from nextquery.model.likelihood import SessionLikelihood
from nextquery.text.batching import build_batch

ROOT = Path(__file__).parents[2]


def test_three_trainers_compute_one_loss() -> None:
    corpus, model, members = _sessions("small", 200), _model("small"), np.array([5, 9, 100, 7, 8])
    with torch.no_grad():
        total, rows = SessionLikelihood(model, 256)(build_batch(corpus, members))
        good, words = _bucketed_loss(model, corpus, members)
        plain = _padded_loss(model, torch.from_numpy(_grid(corpus, members)))
    assert words == len(rows)
    # The others let the padding symbol take part in the softmax.
    assert float(good) == pytest.approx(-float(total), rel=1e-5)
    assert float(plain) * words == pytest.approx(float(good), rel=1e-5)


def test_a_trainer_that_cannot_run_reports_its_error() -> None:
    failed = _alone("packed", "no such size", 1)
    assert "no such size" in str(failed["failed"])
    assert _figures(failed) == failed
    assert _ratios(failed, {"good": {"seconds_per_word": 1.0, "processor_per_word": 1.0}}) == {}


def test_the_share_is_that_of_the_limit() -> None:
    figures = _figures(
        {
            "steps": 10,
            "seconds_per_word": 0.5,
            "processor_per_word": 0.25,
            "peak_memory_mb": 1.0,
            "operations_per_word": 20.0,
            "operations_per_second": 100.0,
        }
    )
    assert figures["limit_words_per_second"] == 5.0
    assert figures["share_of_limit"] == 0.8


def test_the_configured_model_is_the_shipped_one() -> None:
    config = _model("small", configured=True).config
    assert (config.copying, config.tied, config.decoder_context) == (True, True, "all")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "bench"), *words]
    return subprocess.run(command, capture_output=True, text=True)


def test_without_a_name_the_benchmarks_are_listed() -> None:
    names = run().stdout.split()
    assert {"decode", "prepare", "serve", "train"} <= set(names)
    assert names == sorted(path.stem for path in (ROOT / "bench").glob("*.py"))


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "bench").glob("*.py")))
def test_every_benchmark_can_be_imported(name: str) -> None:
    assert callable(importlib.import_module(f"bench.{name}").main)


def test_a_result_comes_with_the_machine() -> None:
    result = json.loads(run("startup", "--quick", "--json").stdout)
    assert result["machine"].keys() == {"cpu", "cores", "system", "python"}
    assert (result["benchmark"], result["quick"]) == ("startup", True)
    assert result["ratio"] > 1


def test_an_unknown_name_is_answered_with_the_list() -> None:
    failed = run("speed")
    assert failed.returncode == 2
    assert "invalid choice: 'speed'" in failed.stderr
    assert "decode" in failed.stderr
