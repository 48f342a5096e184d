"""Two processes that train together take the steps of one, and make one model folder."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log

from .training_runs import finish, losses, start, stop_after

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    write_log(folder / "log.tsv", 300, seed=1)
    settings = PrepareSettings(spelling=False, min_users=1, vocabulary_size=300)
    prepare([folder / "log.tsv"], folder / "data", settings)
    return folder / "data"


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one(data: Path, tmp_path: Path) -> None:
    # Dropout draws its own numbers in every process, so that it must be off to compare.
    options = ("--set=model.dropout=0", "--set=train.epochs=1", "--json")
    code, told, errors = finish(start(data, tmp_path / "one", *options))
    assert code == 0, errors
    stopped = start(data, tmp_path / "two", *options, launcher=TORCHRUN)
    stop_after(stopped, tmp_path / "two", 7, signal.SIGTERM)
    _, _, errors = finish(stopped)
    assert "run the same command with --resume" in errors
    going_on = start(data, tmp_path / "two", *options, "--resume", launcher=TORCHRUN)
    code, told, errors = finish(going_on)
    assert code == 0, errors
    assert "resuming after step" in errors
    assert json.loads(told)["processes"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert [step for step, _ in one] == [step for step, _ in two]
    assert [loss for _, loss in two] == pytest.approx([loss for _, loss in one], abs=1e-5)
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("one", "two")]
    for name, tensor in weights[0].items():
        assert float((tensor - weights[1][name]).abs().max()) < 1e-3, name


def test_a_device_that_is_not_there_is_refused(data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nextquery", "train", str(data), "--out", str(tmp_path / "m")]
    found = subprocess.run([*command, "--device", "cuda:7"], capture_output=True, text=True)
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert "--device cuda:7" in found.stderr


@pytest.mark.slow
def test_when_one_process_refuses_the_other_says_so_in_a_line(data: Path, tmp_path: Path) -> None:
    (tmp_path / "model.training").mkdir()
    logs = ("--log-dir", str(tmp_path / "logs"), "--redirects", "3")
    launcher = (*TORCHRUN[:-1], *logs, "-m")
    code, _, _ = finish(start(data, tmp_path / "model", launcher=launcher))
    assert code == 1
    first, second = (
        next((tmp_path / "logs").glob(f"*/attempt_0/{rank}/stderr.log")).read_text()
        for rank in range(2)
    )
    assert "add --resume to continue it" in first
    assert second == (
        "error: process 1 of 2 (counted from 0): another process has ended; "
        "its own message says why\n"
    )
