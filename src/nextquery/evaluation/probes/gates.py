"""Probes of the session update gates: noisy contexts, projections of vectors, session boundaries.

Boundaries: a user's queries come as one stream, and each gap between two queries is scored by how
far the second query updates the session state, as the paper suggests, and by the text and time
around it as baselines. Thresholds and the combined score are learnt on the validation streams.
"""

import csv
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import TSNE
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nextquery.artifacts.files import read_plain_text
from nextquery.errors import InputError
from nextquery.evaluation.comparison import bootstrap_interval, paired_t_test
from nextquery.evaluation.scenarios import Noise
from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.cases import Floats
from nextquery.ranking.scoring import Track
from nextquery.records import Session
from nextquery.suggesters.base import Embedder, Gated

_BATCH = 256


@dataclass(frozen=True)
class GateExample:
    """One corrupted context with the gates of its queries."""

    queries: tuple[str, ...]
    gates: tuple[tuple[float, ...], ...]  # (queries, d_s)


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """The gates of one model on clean contexts, and an example with noise."""

    contexts: int
    """How many contexts have a query of their own and a noisy one at the same place."""
    by_position: Mapping[str, float]
    """The mean gate of the first, second, ... fifth query of clean contexts."""
    example: GateExample | None


@dataclass(frozen=True, kw_only=True)
class GateComparison(GateResult):
    """Mean gates of own queries and of noise at the same places, of two contexts or more.

    `difference` is noise less own query, with its 95% bootstrap interval; `p` the paired t-test's.
    """

    own_query: float
    noisy_query: float
    difference: float
    difference_low: float
    difference_high: float
    p: float
    noise_updates_less: float
    """The share of contexts in which the noise updates less."""


def gate_result(
    model: Gated,
    sessions: Sequence[Session],
    noise: Noise,
    track: Track,
    known: Container[str] = (),
) -> GateComparison | GateResult:
    """Mean gates of inserted noise and of the query that was at the same place before it.

    The example consists of `known` queries, which K users typed.

    Only contexts with a query at that place take part, so that both gates belong to the same
    position; the first position is left out, where nothing is remembered yet.
    """
    contexts = [session.queries[:-1] for session in sessions]
    noisy = [
        noise.insert(context, session.id)
        for context, session in zip(contexts, sessions, strict=True)
    ]
    clean_means = mean_gates(model, contexts, track)
    noisy_means = mean_gates(model, [context.queries for context in noisy], track)
    pairs = [
        (clean[context.position], corrupted[context.position])
        for clean, corrupted, context in zip(clean_means, noisy_means, noisy, strict=True)
        if 0 < context.position < len(clean)
    ]
    by_position = {
        str(position + 1): float(
            np.mean([row[position] for row in clean_means if len(row) > position])
        )
        for position in range(5)
        if any(len(row) > position for row in clean_means)
    }
    example = gate_example(model, sessions, noise, known)
    if len(pairs) < 2:
        return GateResult(contexts=len(pairs), by_position=by_position, example=example)
    original, inserted = np.array(pairs).T
    low, high = bootstrap_interval(inserted - original)
    return GateComparison(
        contexts=len(original),
        by_position=by_position,
        example=example,
        own_query=float(original.mean()),
        noisy_query=float(inserted.mean()),
        difference=float((inserted - original).mean()),
        difference_low=low,
        difference_high=high,
        p=paired_t_test(inserted, original),
        noise_updates_less=float((inserted < original).mean()),
    )


def gate_example(
    model: Gated, sessions: Sequence[Session], noise: Noise, known: Container[str]
) -> GateExample | None:
    """Gates of one corrupted context, as the paper shows them: two queries, then a noisy one.

    All of them were typed by K users; None where no session is so.
    """
    for session in sessions:
        context = session.queries[:-1]
        noisy = noise.insert(context, session.id)
        public = all(query in known for query in noisy.queries)
        if public and noisy.position == len(context) == 2 and not noise.within(context):
            return read_gates(model, noisy.queries)
    return None


def read_gates(model: Gated, context: tuple[str, ...]) -> GateExample:
    """The gates of every query of a context, rounded."""
    gates = model.update_gates_many([context])[0].round(3).astype(np.float64)
    return GateExample(context, tuple(map(tuple, gates.tolist())))


def mean_gates(model: Gated, contexts: Sequence[tuple[str, ...]], track: Track) -> list[Floats]:
    """The mean over the gate's elements, one number per query of each context."""
    means: list[Floats] = []
    for start in track(range(0, len(contexts), _BATCH)):
        gates = model.update_gates_many(contexts[start : start + _BATCH])
        means += [np.asarray(gate.mean(axis=1), np.float64) for gate in gates]
    return means


POINTS = 300
GROUPS = 10

Vectors = NDArray[np.float32]


ITERATIONS = 400
"""Of t-SNE: enough for some hundred points."""


@dataclass(frozen=True)
class ProjectedText:
    """A text's place on the plane, and the number of its group of neighbours."""

    text: str
    x: float
    y: float
    group: int


@dataclass(frozen=True)
class Projections:
    """The most frequent words and queries on a plane; empty if there are too few."""

    words: tuple[ProjectedText, ...]
    queries: tuple[ProjectedText, ...]


def projections(suggester: Embedder, data: PreparedData, seed: int) -> Projections:
    """The most frequent words of four letters or more, and the most frequent longer queries.

    Short words and one-word queries are mostly function words and site names, which the paper's
    figure leaves out too.
    """
    vocabulary = suggester.model.vocabulary
    words = [word for word in data.words() if len(word) > 3 and word.isalpha()]
    known = [word for word in words if word in vocabulary][:POINTS]
    vectors = suggester.word_vectors()[[vocabulary.id(word) for word in known]]
    queries = data.counts("queries").select("query").collect()["query"].to_list()
    longer = [query for query in queries if " " in query][:POINTS]
    return Projections(
        words=project(known, vectors, seed),
        queries=project(longer, suggester.query_vectors(longer), seed),
    )


def project(texts: Sequence[str], vectors: Vectors, seed: int) -> tuple[ProjectedText, ...]:
    """A place on the plane and a group of neighbours for each text."""
    if len(texts) < GROUPS:
        return ()
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    plane = TSNE(
        perplexity=min(15.0, (len(texts) - 1) / 3),
        init="pca",
        method="exact",
        max_iter=ITERATIONS,
        random_state=seed,
    ).fit_transform(unit.astype(np.float64))
    groups = KMeans(GROUPS, n_init=4, random_state=seed).fit_predict(plane)
    return tuple(
        ProjectedText(text, float(x), float(y), int(group))
        for text, (x, y), group in zip(texts, plane, groups, strict=True)
    )


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
    truth, test_truth = (
        np.array([gap.boundary for gap in gaps], dtype=np.bool_) for gaps in (tuning, test)
    )
    learnt, measured = (gap_scores(gaps, models, track) for gaps in (tuning, test))
    combined = {"text combined": TEXT_SCORES}
    combined |= {f"text + {name} gates": (*TEXT_SCORES, f"{name} gates") for name in models}
    for title, parts in combined.items():
        learnt[title], measured[title] = _combined(
            [learnt[part] for part in parts], [measured[part] for part in parts], truth
        )
    systems = {
        name: boundary_score(best_threshold(scores, truth), measured[name], test_truth)
        for name, scores in learnt.items()
        if name in measured  # there may be times in one of the streams only
    }
    always = boundary_score(-np.inf, np.zeros(len(test)), test_truth)
    return BoundaryResult(
        gaps=len(test),
        boundaries=int(test_truth.sum()),
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


TEXT_SCORES: tuple[str, ...] = ("edits", "no shared word")


def gap_scores(gaps: Sequence[Gap], models: Mapping[str, Gated], track: Track) -> dict[str, Floats]:
    """The scores of each gap, higher is more of a boundary: by text, time and update gates.

    By text: how little two queries have in common. By time only if all gaps have one. By gates: the
    mean update gate of the query after the gap.
    """
    before, after = [gap.before[-1] for gap in gaps], [gap.after for gap in gaps]
    edits = process.cpdist(before, after, scorer=Levenshtein.normalized_distance)
    words = [(set(a.split()), set(b.split())) for a, b in zip(before, after, strict=True)]
    not_shared = [1.0 - len(a & b) / max(len(a | b), 1) for a, b in words]
    scores = {"edits": edits.astype(np.float64), "no shared word": np.array(not_shared)}
    if all(gap.minutes is not None for gap in gaps):
        scores["minutes"] = np.array([gap.minutes for gap in gaps], np.float64)
    contexts = [(*gap.before, gap.after) for gap in gaps]
    for name, model in models.items():
        means = mean_gates(model, contexts, track)
        scores[f"{name} gates"] = np.array([row[-1] for row in means])
    return scores


def _combined(
    learnt: Sequence[Floats], measured: Sequence[Floats], truth: Marks
) -> tuple[Floats, Floats]:
    """A logistic regression of several scores, fitted on the validation gaps."""
    tuning, test = np.column_stack(learnt), np.column_stack(measured)
    if truth.all() or not truth.any():
        return tuning.sum(axis=1), test.sum(axis=1)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(tuning, truth)
    return model.predict_proba(tuning)[:, 1], model.predict_proba(test)[:, 1]


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
