"""Better models on small logs: character n-grams of words, several seeds, and one in their place.

N-grams are tried on AOL logs, which are not shipped; seeds on a made-up log, as well. Perplexities
are of the validation sessions; rankers are tested as everywhere.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evidence.aol import QUICK, prepared
from evidence.commands import make, report_of, save
from evidence.position_losses import Losses, losses, mean_of
from evidence.summary import summarise
from evidence.tables import read
from nextquery.training.training_log import METRICS, read_metrics

SEEDS = (1, 2, 3)
STUDENT = 4
"""The seed of the student, and of the model that is trained alone beside it."""

NGRAMS = {"without": "0", "with": "50000"}
"""The models that are compared, by `model.character_ngrams`."""

RANKED = ("--visitors", "known", "--seeds", "2", "--ranker-cases", "2000")


def ngrams(work: Path, logs: Sequence[Path]) -> None:
    """AOL, `small` with copying, two epochs: word vectors with character n-grams and without."""
    data = prepared(work, logs)
    found = {}
    for name, buckets in NGRAMS.items():
        given = [f"model.character_ngrams={buckets}", "train.epochs=2"]
        model = _train(work / f"ngrams-{name}", data, "small", given)
        found[name] = {"epochs": _epochs(model), **_by_class(losses(model, data))}
    save("character_ngrams", found)


def seeds(work: Path) -> None:
    """A made-up log, `tiny` with copying, three epochs: three seeds, their ensemble, a student."""
    log, data = work / "log.tsv", work / "data"
    make(log, ["synth", str(log), "--sessions", "30000", "--seed", "1"])
    make(data, ["prepare", str(log), "--out", str(data), "--no-spelling"])
    _add("seeds", "made_up", _ensembles(work, data, "tiny", 3))
    scenarios = [f"--scenario={name}" for name in ("next_query", "robust", "long_tail")]
    _add("seeds", "made_up", _ranked(work, data, "tiny", scenarios))


def aol_seeds(work: Path, logs: Sequence[Path]) -> None:
    """The same on AOL, `small` with copying, two epochs: perplexities alone."""
    _add("seeds", "aol", _ensembles(work, prepared(work, logs), "small", 2))


def _ensembles(work: Path, data: Path, config: str, epochs: int) -> dict[str, Any]:
    """The perplexity of each seed, of the ensemble of three, and of a student of theirs."""
    models = _models(work, data, config, epochs)
    found = {name: losses(model, data) for name, model in models.items()}
    members = [found[f"seed {seed}"] for seed in SEEDS]
    curves = {name: _epochs(model) for name, model in models.items()}
    perplexity = {name: each.perplexity() for name, each in found.items()}
    return {
        "epochs": curves,
        "perplexity": {**perplexity, "ensemble": mean_of(members).perplexity()},
    }


def _models(work: Path, data: Path, config: str, epochs: int) -> dict[str, Path]:
    def trained(name: str, seed: int, *more: str) -> Path:
        given = [f"train.seed={seed}", f"train.epochs={epochs}", *more]
        return _train(work / f"{config}-{name}", data, config, given)

    models = {f"seed {seed}": trained(f"seed-{seed}", seed) for seed in (*SEEDS, STUDENT)}
    teachers = ", ".join(f'"{models[f"seed {seed}"].resolve()}"' for seed in SEEDS)
    student = trained("student", STUDENT, f"train.teachers=[{teachers}]")
    return {**models, "student": student}


def _ranked(work: Path, data: Path, config: str, scenarios: Sequence[str]) -> dict[str, Any]:
    """One model, three as an ensemble and the student as features of the Baseline Ranker."""
    folders = {name: work / f"{config}-{name}" for name in (f"seed-{STUDENT}", "student")}
    ensemble = ",".join(str(work / f"{config}-seed-{seed}") for seed in SEEDS)
    named = [f"--model=one={folders[f'seed-{STUDENT}']}", f"--model=ensemble={ensemble}"]
    named.append(f"--model=student={folders['student']}")
    given = [str(data), *named, *scenarios, *RANKED, *QUICK]
    return {"ranked": summarise(report_of(work / "report-seeds", given))}


def _train(folder: Path, data: Path, config: str, settings: Sequence[str]) -> Path:
    sets = [f"--set={setting}" for setting in settings]
    make(folder, ["train", str(data), "--out", str(folder), "--config", config, *sets])
    return folder


def _epochs(model: Path) -> list[float]:
    """The validation perplexity after each epoch."""
    found = read_metrics(model / METRICS)
    return [
        round(each["validation_perplexity"], 2) for each in found if "validation_perplexity" in each
    ]


def _by_class(found: Losses) -> dict[str, Any]:
    """Perplexities and symbols: all, by how often the target is in the log, by the context."""
    return {
        "all": found.perplexity(),
        "symbols": len(found.rows),
        **{
            title: {
                name: {
                    "symbols": int((classes == number).sum()),
                    "perplexity": found.perplexity(classes == number),
                }
                for number, name in enumerate(names)
                if np.any(classes == number)
            }
            for title, names, classes in found.classes()
        },
    }


def _add(study: str, log: str, found: Mapping[str, Any]) -> None:
    """Add to what is committed of one log."""
    try:
        committed = read(study)
    except FileNotFoundError:
        committed = {}
    save(study, {**committed, log: {**committed.get(log, {}), **found}})
