"""Checkpoints come back as they were; a damaged one is named and the one before it used."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nextquery.errors import ArtifactError, TrainingError
from nextquery.training.checkpoint import CheckpointFolder, Position

IDENTITY = {"vocabulary": "abc", "train.seed": 1}


@pytest.fixture
def folder(tmp_path: Path) -> CheckpointFolder:
    found = CheckpointFolder(tmp_path, IDENTITY)
    for step in (10, 20, 30):
        save(found, step, best=20 if step >= 20 else 10)
    return found


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
    found = folder.load(30)
    assert found.position.best_nll == 1 / 3
    assert found.position.loss_sum == 0.1 + 0.2
    assert torch.equal(found.weights["w"], torch.full((4,), 30 / 7))
    assert torch.equal(found.optimiser["0.0.m"], torch.arange(3))


def test_the_newest_two_and_the_best_are_kept(folder: CheckpointFolder) -> None:
    assert folder.steps() == [30, 20]
    save(folder, 40, best=20)
    assert folder.steps() == [40, 30, 20]


@pytest.mark.parametrize("damage", [cut, alter, Path.unlink])
@pytest.mark.parametrize("name", ["model.safetensors", "optimiser.safetensors", "run.json"])
def test_a_damaged_checkpoint_is_named_and_passed_over(
    folder: CheckpointFolder, name: str, damage: Callable[[Path], None]
) -> None:
    damage(folder.place(30) / name)
    told: list[str] = []
    assert folder.newest(told.append) == 20
    assert len(told) == 1
    assert "step-00000030" in told[0]
    folder.clean_up(20)
    assert folder.steps() == [20]


def test_a_cut_manifest_is_named(folder: CheckpointFolder) -> None:
    cut(folder.place(30) / "manifest.json")
    told: list[str] = []
    assert folder.newest(told.append) == 20
    assert "manifest.json" in told[0]


def test_a_checkpoint_is_of_no_use_without_the_best_one(folder: CheckpointFolder) -> None:
    save(folder, 40, best=20)
    alter(folder.place(20) / "model.safetensors")
    told: list[str] = []
    assert folder.newest(told.append) == 0
    assert all("step-00000020" in line for line in told)


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
