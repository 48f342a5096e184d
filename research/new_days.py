"""What new days cost: `update` against preparing all again, models that follow against new ones.

    update   synthetic logs, each four times the one before: the last day and the last week added to
             a folder without them, and the whole log prepared; the count models fitted again
    train    HRED trained on all but the last two weeks and continuing with these, against training
             on everything: steps, time, and perplexity on sessions of the last days

Every command in a process of its own, one thread, by its CPU time.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from nextquery import load
from nextquery.artifacts import open_artifact
from nextquery.evaluation.drift import perplexity
from nextquery.logs.data_folder import PreparedData
from research.log_growth import run_measured

SESSIONS = {True: (1_000, 4_000), False: (10_000, 40_000, 160_000)}
TRAINED = {True: 1_500, False: 6_000}
DAYS = (1, 7)
KINDS = ("popularity", "adjacency", "qvmm", "cacb", "shortcuts")
FEW_USERS = 10_000
"""Logs of fewer sessions are prepared with K = 1: few queries have more users."""
PLAIN = ("--set", "model.copy=false")


def main(quick: bool) -> dict[str, Any]:
    """What each command takes, by the rows of the log."""
    with tempfile.TemporaryDirectory() as work:
        updates = {}
        for sessions in SESSIONS[quick]:
            folder = Path(work) / str(sessions)
            folder.mkdir()
            measured = update_costs(folder, sessions)
            updates[str(measured.pop("rows"))] = measured
            print(f"{sessions} sessions: {measured}", file=sys.stderr)
        return {
            "unit": "CPU seconds, one thread",
            "by_rows": updates,
            "hred": training_costs(Path(work), TRAINED[quick], 1 if quick else 3),
        }


def update_costs(folder: Path, sessions: int) -> dict[str, Any]:
    """Preparing a log, adding its last days, and fitting the count models again."""
    log = _synthetic_log(folder, sessions)
    figures: dict[str, Any] = {"rows": len(log)}
    figures["prepare, all"] = _prepare(folder / "log.tsv", folder / "all", sessions)
    for days in DAYS:
        old, new = _cut(folder, log, days)
        data = folder / f"without-{days}"
        _prepare(old, data, sessions)
        figures[f"update, {days} days"] = {
            "rows": len(pl.read_csv(new, separator="\t", quote_char=None)),
            "cpu_s": _seconds("update", data, new),
        }
    figures["fit"] = {
        kind: _seconds("fit", folder / "all", "--kind", kind, "--out", folder / kind)
        for kind in KINDS
    }
    return figures


def training_costs(work: Path, sessions: int, epochs: int) -> dict[str, Any]:
    """HRED before the new days, continuing with them, and trained anew on everything."""
    folder = work / "hred"
    folder.mkdir()
    old, new = _cut(folder, _synthetic_log(folder, sessions), 14)
    data, before, after, anew = (folder / name for name in ("data", "before", "after", "anew"))
    _prepare(old, data, sessions, days=".1,3,.1")
    sets = ("--config", "tiny", *PLAIN, "--set", f"train.epochs={epochs}")
    spent = {"before": _seconds("train", data, "--out", before, *sets)}
    update = _seconds("update", data, new)
    spent["after"] = _seconds("train", data, "--from", before, "--out", after)
    spent["anew"] = _seconds("train", data, "--out", anew, *sets)
    asked = [session.queries for session in PreparedData(data).sessions("validation")]
    return {
        "sessions": open_artifact(data).manifest["counts"]["sessions"]["background"],
        "validation_sessions": len(asked),
        "update": update,
        **{
            model.name: {**_training(model), "cpu_s": spent[model.name],
                         "perplexity": round(float(perplexity(load(model), asked)), 3)}
            for model in (before, after, anew)
        },
    }  # fmt: skip


def _training(model: Path) -> dict[str, Any]:
    manifest = open_artifact(model).manifest
    earlier = (
        {key: manifest["earlier"][key] for key in ("new", "replayed")}
        if "earlier" in manifest
        else {}
    )
    return {**{key: manifest["training"][key] for key in ("steps", "words", "epochs")}, **earlier}


def _synthetic_log(folder: Path, sessions: int) -> pl.DataFrame:
    run_measured(folder / "log.tsv", "synth", folder / "log.tsv", "--sessions", sessions)
    return pl.read_csv(folder / "log.tsv", separator="\t", quote_char=None, infer_schema=False)


def _cut(folder: Path, log: pl.DataFrame, days: int) -> Iterator[Path]:
    """The log without its last days, and these."""
    times = log["QueryTime"].str.to_datetime()
    new = times > times.max() - pl.duration(days=days)
    marks = log.select(new=new)["new"]
    for name, rows in (("old", log.filter(~marks)), ("new", log.filter(marks))):
        file = folder / f"{name}-{days}.tsv"
        rows.write_csv(file, separator="\t", quote_style="never")
        yield file


def _prepare(log: Path, out: Path, sessions: int, days: str = ".1,1,.1") -> float:
    users = ("--min-users", 1) if sessions < FEW_USERS else ()
    return _seconds("prepare", log, "--out", out, "--split-days", days, *users)


def _seconds(*arguments: Any) -> float:
    made = Path(arguments[arguments.index("--out") + 1] if "--out" in arguments else arguments[1])
    return round(run_measured(made, *arguments)[1]["cpu_s"], 2)
