"""Models that an experiment trains itself, on some of the log's users only.

Knows data folders, training and where a report keeps such models; a model that is there already,
trained on the same data with the same config, is taken as it is, and a run that was stopped goes
on.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from nextquery.artifacts import write_text
from nextquery.config import load_config
from nextquery.errors import TrainingError
from nextquery.evaluation.step_store import fingerprint
from nextquery.evaluation.user_subsets import KeepUser, write_user_subset
from nextquery.logs.data_folder import PreparedData
from nextquery.model.settings import RunConfig
from nextquery.ranking.user_folds import user_fold
from nextquery.training.distributed import processes
from nextquery.training.run import train
from nextquery.training.run_folder import folder_of_run


def train_fold_models(data: PreparedData, folder: Path, config: str, folds: int) -> list[Path]:
    """A model for each fold of users, trained and validated without them."""
    return [
        train_on_users(
            data,
            folder / str(fold),
            config,
            lambda user, fold=fold: user_fold(user, folds) != fold,  # type: ignore[misc]
            data.splits,
            f"without fold {fold} of {folds}",
        )
        for fold in range(folds)
    ]


def train_on_users(
    data: PreparedData,
    out: Path,
    config: str,
    keep: KeepUser,
    splits: Sequence[str],
    subset: str,
    repeats: int = 1,
) -> Path:
    """The folder of a model trained on the users kept in `splits`; `subset` names who they are.

    With `repeats` it may go through their sessions so many times as often as the config says.
    """
    chosen = _repeated(load_config(RunConfig, config), repeats)
    basis = fingerprint([data.artifact.manifest["files"], chosen.model_dump(mode="json"), subset])
    marker = out.with_name(f"{out.name}.json")
    if out.is_dir() and _read_marker(marker) == basis:
        return out
    part = write_user_subset(data, out.with_name(f"{out.name}.data"), keep, splits)
    with processes("auto") as group:
        outcome = train(part, out, chosen, group, resume=folder_of_run(out).is_dir(), say=_quiet)
    if outcome.signal:
        raise TrainingError(f"{out}: training was stopped; the same command goes on with it")
    shutil.rmtree(part.path)
    write_text(marker, json.dumps({"fingerprint": basis, "trained": subset}) + "\n")
    return out


def _repeated(config: RunConfig, repeats: int) -> RunConfig:
    train_config = config.train.model_copy(update={"epochs": config.train.epochs * repeats})
    return config.model_copy(update={"train": train_config})


def _quiet(text: str) -> None:
    """What is known before the first step; progress is shown by training itself."""


def _read_marker(path: Path) -> str | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(found)
