"""How many steps the paper's form needs to learn the hidden intent: RMSProp against Adam.

One epoch of synthetic logs of increasing size.
"""

import json
from pathlib import Path
from typing import Any

from nextquery.evaluation.probes.likelihood import intent_result
from nextquery.logs.data_folder import PreparedData
from nextquery.model.hred import HRED
from research.commands import curve_of, make, save, train_plain
from research.curves import Scores
from research.tables import read, table

SESSIONS = (100_000, 400_000, 1_600_000)
OPTIMISERS = {"first": "RMSProp, .001", "first-adam": "Adam, .003"}
SHOWN = (1_000, 2_000, 4_000, 8_000)
OUTCOMES = 1_000


def study(work: Path) -> None:
    """One epoch of each log with each optimiser."""
    save(
        "presentations",
        [
            {"form": form, "sessions": sessions, **learnt(work, form, sessions)}
            for form in OPTIMISERS
            for sessions in SESSIONS
        ],
    )


def learnt(work: Path, form: str, sessions: int) -> dict[str, Any]:
    """What one epoch of a log teaches, step by step and at its end."""
    target = work / str(sessions)
    target.mkdir(parents=True, exist_ok=True)
    log, data = target / "log.tsv", target / "data"
    make(log, ["synth", str(log), "--sessions", str(sessions), "--seed", "1"])
    make(data, ["prepare", str(log), "--out", str(data), "--no-spelling"])
    folder = train_plain(target, data, form, seed=1, epochs=1)
    manifest = json.loads((folder / "manifest.json").read_text())
    prepared = PreparedData(data)
    probed = [session for session in prepared.sessions("validation") if len(session.queries) > 1]
    result = intent_result(Scores(HRED.from_pretrained(folder)), probed, most=OUTCOMES)
    assert result is not None
    return {
        "background": prepared.artifact.entry("counts")["sessions"]["background"],
        "steps": manifest["training"]["steps"],
        "perplexity": manifest["training"]["validation_perplexity"],
        "nats": round(result.nats, 3),
        "intent": round(result.intent, 3),
        "curve": [[point["step"], round(point["nats"], 3)] for point in _curve(target, form)],
    }


def _curve(target: Path, form: str) -> list[Any]:
    return curve_of(target / f"{form}-1.curve.jsonl")


def shown() -> str:
    """A row for each optimiser and log."""
    heads = ["optimiser, rate", "sessions of the log", "in the background", "steps of the epoch"]
    heads += [f"nats after {step:,}" for step in SHOWN]
    heads += ["at the end", "probability of the intent", "perplexity"]
    rows = []
    for study in read("presentations"):
        at = dict(study["curve"])
        cells = [
            OPTIMISERS[study["form"]],
            *(f"{study[key]:,}" for key in ("sessions", "background")),
        ]
        cells += [f"{study['steps']:,}", *(f"{at[s]:.2f}" if s in at else "" for s in SHOWN)]
        cells += [f"{study['nats']:.2f}", f"{study['intent']:.3f}".lstrip("0")]
        rows.append([*cells, f"{study['perplexity']:.2f}"])
    return table(heads, rows)
