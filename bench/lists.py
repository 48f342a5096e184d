"""What the lists of every model are worth, at the former and the present defaults, in one table.

For contexts of held-out sessions: exact hits at 1, 5 and 10 and MRR of ten suggestions, over all
contexts and over informational ones (the next query is not one of the log's 100 most frequent); of
the first five the best word overlap with the next query, the share of the 100 most frequent,
near-copies of the last query, what they do to its terms, and nonsense: two words side by side that
neither the log nor the session has. Means with the half width of a 95 % interval over contexts; of
each setting of a model the paired t-test against its former defaults (`before`), and of every
further model against those of the first one (`against_first`).

`NEXTQUERY_BENCH_MODELS=NAME=FOLDER,...` and `NEXTQUERY_BENCH_DATA` name models and the data folder;
without them count models of a synthetic log are fitted. `NEXTQUERY_BENCH_SPLIT` is `validation`
or `test`, `NEXTQUERY_BENCH_CONTEXTS` how many contexts are drawn, `NEXTQUERY_BENCH_SETTINGS` names
the settings of a decoding model (`before,now`). Only aggregates are printed, never a query.
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
from nextquery.evaluation.comparison import paired_t_test
from nextquery.evaluation.lists import word_overlap
from nextquery.inference.lists import Relation, relation
from nextquery.inference.native import keep_freed_memory
from nextquery.inference.settings import DecodeConfig
from nextquery.logs.data_folder import PreparedData
from nextquery.records import Suggestion
from nextquery.suggesters.base import Decoding, Suggester

SHOWN = 5
LISTED = 10
FREQUENT = 100
FITTED = ("popularity", "adjacency", "qvmm", "shortcuts")

Case = tuple[tuple[str, ...], str]
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
        own_pairs = {pair for query in context for pair in pairwise(query.split())}
        return any(
            pair not in self.pairs and pair not in own_pairs for pair in pairwise(text.split())
        )


def main(quick: bool) -> dict[str, Any]:
    """The table, a row for each model and setting."""
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as temporary:
        models, data = models_and_data(Path(temporary))
        prepared = PreparedData(data)
        background = Background.read(prepared)
        most = int(os.environ.get("NEXTQUERY_BENCH_CONTEXTS", 1000))
        cases = held_out(prepared, 40 if quick else most)
        rows: dict[str, Any] = {"contexts": len(cases)}
        first: Lists | None = None
        for name, folder in models.items():
            model_rows, before = rows_of(name, load(folder), cases, background, first)
            rows |= model_rows
            first = first or before
        return rows


def rows_of(
    name: str,
    suggester: Suggester,
    cases: Sequence[Case],
    background: Background,
    first: "Lists | None",
) -> tuple[dict[str, Any], "Lists | None"]:
    """The rows of one model, each setting compared with its first, and the lists of that first one.

    `first` are the lists of the first model at its former defaults.
    """
    rows: dict[str, Any] = {}
    before = None
    for setting, make in settings(suggester).items():
        made = Lists.make(make, cases)
        row = measure(made, cases, background)
        if before is not None:
            row["against_before"] = difference(made, before, cases, background)
        elif setting == "before":
            before = made
        if first is not None:
            row["against_first"] = difference(made, first, cases, background)
        rows[f"{name}, {setting}"] = row
    return rows, before


def models_and_data(folder: Path) -> tuple[dict[str, Path], Path]:
    """Those named by the environment, or count models of a synthetic log."""
    named, data = (os.environ.get(f"NEXTQUERY_BENCH_{name}") for name in ("MODELS", "DATA"))
    if named and data:
        pairs = (pair.split("=", 1) for pair in named.split(","))
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


def held_out(data: PreparedData, most: int) -> list[Case]:
    """Contexts and the query that came next, drawn from the sessions of a split."""
    split = os.environ.get("NEXTQUERY_BENCH_SPLIT", "validation")
    sessions = [session.queries for session in data.sessions(split)]
    chosen = np.sort(np.random.default_rng(11).permutation(len(sessions))[:most])
    return [(sessions[index][:-1], sessions[index][-1]) for index in chosen]


def settings(suggester: Suggester) -> dict[str, Make]:
    """The ways to ask a model: as before, as now, and with other views of known queries."""
    if not isinstance(suggester, Decoding):
        return {"as it is": lambda many: [suggester.suggest(context, LISTED) for context in many]}
    now = suggester.config
    configs = {
        "before": now.model_copy(update={"specificity": 0.0, "known": "free"}),
        "now": now,
        "now and free": now.model_copy(update={"known": "free"}),
        "now and only": now.model_copy(update={"known": "only"}),
    }

    def made(config: DecodeConfig) -> Make:
        return lambda many: suggester.suggest_many(many, LISTED, config=config)

    named = os.environ.get("NEXTQUERY_BENCH_SETTINGS")
    wanted = named.split(",") if named else list(configs)
    return {name: made(config) for name, config in configs.items() if name in wanted}


@dataclass(frozen=True)
class Lists:
    """The lists of one model and setting, the rank of the next query in each, and their cost."""

    texts: list[list[str]]
    ranks: np.ndarray
    cpu_ms: float

    @classmethod
    def make(cls, make: Make, cases: Sequence[Case]) -> "Lists":
        """Eight contexts at a time."""
        start = time.process_time()
        texts = [
            [suggestion.text for suggestion in row]
            for start in range(0, len(cases), 8)
            for row in make([context for context, _ in cases[start : start + 8]])
        ]
        ms = 1000 * (time.process_time() - start) / max(1, len(cases))
        pairs = zip(texts, (wanted for _, wanted in cases), strict=True)
        ranks = [row.index(wanted) + 1 if wanted in row else np.inf for row, wanted in pairs]
        return cls(texts, np.array(ranks), ms)


def informational(cases: Sequence[Case], background: Background) -> np.ndarray:
    """Whether the query typed next is not one of the most frequent."""
    return np.array([wanted not in background.frequent for _, wanted in cases])


def measure(made: Lists, cases: Sequence[Case], background: Background) -> dict[str, Any]:
    """One row of the table."""
    reciprocal = 1 / made.ranks
    return {
        **{f"hit_at_{n}": float((made.ranks <= n).mean()) for n in (1, 5, 10)},
        "mrr": interval(reciprocal),
        "informational_mrr": interval(reciprocal[informational(cases, background)]),
        **shown(made.texts, cases, background),
        "cpu_ms": made.cpu_ms,
    }


def difference(
    made: Lists, before: Lists, cases: Sequence[Case], background: Background
) -> dict[str, Any]:
    """The change of the MRR against the former defaults, relative, and its p-value."""
    chosen = informational(cases, background)
    differences = {}
    for name, mask in (("mrr", chosen | True), ("informational_mrr", chosen)):
        now, then = (1 / made.ranks)[mask], (1 / before.ranks)[mask]
        change = now.mean() / then.mean() - 1 if then.any() else 0.0
        differences[name] = {"relative": float(change), "p": paired_t_test(now, then)}
    return differences


def shown(
    lists: Sequence[Sequence[str]], cases: Sequence[Case], background: Background
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
        **{str(relation): relations[relation] / total for relation in Relation},
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
