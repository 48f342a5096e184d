"""The models that the benchmark serves: a count model of a made-up log, and HRED in two sizes.

HRED has random weights: what is measured is its cost, which training lowers a little (trained
queries end earlier) and never raises.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SIZES = {
    "tiny": (2_000, 32, 48, 64, True),
    "small": (20_000, 128, 256, 384, True),
    "paper": (90_000, 300, 1000, 1500, False),
}
"""Vocabulary, d_e, d_h, d_s, copying."""


@dataclass(frozen=True)
class Models:
    """Folders, and words to make queries of."""

    adjacency: Path
    hred: dict[str, Path]
    words: list[str]


def make_models(folder: Path, *sizes: str) -> Models:
    """Make a log, prepare it, fit and write the models."""
    _run("synth", folder / "log.tsv", "--sessions", "5000", "--seed", "1")
    _run("prepare", folder / "log.tsv", "--out", folder / "data", "--no-spelling")
    _run("fit", folder / "data", "--kind", "adjacency", "--out", folder / "adjacency")
    hred = {size: _untrained(folder / "data", folder / size, size) for size in sizes}
    words = (folder / "data" / "vocabulary.txt").read_text(encoding="utf-8").split()[:1000]
    return Models(folder / "adjacency", hred, words)


def _run(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "nextquery", *map(str, arguments)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _untrained(data: Path, target: Path, size: str) -> Path:
    import torch

    from nextquery.artifacts import publish
    from nextquery.guard.tables import write_tables
    from nextquery.logs.prepared import PreparedData
    from nextquery.model.hred import HRED, KIND
    from nextquery.model.settings import ModelConfig
    from nextquery.text.vocabulary import Vocabulary

    torch.manual_seed(0)
    words, embedding, query, session, copy = SIZES[size]
    prepared = PreparedData(data)
    known = prepared.words()[:words]
    filling = (f"filler{number}" for number in range(words - len(known)))
    config = ModelConfig(
        vocabulary_size=words,
        embedding_size=embedding,
        query_size=query,
        session_size=session,
        copy=copy,
    )
    model = HRED(config, Vocabulary([*known, *filling]))
    with publish(target, KIND, model.manifest_entries()) as folder:
        model.write_files(folder)
        write_tables(prepared, folder)
    return target
