"""Checkpoints come back as they were; a damaged one is named and the one before it used."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nextquery.errors import ArtifactError, TrainingError
from nextquery.training.checkpoint import CheckpointFolder, Position

IDENTITY = {"vocabulary": "abc", "train.seed": 1}


@pytest.fixture
def folder(tmp_path: Path) -> CheckpointFolder:
    result = CheckpointFolder(tmp_path, IDENTITY)
    for step in (10, 20, 30):
        save(result, step, best=20 if step >= 20 else 10)
    return result


def save(folder: CheckpointFolder, step: int, best: int) -> None:
    position = Position(step=step, rate=0.1, best_step=best, best_nll=1 / 3, loss_sum=0.1 + 0.2)
    folder.save(position, {"w": torch.full((4,), step / 7)}, {"0.0.m": torch.arange(3)})


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5])


def alter(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)


def test_a_checkpoint_comes_back_bit_for_bit(folder: CheckpointFolder) -> None:
    result = folder.load(30)
    assert result.position.best_nll == 1 / 3
    assert result.position.loss_sum == 0.1 + 0.2
    assert torch.equal(result.weights["w"], torch.full((4,), 30 / 7))
    assert torch.equal(result.optimiser["0.0.m"], torch.arange(3))


def test_the_newest_two_and_the_best_are_kept(folder: CheckpointFolder) -> None:
    assert folder.steps() == [30, 20]
    save(folder, 40, best=20)
    assert folder.steps() == [40, 30, 20]


@pytest.mark.parametrize("damage", [cut, alter, Path.unlink])
@pytest.mark.parametrize(
    "name", ["model.safetensors", "optimiser.safetensors", "run.json", "manifest.json"]
)
def test_a_damaged_checkpoint_is_named_and_passed_over(
    folder: CheckpointFolder, name: str, damage: Callable[[Path], None]
) -> None:
    damage(folder.folder(30) / name)
    message: list[str] = []
    assert folder.newest(message.append) == 20
    assert len(message) == 1
    assert "step-00000030" in message[0]
    assert name in message[0]
    folder.clean_up(20)
    assert folder.steps() == [20]


def test_a_checkpoint_is_of_no_use_without_the_best_one(folder: CheckpointFolder) -> None:
    save(folder, 40, best=20)
    alter(folder.folder(20) / "model.safetensors")
    message: list[str] = []
    assert folder.newest(message.append) == 0
    assert all("step-00000020" in line for line in message)


def test_another_run_is_refused_by_name(tmp_path: Path, folder: CheckpointFolder) -> None:
    other = CheckpointFolder(tmp_path, {**IDENTITY, "vocabulary": "xyz"})
    with pytest.raises(ArtifactError, match="another vocabulary"):
        other.load(30)


def test_a_setting_that_an_earlier_version_lacked_has_its_default(
    tmp_path: Path, folder: CheckpointFolder
) -> None:
    newer = {**IDENTITY, "model.wings": 0}
    assert CheckpointFolder(tmp_path, newer, {"model.wings": 0}).load(30).position.step == 30
    with pytest.raises(ArtifactError, match=r"another model\.wings \(0, now 2\)"):
        CheckpointFolder(tmp_path, {**newer, "model.wings": 2}, {"model.wings": 0}).load(30)


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(
    tmp_path: Path, folder: CheckpointFolder
) -> None:
    (tmp_path / "step-00000040").write_text("in the way")
    with pytest.raises((TrainingError, ArtifactError)):
        save(folder, 40, best=20)
    (tmp_path / "step-00000040").unlink()
    assert folder.newest(print) == 30
    assert not list(tmp_path.glob(".*"))


STRAY = (
    *("step-", "step-abc", "step-00000030.bak", "step-30", "step-000000030", ".DS_Store"),
    *("step-٠٠٠٠٠٠٣٠", "notes.txt", ".nfs000000000000001"),
)


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir])
def test_stray_files_and_folders_are_left_alone(
    tmp_path: Path, folder: CheckpointFolder, make: Callable[[Path], None]
) -> None:
    for name in STRAY:
        make(tmp_path / name)
    assert folder.steps() == [30, 20]
    assert folder.newest(pytest.fail) == 30
    folder.clean_up(30)
    save(folder, 40, best=20)
    assert folder.steps() == [40, 30, 20]
    assert all((tmp_path / name).exists() for name in STRAY)


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda path: path.symlink_to("gone")])
def test_a_file_with_the_name_of_a_later_checkpoint_makes_room(
    tmp_path: Path, folder: CheckpointFolder, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "step-00000040")
    assert folder.newest(lambda text: None) == 30
    folder.clean_up(30)
    save(folder, 40, best=20)
    assert folder.newest(pytest.fail) == 40


def test_what_a_crash_left_half_written_is_removed(
    tmp_path: Path, folder: CheckpointFolder
) -> None:
    (tmp_path / ".step-00000040.0123abcd.partial").mkdir()
    folder.clean_up(30)
    assert not list(tmp_path.glob(".*"))


def test_an_older_checkpoint_that_cannot_be_read_does_not_stop_the_next_one(
    folder: CheckpointFolder,
) -> None:
    cut(folder.folder(20) / "run.json")
    save(folder, 30, best=30)
    assert 30 in folder.steps()


def test_messages_say_from_where_training_continues(folder: CheckpointFolder) -> None:
    alter(folder.folder(30) / "model.safetensors")
    message: list[str] = []
    folder.newest(message.append)
    assert message[0].endswith("; using the checkpoint of step 20")
    alter(folder.folder(20) / "model.safetensors")
    message.clear()
    assert folder.newest(message.append) == 0
    assert [line for line in message if "using" in line] == []
    assert message[-1].endswith("; no checkpoint is left: training starts from the beginning")


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "free some space"),
        (errno.EACCES, "make it writable"),
        (errno.EROFS, "make it writable"),
        (errno.EFBIG, "raise the limit with `ulimit -f`"),
        (errno.EIO, "check the disk"),
        (errno.EMFILE, "raise the limit with `ulimit -n`"),
    ],
)
def test_advice_follows_from_the_error(
    folder: CheckpointFolder, monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("nextquery.training.checkpoint.save_file", fails)
    with pytest.raises(TrainingError) as caught:
        save(folder, 40, best=20)
    message = str(caught.value)
    assert os.strerror(number) in message
    assert f"{advice} and run again with `resume`" in message
    assert ("space" in message) == ("space" in advice + os.strerror(number))
    assert "step-00000030" in message
