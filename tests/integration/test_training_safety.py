"""No crash, signal, damaged file or full disk costs a training run; it resumes bit-identically."""

import json
import random
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from tests.integration.training_runs import (
    SETTINGS,
    checkpoints,
    folder_of_run,
    killed_before_the_clean_up,
    killed_in_the_clean_up,
    losses,
    start,
    steps_reported,
    stop_after,
    train,
    wait_until,
    write_no_bytecode,
)

from nextquery.artifacts import write_manifest
from nextquery.config import load_config
from nextquery.errors import ArtifactError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log
from nextquery.model.settings import RunConfig
from nextquery.training.distributed import Processes
from nextquery.training.run import train as run

pytestmark = pytest.mark.slow
ALONE = Processes(0, 1, torch.device("cpu"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    write_log(folder / "log.tsv", 400, seed=1)
    settings = PrepareSettings(spelling=False, min_users=1, vocabulary_size=300)
    prepare([folder / "log.tsv"], folder / "data", settings)
    return folder / "data"


@pytest.fixture(scope="module")
def undisturbed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained in one go."""
    out = tmp_path_factory.mktemp("undisturbed") / "model"
    code, _, errors = train(data, out)
    assert code == 0, errors
    assert len(losses(out)) > 40
    return out


def assert_same(model: Path, undisturbed: Path) -> None:
    """The same losses as raw floats, and the same weights as raw bytes."""
    assert losses(model) == losses(undisturbed)
    weights = [folder / "model.safetensors" for folder in (model, undisturbed)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert not folder_of_run(model).exists()


def test_killed_at_random_points(data: Path, undisturbed: Path, tmp_path: Path) -> None:
    out, seed = tmp_path / "model", random.randrange(10**6)
    points = sorted(random.Random(seed).sample(range(1, len(losses(undisturbed)) - 4), 2))
    for point in points:
        process = start(data, out, "--resume")
        stop_after(process, out, point)
        assert process.finish()[0] == -signal.SIGKILL, f"seed {seed}"
    code, _, errors = train(data, out, "--resume")
    assert code == 0, errors
    assert_same(out, undisturbed)


def test_ctrl_c_saves_and_says_how_to_resume(data: Path, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    process = start(data, out)
    stop_after(process, out, 13, signal.SIGINT)
    code, _, errors = process.finish()
    assert code == 128 + signal.SIGINT
    assert "--resume" in errors
    assert "Traceback" not in errors
    stopped_at = int(checkpoints(out)[-1].name.removeprefix("step-"))
    assert stopped_at == steps_reported(out) >= 13
    assert_other_runs_are_refused(data, out)
    assert train(data, out, "--resume")[0] == 0
    assert_same(out, undisturbed)


def assert_other_runs_are_refused(data: Path, out: Path) -> None:
    """Another configuration, vocabulary or data folder does not resume this run."""
    wide = PreparedData(data)
    with pytest.raises(ArtifactError, match="add `resume`"):
        run(wide, out, settings(), ALONE, resume=False, say=print)
    for changes, named in (
        (["model.query_size=17"], "model.query_size"),
        (["model.vocabulary_size=200"], "vocabulary"),
        (["train.batch_words=97"], "train.batch_words"),
    ):
        with pytest.raises(ArtifactError, match=f"another {named} "):
            run(wide, out, settings(*changes), ALONE, resume=True, say=print)
    other = data.with_name("other")
    shutil.copytree(data, other)
    manifest = json.loads((other / "manifest.json").read_text())
    (other / "note.txt").write_text("not the same folder")
    write_manifest(other, "data", manifest)
    with pytest.raises(ArtifactError, match="another data folder"):
        run(PreparedData(other), out, settings(), ALONE, resume=True, say=print)


def settings(*changes: str) -> RunConfig:
    common = [option.removeprefix("--set=") for option in SETTINGS if option.startswith("--set=")]
    return load_config(RunConfig, "tiny", [*common, *changes])


def test_sigterm_then_a_damaged_checkpoint(data: Path, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    process = start(data, out)
    stop_after(process, out, 18, signal.SIGTERM)
    assert process.finish()[0] == 128 + signal.SIGTERM
    before, newest = checkpoints(out)[-2:]
    weights = newest / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 64
    weights.write_bytes(content)
    code, _, errors = train(data, out, "--resume")
    assert code == 0, errors
    assert str(weights) in errors
    assert f"resuming after step {int(before.name.removeprefix('step-'))}" in errors
    assert_same(out, undisturbed)


def test_a_file_size_limit_fails_loudly(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    process = start(data, out, before=write_no_bytecode)  # the limit would truncate it
    wait_until(process, lambda: len(checkpoints(out)) > 0)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
    assert_failed_on_disk(out, *process.finish())


def assert_failed_on_disk(out: Path, code: int, _: str, errors: str) -> None:
    assert code == 1
    assert errors.startswith("error: ") or "\nerror: " in errors
    assert "--resume" in errors
    assert checkpoints(out)
    assert not list(folder_of_run(out).glob("checkpoints/.*"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small disk can be mounted by root only")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_fails_loudly(data: Path, undisturbed: Path, small_disk: Path) -> None:
    out = small_disk / "model"
    process = start(data, out)
    wait_until(process, lambda: len(checkpoints(out)) > 0)
    filler = (small_disk / "filler").open("wb", buffering=0)
    with pytest.raises(OSError, match="No space left"):
        while process.poll() is None:
            filler.write(bytes(4096))
    filler.close()
    assert_failed_on_disk(out, *process.finish())
    (small_disk / "filler").unlink()
    assert train(data, out, "--resume")[0] == 0
    assert_same(out, undisturbed)


@pytest.mark.parametrize("before", [killed_before_the_clean_up, killed_in_the_clean_up])
def test_killed_in_the_last_clean_up_it_is_finished(
    data: Path, undisturbed: Path, tmp_path: Path, before: Callable[[], None]
) -> None:
    out = tmp_path / "model"
    assert train(data, out, before=before)[0] == 9
    manifest = (out / "manifest.json").read_bytes()
    code, _, errors = train(data, out, "--resume")
    assert code == 2
    assert "this run is finished" in errors
    assert (out / "manifest.json").read_bytes() == manifest
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert_same(out, undisturbed)


def test_the_manifest_has_what_weights_depend_on(undisturbed: Path) -> None:
    training = json.loads((undisturbed / "manifest.json").read_text())["training"]
    assert training["threads"] >= 1
    assert len(training["run"]) == 32
