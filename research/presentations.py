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
    place = work / str(sessions)
    place.mkdir(parents=True, exist_ok=True)
    log, data = place / "log.tsv", place / "data"
    make(log, ["synth", str(log), "--sessions", str(sessions), "--seed", "1"])
    make(data, ["prepare", str(log), "--out", str(data), "--no-spelling"])
    folder = train_plain(place, data, form, seed=1, epochs=1)
    manifest = json.loads((folder / "manifest.json").read_text())
    prepared = PreparedData(data)
    probed = [each for each in prepared.sessions("validation") if len(each.queries) > 1]
    found = intent_result(Scores(HRED.from_pretrained(folder)), probed, most=OUTCOMES)
    assert found is not None
    return {
        "background": prepared.artifact.entry("counts")["sessions"]["background"],
        "steps": manifest["training"]["steps"],
        "perplexity": manifest["training"]["validation_perplexity"],
        "nats": round(found.nats, 3),
        "intent": round(found.intent, 3),
        "curve": [[each["step"], round(each["nats"], 3)] for each in _curve(place, form)],
    }


def _curve(place: Path, form: str) -> list[Any]:
    return curve_of(place / f"{form}-1.curve.jsonl")


def shown() -> str:
    """A row for each optimiser and log."""
    heads = ["optimiser, rate", "sessions of the log", "in the background", "steps of the epoch"]
    heads += [f"nats after {step:,}" for step in SHOWN]
    heads += ["at the end", "probability of the intent", "perplexity"]
    rows = []
    for each in read("presentations"):
        at = dict(each["curve"])
        cells = [
            OPTIMISERS[each["form"]],
            *(f"{each[key]:,}" for key in ("sessions", "background")),
        ]
        cells += [f"{each['steps']:,}", *(f"{at[s]:.2f}" if s in at else "" for s in SHOWN)]
        cells += [f"{each['nats']:.2f}", f"{each['intent']:.3f}".lstrip("0")]
        rows.append([*cells, f"{each['perplexity']:.2f}"])
    return table(heads, rows)
