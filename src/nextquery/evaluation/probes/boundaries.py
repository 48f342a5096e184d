"""Where does a session end? Boundaries found by the update gates, as the paper suggests.

A user's queries come as one stream. Each gap between two queries is scored by how far the second
query updates the session state, and by the text and time around it as baselines. Thresholds and
the combined score are learnt on the validation streams.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nextquery.artifacts.files import read_plain_text
from nextquery.errors import InputError
from nextquery.evaluation.probes.gates import mean_gates
from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.cases import Floats
from nextquery.ranking.scoring import Track
from nextquery.suggesters.base import Gated

MEMORY = 5
"""The gates see this many queries before the gap; a longer stream would only slow them down."""

Marks = NDArray[np.bool_]


@dataclass(frozen=True)
class Gap:
    """Two consecutive queries of a user: what came before, the time between, and the truth."""

    before: tuple[str, ...]
    after: str
    minutes: float | None
    boundary: bool


@dataclass(frozen=True)
class BoundaryScore:
    """How well one way to find boundaries does."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class BoundaryResult:
    """Every way to find boundaries on the same streams."""

    gaps: int
    boundaries: int
    tuning_gaps: int
    systems: Mapping[str, BoundaryScore]


def gaps_of_split(data: PreparedData, split: str, limit: int) -> list[Gap]:
    """The gaps of up to `limit` queries of a split; a boundary is where the session changes."""
    rows = data.session_rows(split).sort("user", "time", "session", "position").collect()
    table = rows.head(limit).select("user", "session", "time", "query")
    return _gaps([(user, time, query, session) for user, session, time, query in table.iter_rows()])


def gaps_of_file(path: Path) -> list[Gap]:
    """The gaps of a labelled stream: CSV or TSV with `user`, `query`, `session` and maybe `time`.

    Rows are in the order of typing; `session` is any label that changes where a session ends.
    """
    try:
        text = read_plain_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({error})") from None
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    reader = csv.DictReader(text.splitlines(), delimiter=delimiter)
    try:
        missing = {"user", "query", "session"} - set(reader.fieldnames or ())
        if missing:
            raise InputError(f"{path}: lacks the column {sorted(missing)[0]!r} in its first line")
        rows: list[tuple[Any, ...]] = [
            (row["user"], _time(row.get("time"), path), row["query"] or "", row["session"])
            for row in reader
        ]
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}") from None
    return _gaps(rows)


def read_gaps(data: PreparedData, limit: int, labels: Path | None) -> tuple[list[Gap], list[Gap]]:
    """The gaps to tune on and to test on: validation and test streams, or halves of a file."""
    if labels is None:
        return gaps_of_split(data, "validation", limit), gaps_of_split(data, "test", limit)
    gaps = gaps_of_file(labels)
    half = len(gaps) // 2
    if not half:
        raise InputError(f"{labels}: has fewer than two gaps between queries of the same user")
    return gaps[:half], gaps[half:]


def boundary_result(
    tuning: Sequence[Gap], test: Sequence[Gap], models: Mapping[str, Gated], track: Track
) -> BoundaryResult:
    """Precision, recall and F1 of every way to find the boundaries of the test streams.

    Without gaps to learn a threshold from, or to test it on, there are no systems.
    """
    if not tuning or not test:
        return BoundaryResult(len(test), sum(gap.boundary for gap in test), len(tuning), {})
    truth = [np.array([gap.boundary for gap in gaps], dtype=np.bool_) for gaps in (tuning, test)]
    scores = {name: (_text(name, tuning), _text(name, test)) for name in _TEXT_SCORES}
    if all(gap.minutes is not None for gaps in (tuning, test) for gap in gaps):
        scores["minutes"] = (_minutes(tuning), _minutes(test))
    for name, model in models.items():
        scores[f"{name} gates"] = (_gates(model, tuning, track), _gates(model, test, track))
    text = list(_TEXT_SCORES)
    scores["text combined"] = _combined([scores[name] for name in text], truth[0])
    for name in models:
        with_gates = [scores[part] for part in (*text, f"{name} gates")]
        scores[f"text + {name} gates"] = _combined(with_gates, truth[0])
    systems = {
        name: boundary_score(best_threshold(learnt, truth[0]), measured, truth[1])
        for name, (learnt, measured) in scores.items()
    }
    always = boundary_score(-np.inf, np.zeros(len(test)), truth[1])
    return BoundaryResult(
        gaps=len(test),
        boundaries=int(truth[1].sum()),
        tuning_gaps=len(tuning),
        systems={"every gap": always, **systems},
    )


def best_threshold(scores: Floats, truth: Marks) -> float:
    """The threshold with the best F1: gaps that score at least as much are boundaries.

    Where there is nothing to learn from, no gap is one.
    """
    if not len(scores):
        return float("inf")
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(truth[order])
    f1 = 2.0 * hits / (np.arange(1, len(order) + 1) + max(int(truth.sum()), 1))
    # A threshold cannot part equal scores: only the last of them is a possible place.
    last = np.append(scores[order][1:] != scores[order][:-1], True)
    return float(scores[order][int(np.argmax(np.where(last, f1, -1.0)))])


def boundary_score(threshold: float, scores: Floats, truth: Marks) -> BoundaryScore:
    """Precision, recall and F1 of the gaps at or above a threshold."""
    marked = scores >= threshold
    hits = int((marked & truth).sum())
    precision = hits / max(int(marked.sum()), 1)
    recall = hits / max(int(truth.sum()), 1)
    f1 = 2.0 * precision * recall / (precision + recall) if hits else 0.0
    return BoundaryScore(precision, recall, f1)


_TEXT_SCORES = ("edits", "no shared word")


def _text(name: str, gaps: Sequence[Gap]) -> Floats:
    """How little the texts of two queries have in common; higher is more of a boundary."""
    before, after = [gap.before[-1] for gap in gaps], [gap.after for gap in gaps]
    if name == "edits":
        distances = process.cpdist(before, after, scorer=Levenshtein.normalized_distance)
        return np.asarray(distances, dtype=np.float64)
    words = [(set(a.split()), set(b.split())) for a, b in zip(before, after, strict=True)]
    return np.array([1.0 - len(a & b) / max(len(a | b), 1) for a, b in words])


def _minutes(gaps: Sequence[Gap]) -> Floats:
    return np.array([gap.minutes for gap in gaps], dtype=np.float64)


def _gates(model: Gated, gaps: Sequence[Gap], track: Track) -> Floats:
    """The mean update gate of the query after the gap."""
    contexts = [(*gap.before, gap.after) for gap in gaps]
    return np.array([means[-1] for means in mean_gates(model, contexts, track)])


def _combined(scores: Sequence[tuple[Floats, Floats]], truth: Marks) -> tuple[Floats, Floats]:
    """A logistic regression of several scores, fitted on the validation gaps."""
    learnt, measured = (np.column_stack([pair[side] for pair in scores]) for side in (0, 1))
    if truth.all() or not truth.any():
        return learnt.sum(axis=1), measured.sum(axis=1)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(learnt, truth)
    return model.predict_proba(learnt)[:, 1], model.predict_proba(measured)[:, 1]


def _gaps(rows: Sequence[tuple[Any, ...]]) -> list[Gap]:
    """Pairs of neighbouring rows (user, time, query, session) of the same user."""
    gaps: list[Gap] = []
    history: list[str] = []
    for earlier, later in pairwise(rows):
        history = [*history, earlier[2]][-MEMORY:]
        if earlier[0] != later[0]:
            history = []
            continue
        timed = earlier[1] is not None and later[1] is not None
        minutes = (later[1] - earlier[1]).total_seconds() / 60.0 if timed else None
        gaps.append(Gap(tuple(history), later[2], minutes, earlier[3] != later[3]))
    return gaps


def _time(text: str | None, path: Path) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{path}: {text!r} is not a time such as 2006-05-01 10:30:00") from None
