"""Two processes that train together take the steps of one, and make one model folder."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file
from tests.integration.training_runs import SETTINGS, losses, stop_after, train
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


class Torchrun:
    """`torchrun -m nextquery train` with two processes."""

    def __init__(self, data: Path, out: Path, *more: str, options: tuple[str, ...] = ()) -> None:
        words = ("-m", "nextquery", "train", str(data), "--out", str(out), *SETTINGS, *more)
        self._process = subprocess.Popen(
            [sys.executable, *TORCHRUN, *options, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def poll(self) -> int | None:
        return self._process.poll()

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def finish(self) -> tuple[int, str, str]:
        output, errors = self._process.communicate(timeout=1000)
        return self._process.returncode, output, errors


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    write_log(folder / "log.tsv", 300, seed=1)
    settings = PrepareSettings(spelling=False, min_users=1, vocabulary_size=300)
    prepare([folder / "log.tsv"], folder / "data", settings)
    return folder / "data"


@pytest.mark.timeout(1200)
def test_two_processes_have_the_losses_of_one(data: Path, tmp_path: Path) -> None:
    # Dropout draws its own numbers in every process, so that it must be off to compare.
    options = ("--set=model.dropout=0", "--set=train.epochs=1", "--json")
    code, _, errors = train(data, tmp_path / "one", *options)
    assert code == 0, errors
    stopped = Torchrun(data, tmp_path / "two", *options)
    stop_after(stopped, tmp_path / "two", 7, signal.SIGTERM)
    _, _, errors = stopped.finish()
    assert "run the same command with --resume" in errors
    code, output, errors = Torchrun(data, tmp_path / "two", *options, "--resume").finish()
    assert code == 0, errors
    assert "resuming after step" in errors
    assert json.loads(output)["processes"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert [step for step, _ in one] == [step for step, _ in two]
    assert [loss for _, loss in two] == pytest.approx([loss for _, loss in one], abs=1e-5)
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("one", "two")]
    for name, tensor in weights[0].items():
        assert float((tensor - weights[1][name]).abs().max()) < 1e-3, name


def test_a_missing_device_is_refused(data: Path, tmp_path: Path) -> None:
    command = ["train", str(data), "--out", str(tmp_path / "m"), "--device", "cuda:7"]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code
    assert "cuda:7" in str(answer.exception)


@pytest.mark.timeout(1200)
def test_when_one_process_refuses_the_other_ends_with_one_line(data: Path, tmp_path: Path) -> None:
    (tmp_path / "model.training").mkdir()
    logs = ("--log-dir", str(tmp_path / "logs"), "--redirects", "3")
    code, _, _ = Torchrun(data, tmp_path / "model", options=logs).finish()
    assert code == 1
    first, second = (
        next((tmp_path / "logs").glob(f"*/attempt_0/{rank}/stderr.log")).read_text()
        for rank in range(2)
    )
    assert "add --resume to continue it" in first
    # Gloo's own line comes first if the connection was being made.
    assert "Traceback" not in second
    assert second.splitlines()[-1] == (
        "error: process 1 of 2 (counted from 0): another process has ended; "
        "its own message says why"
    )
