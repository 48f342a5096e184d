"""Better models on small logs: character n-grams of words, several seeds, and one in their place.

N-grams are tried on AOL logs, which are not shipped; seeds on a made-up log, as well. Perplexities
are of the validation sessions; rankers are tested as everywhere.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.training.trainer import METRICS, read_metrics
from research.aol import QUICK, prepared
from research.commands import SCENARIOS, make, report_of, save
from research.paired_runs import compared
from research.position_losses import Losses, losses, mean_of
from research.summary import summarise
from research.tables import read

SEEDS = (1, 2, 3)
STUDENT = 4
"""The seed of the students, and of the model that is trained alone beside them."""

STUDENTS = {"student-50": "0.5", "student-90": "0.9"}
"""How much the teachers of each student count: `train.distillation`."""

BUCKETS = "50000"
"""`model.character_ngrams` of the models that have them."""

NGRAM_SEEDS = (1, 2)

PAIRS = (
    *(("ensemble", f"seed-{seed}") for seed in SEEDS),
    *((name, f"seed-{STUDENT}") for name in STUDENTS),
)
"""Models that are compared with each other, each alone."""

RANKED = ("--visitors", "known", "--seeds", "2", "--ranker-cases", "2000")


def ngrams(work: Path, logs: Sequence[Path]) -> None:
    """AOL, `small` with copying, two epochs: word vectors with character n-grams and without."""
    data = prepared(work, logs)
    found: dict[str, Any] = {}
    for name, more in (("without", ()), ("with", (f"model.character_ngrams={BUCKETS}",))):
        label = "seed" if name == "without" else "ngrams"
        models = [
            _trained(work, data, "small", 2, (f"{label}-{seed}", seed), *more)
            for seed in NGRAM_SEEDS
        ]
        curves = [_epochs(model) for model in models]
        found[name] = {"epochs": curves, **_by_class(losses(models[0], data))}
    save("character_ngrams", found)


def seeds(work: Path) -> None:
    """A made-up log, `tiny` with copying, three epochs: three seeds, their ensemble, students."""
    log, data = work / "log.tsv", work / "data"
    make(log, ["synth", str(log), "--sessions", "30000", "--seed", "1"])
    make(data, ["prepare", str(log), "--out", str(data), "--no-spelling"])
    models = _models(work, data, "tiny", 3)
    _add("seeds", "made_up", _ensembles(models, data))
    _add("seeds", "made_up", _ranked(work, data, models))


def aol_seeds(work: Path, logs: Sequence[Path]) -> None:
    """On AOL, `small` with copying, two epochs: perplexities of three seeds and their ensemble."""
    data = prepared(work, logs)
    _add("seeds", "aol", _ensembles(_seeds(work, data, "small", 2, SEEDS), data))


def _ensembles(models: Mapping[str, Path], data: Path) -> dict[str, Any]:
    """The perplexity of each seed, of the ensemble of three, and of students of theirs."""
    found = {name: losses(model, data) for name, model in models.items()}
    members = [found[f"seed-{seed}"] for seed in SEEDS]
    curves = {name: _epochs(model) for name, model in models.items()}
    perplexity = {name: each.perplexity() for name, each in found.items()}
    return {
        "epochs": curves,
        "perplexity": {**perplexity, "ensemble": mean_of(members).perplexity()},
    }


def _seeds(
    work: Path, data: Path, config: str, epochs: int, seeds: Sequence[int]
) -> dict[str, Path]:
    names = {f"seed-{seed}": seed for seed in seeds}
    return {name: _trained(work, data, config, epochs, (name, names[name])) for name in names}


def _models(work: Path, data: Path, config: str, epochs: int) -> dict[str, Path]:
    """All seeds and the students."""
    models = _seeds(work, data, config, epochs, (*SEEDS, STUDENT))
    teachers = ", ".join(f'"{models[f"seed-{seed}"].resolve()}"' for seed in SEEDS)
    for name, share in STUDENTS.items():
        more = f"train.teachers=[{teachers}]", f"train.distillation={share}"
        models[name] = _trained(work, data, config, epochs, (name, STUDENT), *more)
    return models


def _ranked(work: Path, data: Path, models: Mapping[str, Path]) -> dict[str, Any]:
    """Each model, and three as an ensemble, as features of the Baseline Ranker."""
    named = [f"--model={name}={folder}" for name, folder in models.items()]
    named.append(f"--model=ensemble={','.join(str(models[f'seed-{seed}']) for seed in SEEDS)}")
    scenarios = [f"--scenario={name}" for name in SCENARIOS]
    given = [str(data), *named, *scenarios, *RANKED, *QUICK]
    report = work / "report-seeds"
    found = summarise(report_of(report, given))
    return {"ranked": found, "pairs": {name: compared(report, name, PAIRS) for name in SCENARIOS}}


def _trained(
    work: Path, data: Path, config: str, epochs: int, called: tuple[str, int], *more: str
) -> Path:
    """A model of this name and seed."""
    name, seed = called
    folder = work / f"{config}-{name}"
    given = [f"train.seed={seed}", f"train.epochs={epochs}", *more]
    sets = [f"--set={setting}" for setting in given]
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
