"""The synthetic log: how fast it is written, and how much of it only the context explains.

The headroom is measured under the paper's rules. `intent` is an oracle: it is told the session's
hidden intent and ranks that intent's outcomes first. What is between the Baseline Ranker, which
has the ADJ count, frequencies, string similarity to the whole context and QVMM, and the oracle is
there for a model that reads the words of the context.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nextquery.evaluation.scenarios import SCENARIOS, Rules
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import make_log, write_log
from nextquery.logs.synthetic.queries import ENTITIES, INTENTS, OUTCOMES, load_lexicon
from nextquery.ranking.cases import BackgroundCounts, Backgrounds, CaseSet, Floats, reciprocal_ranks
from nextquery.ranking.features import baseline_features
from nextquery.ranking.lambdamart import SHAPES, RankedPart, RankerData, train_ranker
from nextquery.ranking.scoring import log_likelihoods
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.qvmm import QVMM

SEED = 1
LENGTHS = {"short": (2, 2), "medium": (3, 4), "long": (5, 99)}


def main(quick: bool) -> dict[str, Any]:
    sessions = 30_000 if quick else 60_000
    with tempfile.TemporaryDirectory() as folder:
        return {
            "writing": _writing(Path(folder), 20_000 if quick else 185_000),
            "log": Headroom(Path(folder), sessions, shuffled=False).measure(),
            "control": Headroom(Path(folder), sessions, shuffled=True).measure(),
        }


def _writing(folder: Path, sessions: int) -> dict[str, float]:
    start = time.perf_counter()
    rows = write_log(folder / "speed.tsv", sessions, SEED).rows
    seconds = time.perf_counter() - start
    return {"rows": rows, "seconds": seconds, "seconds_per_million_rows": seconds / rows * 1e6}


class Headroom:
    """The scenarios of one synthetic log, and what systems without the words' meaning reach."""

    def __init__(self, folder: Path, sessions: int, *, shuffled: bool) -> None:
        write_log(folder / "log.tsv", sessions, SEED, shuffled=shuffled)
        prepare([folder / "log.tsv"], folder / "data", PrepareSettings(spelling=False))
        self.data = PreparedData(folder / "data")
        self.background = BackgroundCounts.read(self.data)
        self.qvmm = fit_model(QVMM, self.data)
        self.intents = dict(self._intents(sessions))
        self.outcomes = dict(_outcomes())

    def measure(self) -> dict[str, Any]:
        """MRR by scenario, system and length of the session."""
        return {name: self._scenario(name) for name in ("next_query", "robust", "long_tail")}

    def _scenario(self, name: str) -> dict[str, Any]:
        parts = {}
        for split in ("training", "validation", "test"):
            sessions = list(self.data.sessions(split))
            backgrounds = Backgrounds(self.background)
            cases = SCENARIOS[name].build(sessions, backgrounds, Rules())
            qvmm = log_likelihoods(self.qvmm, cases)
            parts[split] = RankedPart(cases, baseline_features(cases, backgrounds, qvmm))
        shape = SHAPES[0]
        data = RankerData(parts["training"], parts["validation"], shape.smallest_leaf)
        ranker = train_ranker(data, shape, SEED)
        test = parts["test"]
        column = test.features.column
        similar = np.column_stack([column(f"similarity_{back}") for back in range(1, 11)])
        scores = {
            "adj": column("adj_count"),
            "qvmm": column("qvmm"),
            "similarity": similar.mean(axis=1),
            "baseline": ranker.scores(test.features),
            "intent": self._oracle(test.cases) * 1e6 + column("adj_count"),
        }
        lengths = {system: _by_length(test.cases, values) for system, values in scores.items()}
        return {"cases": {split: len(part.cases) for split, part in parts.items()}, **lengths}

    def _oracle(self, cases: CaseSet) -> Floats:
        """1 for candidates that are outcomes of the session's hidden intent."""
        return np.array(
            [
                float(self.outcomes.get(text, -1) == self.intents[case.session])
                for case in cases.cases
                for text in case.candidates
            ]
        )

    def _intents(self, sessions: int) -> Iterator[tuple[int, int]]:
        """The hidden intent of each prepared session, found by the time of its start."""
        made = make_log(sessions, SEED)
        first = made.queries.unique("session", keep="first", maintain_order=True)
        hidden = made.hidden.domain * INTENTS + made.hidden.intent
        started: dict[int, set[int]] = {}
        for second, session in first.select("time", "session").iter_rows():
            started.setdefault(second, set()).add(int(hidden[session]))
        for split in ("training", "validation", "test"):
            starts = self.data.session_rows(split).filter(pl.col("position") == 0)
            second = pl.col("time").dt.epoch("s")
            for session, second_of_start in starts.select("session", second).collect().iter_rows():
                # Sessions of two intents that start in one second cannot be told apart.
                intents = started[second_of_start]
                yield session, min(intents) if len(intents) == 1 else -1


def _outcomes() -> Iterator[tuple[str, int]]:
    """The intent of every query that is an outcome."""
    lexicon = load_lexicon()
    names, phrases = lexicon.starts["entities"], lexicon.starts["outcomes"]
    for entity in range(len(lexicon.domains) * ENTITIES):
        first = entity // ENTITIES * INTENTS
        for outcome in range(first * OUTCOMES, (first + INTENTS) * OUTCOMES):
            text = f"{lexicon.phrases[names + entity]} {lexicon.phrases[phrases + outcome]}"
            yield text, outcome // OUTCOMES


def _by_length(cases: CaseSet, scores: Floats) -> dict[str, float]:
    reciprocal = reciprocal_ranks(cases, scores)
    lengths = np.array([case.length for case in cases.cases])
    parts = {
        name: reciprocal[(lengths >= least) & (lengths <= most)]
        for name, (least, most) in LENGTHS.items()
    }
    means = {"all": reciprocal, **parts}
    return {name: round(float(values.mean()), 3) for name, values in means.items() if len(values)}
