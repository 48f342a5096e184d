"""Many configurations of plain HRED on one domain of the made-up log: runs kept one by one."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from research import learning
from research.commands import save
from research.tables import read, table

DISTANCES = ("1", "2", "3", "4", "5")


def study(work: Path) -> None:
    """Every configuration with every seed; a run that `work` has is not made again.

    What is there is committed after each run, so that a study that is stopped shows its part.
    """
    kept = work / "runs.jsonl"
    runs = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done = {(run["configuration"], run["seed"]) for run in runs}
    with tempfile.TemporaryDirectory() as folder:
        log = learning.Log(Path(folder), learning.SESSIONS)
        for seed in learning.SEEDS:
            for name in learning.CONFIGURATIONS:
                if (name, seed) not in done:
                    run = learning.learn(log, name, seed)
                    runs.append(_rounded({"configuration": name, "seed": seed, **run}))
                    kept.write_text("".join(json.dumps(each) + "\n" for each in runs))
                    save("learning", {**log.facts(), "runs": runs})
        save("learning", {**log.facts(), "runs": runs})


def _rounded(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run with three digits after the point.

    >>> _rounded({"seed": 1, "nats": 2.71828, "by_distance": {"1": 2.50009}})
    {'seed': 1, 'nats': 2.718, 'by_distance': {'1': 2.5}}
    """
    return {
        key: _rounded(value)
        if isinstance(value, dict)
        else round(value, 3)
        if isinstance(value, float)
        else value
        for key, value in run.items()
    }


def shown() -> str:
    """A row for each configuration and seed, in the order of the configurations."""
    heads = ["configuration, one epoch", "steps", "seed", "perplexity", "nats"]
    heads += ["probability of the intent", "1 query back", "2", "3", "4", "5 and more"]
    runs = {(run["configuration"], run["seed"]): run for run in read("learning")["runs"]}
    rows = []
    for name in learning.CONFIGURATIONS:
        first = name
        for seed in learning.SEEDS:
            if (name, seed) in runs:
                rows.append(_row(first, runs[name, seed]))
                first = ""
    return table(heads, rows)


def _row(name: str, run: Mapping[str, Any]) -> list[str]:
    cells = [name, f"{run['steps']:,}" if name else "", str(run["seed"])]
    cells += [f"{run['perplexity']:.2f}", f"{run['nats']:.2f}", f"{run['intent']:.2f}".lstrip("0")]
    return [*cells, *(f"{run['by_distance'][distance]:.2f}" for distance in DISTANCES)]
