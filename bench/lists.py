"""What the lists of every model are worth, at the former and the present defaults, in one table.

For contexts of held-out sessions: exact hits at 1, 5 and 10 and MRR of ten suggestions, over all
contexts and over informational ones (the next query is not one of the log's 100 most frequent); of
the first five the best word overlap with the next query, the share of the 100 most frequent,
near-copies of the last query, what they do to its terms, and nonsense: two words side by side that
neither the log nor the session has. Means with the half width of a 95 % interval over contexts.

`NEXTQUERY_BENCH_MODELS=NAME=FOLDER,...` and `NEXTQUERY_BENCH_DATA` name models and the data folder;
without them count models of a made-up log are fitted first. `NEXTQUERY_BENCH_SPLIT` is `validation`
or `test`. Only aggregates are printed, never a query.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from nextquery import load
from nextquery.evaluation.generation.list_quality import word_overlap
from nextquery.inference.kernels.process_memory import keep_freed_memory
from nextquery.inference.relations import Relation, relation
from nextquery.inference.settings import DecodeConfig
from nextquery.logs.data_folder import PreparedData
from nextquery.records import Suggestion
from nextquery.suggesters.base import Decoding, Suggester

SHOWN = 5
LISTED = 10
FREQUENT = 100
FITTED = ("popularity", "adjacency", "qvmm", "shortcuts")

Make = Callable[[Sequence[Sequence[str]]], list[list[Suggestion]]]


@dataclass(frozen=True)
class Background:
    """What the log holds."""

    frequent: frozenset[str]
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def read(cls, data: PreparedData) -> "Background":
        """The most frequent queries and all pairs of adjacent words."""
        queries = data.counts("queries").select("query", "count").collect()
        ordered = queries.sort("count", "query", descending=[True, False])["query"].to_list()
        pairs = data.counts("word_pairs").collect()
        columns = pairs.columns[:2]
        return cls(frozenset(ordered[:FREQUENT]), frozenset(pairs.select(columns).iter_rows()))

    def nonsense(self, text: str, context: Sequence[str]) -> bool:
        """Whether two words stand side by side that never do in the log or in the session."""
        own = {pair for query in context for pair in pairwise(query.split())}
        return any(pair not in self.pairs and pair not in own for pair in pairwise(text.split()))


def main(quick: bool) -> dict[str, Any]:
    """The table, a row for each model and setting."""
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as place:
        models, data = models_and_data(Path(place))
        prepared = PreparedData(data)
        background = Background.read(prepared)
        cases = held_out(prepared, 40 if quick else 1000)
        rows: dict[str, Any] = {"contexts": len(cases)}
        for name, folder in models.items():
            for setting, make in settings(load(folder)).items():
                rows[f"{name}, {setting}"] = measure(make, cases, background)
        return rows


def models_and_data(folder: Path) -> tuple[dict[str, Path], Path]:
    """Those named by the environment, or count models of a made-up log."""
    named, data = (os.environ.get(f"NEXTQUERY_BENCH_{name}") for name in ("MODELS", "DATA"))
    if named and data:
        pairs = (each.split("=", 1) for each in named.split(","))
        return {name: Path(path) for name, path in pairs}, Path(data)
    log, made = str(folder / "log.tsv"), str(folder / "data")
    commands = [
        ["synth", log, "--sessions", "4000", "--seed", "1"],
        ["prepare", log, "--out", made, "--no-spelling"],
        *(["fit", made, "--kind", kind, "--out", str(folder / kind)] for kind in FITTED),
    ]
    for command in commands:
        subprocess.run([sys.executable, "-m", "nextquery", *command], check=True, stdout=sys.stderr)
    return {kind: folder / kind for kind in FITTED}, Path(made)


def held_out(data: PreparedData, most: int) -> list[tuple[tuple[str, ...], str]]:
    """Contexts and the query that came next, drawn from the sessions of a split."""
    split = os.environ.get("NEXTQUERY_BENCH_SPLIT", "validation")
    sessions = [session.queries for session in data.sessions(split)]
    chosen = np.sort(np.random.default_rng(11).permutation(len(sessions))[:most])
    return [(sessions[place][:-1], sessions[place][-1]) for place in chosen]


def settings(suggester: Suggester) -> dict[str, Make]:
    """The ways to ask a model: as before, as now, and with other views of known queries."""
    if not isinstance(suggester, Decoding):
        return {"as it is": lambda many: [suggester.suggest(context, LISTED) for context in many]}
    now = suggester.config
    configs = {
        "before": now.model_copy(update={"specificity": 0.0, "known": "free"}),
        "now": now,
        "now, free": now.model_copy(update={"known": "free"}),
        "now, only": now.model_copy(update={"known": "only"}),
    }

    def made(config: DecodeConfig) -> Make:
        return lambda many: suggester.suggest_many(many, LISTED, config=config)

    return {name: made(config) for name, config in configs.items()}


def measure(
    make: Make, cases: Sequence[tuple[tuple[str, ...], str]], background: Background
) -> dict[str, Any]:
    """One row of the table."""
    start = time.process_time()
    lists = [
        [each.text for each in row]
        for place in range(0, len(cases), 8)
        for row in make([context for context, _ in cases[place : place + 8]])
    ]
    ms = 1000 * (time.process_time() - start) / max(1, len(cases))
    ranks = np.array(
        [
            row.index(wanted) + 1 if wanted in row else np.inf
            for row, (_, wanted) in zip(lists, cases, strict=True)
        ]
    )
    informational = np.array([wanted not in background.frequent for _, wanted in cases])
    return {
        **{f"hit_at_{n}": float((ranks <= n).mean()) for n in (1, 5, 10)},
        "mrr": interval(1 / ranks),
        "informational_mrr": interval((1 / ranks)[informational]),
        **shown(lists, cases, background),
        "cpu_ms": ms,
    }


def shown(
    lists: Sequence[Sequence[str]],
    cases: Sequence[tuple[tuple[str, ...], str]],
    background: Background,
) -> dict[str, Any]:
    """What a person would see: the first five of each list that has any."""
    pairs = [(row[:SHOWN], case) for row, case in zip(lists, cases, strict=True) if row]
    relations = Counter(relation(context[-1], text) for row, (context, _) in pairs for text in row)
    total = max(1, relations.total())
    return {
        "coverage": len(pairs) / max(1, len(cases)),
        "best_overlap": interval(
            [max(word_overlap(text, wanted) for text in row) for row, (_, wanted) in pairs]
        ),
        "frequent": interval(
            [_share(text in background.frequent for text in row) for row, _ in pairs]
        ),
        "nonsense": interval(
            [
                _share(background.nonsense(text, context) for text in row)
                for row, (context, _) in pairs
            ]
        ),
        **{str(each): relations[each] / total for each in Relation},
    }


def _share(flags: Iterable[bool]) -> float:
    return float(np.mean(list(flags)))


def interval(values: Any) -> dict[str, float]:
    """The mean and the half width of its 95 % interval."""
    numbers = np.asarray(values, dtype=np.float64)
    if not len(numbers):
        return {"mean": 0.0, "half_width": 0.0}
    half = 1.96 * float(numbers.std()) / len(numbers) ** 0.5
    return {"mean": float(numbers.mean()), "half_width": half}
