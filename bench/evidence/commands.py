"""The commands behind docs/experiments.md, one after the other; what is there already is kept.

Everything goes through the command line, so that each figure of the page can be made by hand.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evidence.curves import CurveWriter, watched
from evidence.leak import study
from evidence.summary import summarise
from evidence.tables import RESULTS, ROOT
from nextquery.logs.data_folder import PreparedData

SEEDS = (1, 2, 3)
SCENARIOS = ("next_query", "robust", "long_tail")

PLAIN = (
    "model.copy=false",
    "model.embedding_size=64",
    "model.query_size=128",
    "model.session_size=192",
    "train.batch_words=1024",
    "train.loss=sampled",
    "train.head_words=1000",
    "train.sampled_words=500",
    "train.validate_every=1000",
    "train.validation_sessions=3000",
    "train.decay=1.0",
)
"""Plain HRED on a made-up log: what every form has in common, on top of `tiny`."""

FORMS = {
    "all": ("model.decoder_context=all",),
    "first": ("model.decoder_context=first", "train.optimiser=rmsprop", "train.rate=0.001"),
}
"""The decoder sees the session at every step; the paper's own form, which needs RMSProp."""

LOG = ("--sessions", "300000", "--seed", "1")
LATE = ("--split-at", "2006-04-30T08:53:44,2006-05-14T05:25:37,2006-05-28T12:00:00")
"""The same background and training part as by default, and a test part of 7,233 sessions."""

LAST_WEEKS = ("--split-at", "2006-05-01,2006-05-15,2006-05-23", "--min-users", "1", "--no-spelling")


MINILM = ("--encoder", "evidence.minilm:encode")


def made_up(work: Path) -> None:
    """Plain HRED in both forms, three seeds each."""
    log, data, late = work / "log.tsv", work / "data", work / "data-late"
    _make(log, ["synth", str(log), *LOG])
    _make(data, ["prepare", str(log), "--out", str(data), "--no-spelling"])
    _make(late, ["prepare", str(log), "--out", str(late), "--no-spelling", *LATE])
    models = {
        f"{form}-{seed}": train_plain(work, data, form, seed) for form in FORMS for seed in SEEDS
    }
    _save("made_up", _measured(work, late, models))


def control(work: Path) -> None:
    """The same on a log whose queries are dealt to its sessions at random: one model."""
    log, data = work / "log.tsv", work / "data"
    _make(log, ["synth", str(log), *LOG, "--shuffled"])
    _make(data, ["prepare", str(log), "--out", str(data), "--no-spelling"])
    models = {"all-1": train_plain(work, data, "all", 1, epochs=1)}
    _save("control", _measured(work, data, models))


def _measured(work: Path, data: Path, models: Mapping[str, Path]) -> dict[str, Any]:
    """The aggregates of an experiment with these models, and how they learnt."""
    named = [f"--model={name}={folder}" for name, folder in models.items()]
    kept = [f"--scenario={name}" for name in SCENARIOS]
    given = ["--visitors", "known", "--seeds", "3", "--ranker-cases", "3000"]
    report = _report(work / "report", [str(data), *named, *kept, *given])
    curves = {name: _curve(work / f"{name}.curve.jsonl") for name in models}
    return {**summarise(report), "curves": curves}


def train_plain(work: Path, data: Path, form: str, seed: int, epochs: int = 3) -> Path:
    """One plain model, its hidden intent probed while it is trained."""
    folder = work / f"{form}-{seed}"
    keys = [*PLAIN, *FORMS[form], f"train.epochs={epochs}", f"train.seed={seed}"]
    sets = [f"--set={key}" for key in keys]
    training = folder.with_name(f"{folder.name}.training")
    writer = CurveWriter(PreparedData(data), training, work / f"{folder.name}.curve.jsonl")
    with watched(writer):
        _make(folder, ["train", str(data), "--out", str(folder), "--config", "tiny", *sets])
    return folder


def aol(work: Path, logs: Sequence[Path]) -> None:
    """New visitors on all sessions of the given AOL logs; the models' word vectors from MiniLM."""
    data, model, config = work / "data", work / "hred", work / "fold.toml"
    vectors = work / "vectors.safetensors"
    _make(data, ["prepare", *map(str, logs), "--out", str(data), *LAST_WEEKS])
    _make(vectors, ["vectors", str(data), "--out", str(vectors), *MINILM, "--words", "20000"])
    changes = {
        "epochs = 15": "epochs = 4",
        'decoder_context = "all"': 'decoder_context = "first"',
        'word_vectors = ""': f'word_vectors = "{vectors.resolve()}"',
    }
    config.write_text(_changed("small", changes))
    # With new visitors its fold models take this one's place: it only has to be there.
    short = ["--config", str(config), "--set", "train.epochs=1"]
    _make(model, ["train", str(data), "--out", str(model), *short])
    report = _report(
        work / "report",
        [
            *(str(data), f"--model=hred={model}", f"--fold-config=hred={config}", *MINILM),
            *("--visitors", "new", "--new-visitor-cases", "all", "--min-followers", "5"),
            *("--scenario", "next_query", "--scenario", "robust"),
        ],
    )
    _save("aol", summarise(report))


def aol_known(work: Path, logs: Sequence[Path]) -> None:
    """Known visitors on the given AOL logs: `small` with copying, the paper's form, six epochs."""
    data, model = work / "data", work / "copying"
    _make(data, ["prepare", *map(str, logs), "--out", str(data), *LAST_WEEKS])
    sets = ["--set", "train.epochs=6", "--set", "model.decoder_context=first"]
    _make(model, ["train", str(data), "--out", str(model), "--config", "small", *sets])
    given = [str(data), f"--model=hred={model}", "--visitors", "known", "--min-followers", "5"]
    given += ["--scenario", "next_query", "--scenario", "robust"]
    _save("aol_known", summarise(_report(work / "report-known", given)))


def leak(work: Path, data: Path) -> None:
    """Whether the Baseline Ranker of new visitors knows something of them (`evidence/leak.py`)."""
    _save("leak", study(PreparedData(data), work))


def _changed(name: str, changes: Mapping[str, str]) -> str:
    """The text of a shipped config with other lines."""
    lines = (ROOT / "configs" / f"{name}.toml").read_text().splitlines()
    for old, new in changes.items():
        lines[lines.index(old)] = new
    return "\n".join(lines) + "\n"


def _report(folder: Path, arguments: Sequence[str]) -> Any:
    """The results of an experiment, which goes on where it was stopped."""
    run(["experiment", *arguments, "--out", str(folder)])
    return json.loads((folder / "results.json").read_text())


def _make(target: Path, arguments: Sequence[str]) -> None:
    if not target.exists():
        run(arguments)


def run(arguments: Sequence[str]) -> None:
    """One command, shown before it is run."""
    print("nextquery", *arguments, flush=True)
    paths = [str(ROOT / "src"), str(ROOT / "bench"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    subprocess.run([sys.executable, "-m", "nextquery", *arguments], check=True, env=environment)


def _curve(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _save(name: str, document: Any) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
