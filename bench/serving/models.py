"""The models that the benchmark serves: a count model and an HRED of a synthetic log, and HRED
at the paper's size.

The paper-size model has random weights: it never ends a query early, so that its cost is an upper
bound. Another trained model can be put in the place of the small one with the variable
`NEXTQUERY_BENCH_MODEL`; the synthetic log has only some thousand words.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Models:
    """Folders, and words to make queries of."""

    adjacency: Path
    hred: dict[str, Path]
    """The trained one first."""
    words: list[str]


def make_models(folder: Path, quick: bool, paper_size: bool) -> Models:
    """Make a log, prepare it, fit, train and write the models."""
    sessions = "2000" if quick else "5000"
    _run("synth", folder / "log.tsv", "--sessions", sessions, "--seed", "1")
    _run("prepare", folder / "log.tsv", "--out", folder / "data", "--no-spelling")
    _run("fit", folder / "data", "--kind", "adjacency", "--out", folder / "adjacency")
    trained = _trained(folder, "tiny" if quick else "small")
    words = (trained / "vocabulary.txt").read_text(encoding="utf-8").split()[:1000]
    hred = {"tiny" if quick else "small": trained}
    if paper_size and not quick:
        hred["paper"] = _untrained(folder)
    return Models(folder / "adjacency", hred, words)


def _run(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "nextquery", *map(str, arguments)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _trained(folder: Path, config: str) -> Path:
    model_folder = os.environ.get("NEXTQUERY_BENCH_MODEL")
    if model_folder:
        return Path(model_folder)
    out = folder / config
    _run("train", folder / "data", "--out", out, "--config", config, "--set", "train.epochs=2")
    return out


def _untrained(folder: Path) -> Path:
    import torch

    from nextquery.artifacts import publish
    from nextquery.guard.tables import write_tables
    from nextquery.logs.data_folder import PreparedData
    from nextquery.model.hred import HRED
    from nextquery.model.settings import KIND, ModelConfig
    from nextquery.text.vocabulary import Vocabulary

    # K = 1: words that fill up the vocabulary belong to nobody and would all be refused.
    everything = ("--out", folder / "all", "--no-spelling", "--min-users", "1")
    _run("prepare", folder / "log.tsv", *everything)
    data = PreparedData(folder / "all")
    torch.manual_seed(0)
    config = ModelConfig()
    known = data.words()
    filling = (f"filler{number}" for number in range(config.vocabulary_size - len(known)))
    model = HRED(config, Vocabulary([*known, *filling]))
    with publish(folder / "paper", KIND, model.manifest_entries()) as target:
        model.write_files(target)
        write_tables(data, target)
    return folder / "paper"
