"""Fitting the model of returning visitors to a prepared log.

Each request of a training session is a case: what its user had typed before it, and which query
came next. All features are causal, and none counts what other people typed: a visitor whom the log
does not know has the same features as one whom it knows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter

import numpy as np
import polars as pl

from nextquery.errors import InputError
from nextquery.guard.guard import Guard
from nextquery.logs.data_folder import PreparedData, data_entry
from nextquery.suggesters.returning import (
    FEATURES,
    FURTHER,
    MAX_HISTORY,
    Floats,
    PastQuery,
    Returning,
    ReturningSettings,
    candidate_features,
)

JOURNAL = "journal/rows.parquet"
IDLE_SECONDS = 1800
OTHERS_PER_REQUEST = 40
"""Candidates that were not the next query: so many are drawn per request and weighted up."""
NEWTON_STEPS = 30

Search = tuple[str, float, str, int | None]
"""User, seconds since 1970, query, session; None for a session of one query."""


@dataclass(frozen=True, slots=True)
class PastRequest:
    """A request of the log with what its user had typed before."""

    user: str
    context: tuple[str, ...]
    next_query: str
    now: float
    history: tuple[PastQuery, ...]
    returning: bool
    """Whether the user typed something before this session."""
    is_last: bool
    """Whether the next query ends the session."""


def read_requests(
    data: PreparedData, split: str, sessions: int, seed: int, *, last_only: bool = False
) -> list[PastRequest]:
    """The requests of up to `sessions` sessions of a split, drawn at random.

    A user's past is in all splits, and in sessions of one query where the folder has them (one of
    an earlier version has them in its journal).
    With `last_only` a session gives one request, whose next query is its last.
    """
    rows = data.session_rows(split)
    numbers = rows.select(pl.col("session").unique()).collect()["session"].sort()
    if not len(numbers):
        raise InputError(f"{data.path}: no {split} sessions, which returning visitors need")
    drawn = numbers.sample(min(sessions, len(numbers)), shuffle=True, seed=seed)
    users = rows.filter(pl.col("session").is_in(drawn.implode())).select("user").unique().collect()
    searches = _searches(data, users["user"])
    wanted = set(drawn)
    requests: list[PastRequest] = []
    for user, group in groupby(searches.iter_rows(), key=itemgetter(0)):
        user_requests = _requests_of(user, list(group), wanted)
        requests += [request for request in user_requests if request.is_last or not last_only]
    return requests


def _searches(data: PreparedData, users: pl.Series) -> pl.DataFrame:
    """All searches of some users in the order of time: user, seconds, query, session or null."""
    mine = pl.col("user").is_in(users.implode())
    columns = ("user", "time", "query", "session", "position")
    parts = [data.search_rows(split).filter(mine).select(columns) for split in data.splits]
    sessions = pl.concat(parts).collect()
    if not data.counts_single_searches and JOURNAL in data.artifact.manifest["files"]:
        rows = pl.scan_parquet(data.file(JOURNAL)).filter(mine & pl.col("drop").is_null())
        single = rows.select("user", "time", "query").collect()
        single = single.join(sessions, on=["user", "time"], how="anti").with_columns(
            session=pl.lit(None, pl.Int64), position=pl.lit(None, pl.Int32)
        )
        sessions = pl.concat([sessions, single])
    ordered = sessions.sort("user", "time", "position", "query", nulls_last=True)
    seconds = (pl.col("time").dt.epoch("us") / 1e6).alias("time")
    return ordered.select("user", seconds, "query", "session")


def _requests_of(user: str, searches: Sequence[Search], wanted: set[int]) -> Iterator[PastRequest]:
    """The requests of one user's wanted sessions."""
    past: dict[str, PastQuery] = {}  # the most recent last
    context: list[str] = []
    present: int | None = None
    known_before = False
    last_query, last_time = "", 0.0
    following = _next_in_sessions(searches)
    for index, (_, time, query, session) in enumerate(searches):
        if query == last_query and time - last_time <= IDLE_SECONDS:
            last_time = time  # a further click, or the next page of results
            if session is None or session == present:
                continue
        if session is not None and session != present:
            context, present, known_before = [], session, bool(past)
        if session in wanted:
            context.append(query)
            upcoming = following[index]
            if upcoming is not None and searches[upcoming][3] == session:
                after = following[upcoming]
                is_last = after is None or searches[after][3] != session
                recent = tuple(islice(reversed(past.values()), MAX_HISTORY))
                next_query = searches[upcoming][2]
                yield PastRequest(
                    user, tuple(context), next_query, time, recent, known_before, is_last
                )
        earlier = past.pop(query, None)
        past[query] = PastQuery(query, time, 1 + (earlier.count if earlier else 0))
        last_query, last_time = query, time


def _next_in_sessions(searches: Sequence[Search]) -> list[int | None]:
    """For each search the index of the next one that belongs to a session."""
    following: list[int | None] = [None] * len(searches)
    upcoming: int | None = None
    for index in reversed(range(len(searches))):
        following[index] = upcoming
        if searches[index][3] is not None:
            upcoming = index
    return following


def fit_returning(data: PreparedData, settings: ReturningSettings | None = None) -> Returning:
    """Learn what returning visitors search for again, and from which probability to show it."""
    settings = settings or ReturningSettings()
    training = read_requests(data, "training", settings.sessions, settings.seed)
    rows, labels, weights = _examples(training, settings.seed)
    if not labels.any():
        raise InputError(
            f"{data.path}: no query of a training session was typed before by the same user, "
            "so there is nothing to learn about returning visitors"
        )
    learnt = logistic_regression(rows, labels, weights, settings.ridge)
    validation = read_requests(data, "validation", (settings.sessions + 1) // 2, settings.seed)
    learnt = _calibrated(learnt, *_examples(validation, settings.seed, most=None)[:2])
    model = Returning(learnt, 0.0, settings, Guard())
    model.data_entry = data_entry(data)
    model.threshold, model.validation = _threshold(learnt, validation, settings.shown)
    data.artifact.check_current()
    return model


def _examples(
    requests: Sequence[PastRequest], seed: int, most: int | None = OTHERS_PER_REQUEST
) -> tuple[Floats, Floats, Floats]:
    """The features of candidates, whether each was the next query, and how much each counts.

    Of the candidates that were not, `most` are drawn per request and stand for all of them.
    """
    generator = np.random.default_rng(seed)
    rows, labels, weights = [np.zeros((0, len(FEATURES)))], [np.zeros(0)], [np.zeros(0)]
    for request in requests:
        texts, features = candidate_features(request.context, request.history, request.now)
        label = np.array([text == request.next_query for text in texts], dtype=np.float64)
        weight = np.ones(len(texts))
        negatives = np.flatnonzero(label == 0)
        if most is not None and len(negatives) > most:
            drawn = generator.permutation(negatives)[:most]
            weight[drawn] = len(negatives) / most
            kept = np.sort(np.concatenate([np.flatnonzero(label), drawn]))
            features, label, weight = features[kept], label[kept], weight[kept]
        rows.append(features)
        labels.append(label)
        weights.append(weight)
    return np.concatenate(rows), np.concatenate(labels), np.concatenate(weights)


def logistic_regression(rows: Floats, labels: Floats, weights: Floats, ridge: float) -> Floats:
    """One weight per column, then the intercept, by Newton's method with weight decay.

    Columns are standardised first, so that the decay does not depend on their units.

    >>> rows = np.array([[0.0], [1.0], [0.0], [1.0]])
    >>> learnt = logistic_regression(rows, np.array([0.0, 1, 1, 1]), np.array([3.0, 1, 1, 3]), 0.0)
    >>> bool(abs(learnt[1] - np.log(1 / 3)) < 1e-6)
    True
    """
    means = np.average(rows, axis=0, weights=weights)
    scales = np.sqrt(np.average((rows - means) ** 2, axis=0, weights=weights))
    scales[scales < 1e-9] = np.inf  # a constant column gets no weight
    inputs = np.column_stack([(rows - means) / scales, np.ones(len(rows))])
    decay = np.append(np.full(rows.shape[1], max(ridge, 1e-6)), 1e-6)
    share = np.average(labels, weights=weights)
    learnt = np.append(np.zeros(rows.shape[1]), np.log(share / (1.0 - share)) if share < 1 else 9.0)

    def loss(at: Floats) -> float:
        logits = inputs @ at
        missed = np.logaddexp(0.0, logits) - labels * logits
        return float(weights @ missed + 0.5 * decay @ at**2)

    before = loss(learnt)
    for _ in range(NEWTON_STEPS):
        expected = _sigmoid(inputs @ learnt)
        gradient = inputs.T @ (weights * (expected - labels)) + decay * learnt
        curvature = inputs.T @ (inputs * (weights * expected * (1.0 - expected))[:, None])
        step = np.linalg.solve(curvature + np.diag(decay), gradient)
        # A full step can overshoot where few labels are 1: halve it until the loss falls.
        while (after := loss(learnt - step)) > before and np.abs(step).max() > 1e-9:
            step /= 2.0
        if after >= before:
            break
        learnt, gain, before = learnt - step, before - after, after
        if gain < 1e-9 * before:
            break
    per_column = learnt[:-1] / scales
    return np.append(per_column, learnt[-1] - per_column @ means)


def _calibrated(learnt: Floats, rows: Floats, labels: Floats) -> Floats:
    """The weights scaled and shifted so that probabilities fit other users' later searches."""
    if not labels.any() or labels.all():
        return learnt
    logits = rows @ learnt[:-1] + learnt[-1]
    slope, shift = logistic_regression(logits[:, None], labels, np.ones(len(labels)), 0.0)
    scaled: Floats = learnt * slope
    scaled[-1] += shift
    return scaled


def _threshold(
    learnt: Floats, requests: Sequence[PastRequest], shown: float
) -> tuple[float, dict[str, float]]:
    """The threshold, and what it gives on the requests.

    The likeliest candidate of a share `shown` of all requests is above it.
    """
    first, hits, suggested = [], [], []
    for request in requests:
        texts, rows = candidate_features(request.context, request.history, request.now)
        values = _sigmoid(rows @ learnt[:-1] + learnt[-1])
        best = np.argsort(-values, kind="stable")[:3]
        first.append(values[best[0]] if len(best) and request.history else 0.0)
        suggested.append(values[best])
        hits.append(
            np.array([texts[index] == request.next_query for index in best], dtype=np.bool_)
        )
    threshold = float(np.quantile(first, 1.0 - shown, method="higher")) if first else 1.0
    threshold = max(threshold, 1e-6)
    # As in `Returning.again`: the first decides, others may be less likely.
    above = [
        (values >= threshold * FURTHER) & (values[:1] >= threshold).any() for values in suggested
    ]
    has_hit = [bool((hit & kept).any()) for hit, kept in zip(hits, above, strict=True)]
    is_shown = [bool(kept.any()) for kept in above]
    return threshold, {
        "requests": float(len(first)),
        "shown": float(np.mean(is_shown)),
        "hit": float(np.mean(has_hit)),
        "precision": float(sum(has_hit) / max(sum(map(int, map(np.sum, above))), 1)),
    }


def _sigmoid(values: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(values, -60.0, 60.0))))
