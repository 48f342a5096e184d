"""Fitting the model of returning visitors to a prepared log.

Each request of a training session is a case: what its user had typed before it, and which query
came next. All features are causal, and none counts what other people typed: a visitor whom the log
has not seen has the same features as one whom it has.

The validation sessions decide everything that is not learnt: how probabilities are calibrated, and
what is shown (`_choose_rule`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nextquery.errors import InputError
from nextquery.guard.guard import Guard
from nextquery.logs.data_folder import PreparedData, data_entry
from nextquery.suggesters.returning import (
    FEATURES,
    MAX_HISTORY,
    Floats,
    PastQuery,
    Regression,
    Returning,
    ReturningSettings,
    candidate_features,
    sigmoid,
)

JOURNAL = "journal/rows.parquet"
IDLE_SECONDS = 1800
OTHERS_PER_REQUEST = 40
"""Candidates that were not the next query: at most this many are drawn per request."""
NEWTON_STEPS = 30
UNLIKELY, LIKELY = 0.02, 0.5
"""No threshold is lower or higher: on a log without habits nothing is shown."""
FURTHER_SHARES = (1.0, 0.5, 0.25, 0.125)
SHOWN_AT_MOST = 3

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
    drawn = draw_sessions(data, split, sessions, seed)
    return requests_of_sessions(data, split, drawn, last_only=last_only)


def draw_sessions(data: PreparedData, split: str, sessions: int, seed: int) -> pl.Series:
    """The numbers of up to `sessions` sessions of a split, drawn at random."""
    rows = data.session_rows(split)
    numbers = rows.select(pl.col("session").unique()).collect()["session"].sort()
    if not len(numbers):
        raise InputError(f"{data.path}: no {split} sessions, which returning visitors need")
    return numbers.sample(min(sessions, len(numbers)), shuffle=True, seed=seed)


def requests_of_sessions(
    data: PreparedData, split: str, numbers: pl.Series, *, last_only: bool = False
) -> list[PastRequest]:
    """The requests of the sessions with these numbers."""
    chosen = data.session_rows(split).filter(pl.col("session").is_in(numbers.implode()))
    users = chosen.select("user").unique().collect()
    searches = _searches(data, users["user"])
    session_numbers = set(numbers)
    requests: list[PastRequest] = []
    for user, group in groupby(searches.iter_rows(), key=itemgetter(0)):
        of_user = _requests_of(user, list(group), session_numbers)
        requests += [request for request in of_user if request.is_last or not last_only]
    return requests


def _searches(data: PreparedData, users: pl.Series) -> pl.DataFrame:
    """All searches of some users in the order of time: user, seconds, query, session or null."""
    is_of_users = pl.col("user").is_in(users.implode())
    columns = ("user", "time", "query", "session", "position")
    parts = [data.search_rows(split).filter(is_of_users).select(columns) for split in data.splits]
    sessions = pl.concat(parts).collect()
    if not data.counts_single_searches and JOURNAL in data.artifact.manifest["files"]:
        rows = pl.scan_parquet(data.file(JOURNAL)).filter(is_of_users & pl.col("drop").is_null())
        single = rows.select("user", "time", "query").collect()
        single = single.join(sessions, on=["user", "time"], how="anti").with_columns(
            session=pl.lit(None, pl.Int64), position=pl.lit(None, pl.Int32)
        )
        sessions = pl.concat([sessions, single])
    ordered = sessions.sort("user", "time", "position", "query", nulls_last=True)
    seconds = (pl.col("time").dt.epoch("us") / 1e6).alias("time")
    return ordered.select("user", seconds, "query", "session")


def _requests_of(
    user: str, searches: Sequence[Search], session_numbers: set[int]
) -> Iterator[PastRequest]:
    """The requests of one user in the sessions with these numbers."""
    past: dict[str, PastQuery] = {}  # the most recent last
    context: list[str] = []
    session_now: int | None = None
    known_before = False
    last_query, last_time = "", 0.0
    following = _next_in_sessions(searches)
    for index, (_, time, query, session) in enumerate(searches):
        if query == last_query and time - last_time <= IDLE_SECONDS:
            last_time = time  # a further click, or the next page of results
            if session is None or session == session_now:
                continue
        if session is not None and session != session_now:
            context, session_now, known_before = [], session, bool(past)
        if session in session_numbers:
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
    learnt_from = _examples(training, settings.seed)
    if not learnt_from.labels.any():
        raise InputError(
            f"{data.path}: no query of a training session was typed before by the same user, "
            "so there is nothing to learn about returning visitors"
        )
    validation = read_requests(data, "validation", settings.sessions, settings.seed)
    checked = _examples(validation, settings.seed)
    weights = logistic_regression(
        learnt_from.rows, learnt_from.labels, learnt_from.weights, settings.ridge
    )
    learnt = _calibrated(Regression(weights), checked)
    threshold, further, measured = _choose_rule(learnt, validation, settings)
    model = Returning(learnt, threshold, settings, Guard(), further)
    model.data_entry = data_entry(data)
    model.validation = measured
    data.artifact.check_current()
    return model


@dataclass(frozen=True)
class Examples:
    """Candidates of requests."""

    rows: Floats
    """(candidates, FEATURES)"""
    labels: Floats
    """1 if the candidate was the next query, else 0."""
    weights: Floats
    """How many candidates each stands for."""


def _examples(requests: Sequence[PastRequest], seed: int) -> Examples:
    """The candidates of requests; of those that were not the next query, some are drawn."""
    generator = np.random.default_rng(seed)
    rows, labels, weights = [np.zeros((0, len(FEATURES)))], [np.zeros(0)], [np.zeros(0)]
    for request in requests:
        texts, features = candidate_features(request.context, request.history, request.now)
        label = np.array([text == request.next_query for text in texts], dtype=np.float64)
        weight = np.ones(len(texts))
        negatives = np.flatnonzero(label == 0)
        if len(negatives) > OTHERS_PER_REQUEST:
            drawn = generator.permutation(negatives)[:OTHERS_PER_REQUEST]
            weight[drawn] = len(negatives) / OTHERS_PER_REQUEST
            chosen = np.sort(np.concatenate([np.flatnonzero(label), drawn]))
            features, label, weight = features[chosen], label[chosen], weight[chosen]
        rows.append(features)
        labels.append(label)
        weights.append(weight)
    return Examples(np.concatenate(rows), np.concatenate(labels), np.concatenate(weights))


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
        expected = sigmoid(inputs @ learnt)
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


def _calibrated(learnt: Regression, examples: Examples) -> Regression:
    """Scaled and shifted so that probabilities fit other users' later searches."""
    labels = examples.labels
    if not labels.any() or labels.all():
        return learnt
    logits = learnt.logits(examples.rows)
    slope, shift = logistic_regression(logits[:, None], labels, examples.weights, 0.0)
    weights = learnt.weights * float(slope)
    weights[-1] += float(shift)
    return Regression(weights)


def _choose_rule(
    learnt: Regression, validation: Sequence[PastRequest], settings: ReturningSettings
) -> tuple[float, float, dict[str, float]]:
    """The threshold, the share of it that further queries need, and what they give.

    Of the rules that the two settings allow, the one with the most hits in the last request of
    each session. `shown` bounds the upper end of the 95% interval over users of the share of
    requests in which something is shown; `precision` bounds how often a query that is shown is
    the next one. If no rule is as precise, the most precise one.
    """
    requests = [request for request in validation if request.is_last]
    if not requests:
        return 1.0, 1.0, {"requests": 0.0, "shown": 0.0, "hit": 0.0, "precision": 0.0}
    values = np.zeros((len(requests), SHOWN_AT_MOST))  # (requests, the likeliest candidates)
    is_next = np.zeros(values.shape, dtype=np.bool_)
    of_last_three = np.zeros(2)  # queries that are the next one, queries
    for index, request in enumerate(requests):
        texts, rows = candidate_features(request.context, request.history, request.now)
        if not texts or not request.history:
            continue
        probabilities = sigmoid(learnt.logits(rows))
        best = np.argsort(-probabilities, kind="stable")[:SHOWN_AT_MOST]
        values[index, : len(best)] = probabilities[best]
        is_next[index, : len(best)] = [texts[position] == request.next_query for position in best]
        last_three = [entry.text for entry in request.history if entry.text != request.context[-1]]
        of_last_three += request.next_query in last_three[:3], len(last_three[:3])
    _, users = np.unique([request.user for request in requests], return_inverse=True)
    threshold = _lowest_threshold(values[:, 0], users, settings.shown)
    needed = settings.precision * of_last_three[0] / max(of_last_three[1], 1.0)
    rules = []
    for further in FURTHER_SHARES:
        is_shown = (values >= threshold * further) & (values[:, :1] >= threshold)
        hit = float((is_shown & is_next).any(axis=1).mean())
        precision = float((is_shown & is_next).sum() / max(is_shown.sum(), 1))
        is_precise = precision >= needed
        rules.append((is_precise, hit if is_precise else precision, further, hit, precision))
    _, _, further, hit, precision = max(rules)
    return threshold, further, {
        "requests": float(len(requests)),
        "shown": float((values[:, 0] >= threshold).mean()),
        "hit": hit,
        "precision": precision,
        "precision_of_last_three": float(of_last_three[0] / max(of_last_three[1], 1.0)),
    }  # fmt: skip


def _lowest_threshold(likeliest: Floats, users: NDArray[np.int64], shown: float) -> float:
    """The lowest threshold that at most a share `shown` of the requests reaches.

    The share is the upper end of its 95% interval over users. What is likelier than not is always
    shown.
    """
    requests = np.bincount(users)
    for threshold in np.unique(likeliest[likeliest > 0]).tolist():
        is_shown = likeliest >= threshold
        share = is_shown.mean()
        difference = np.bincount(users, weights=is_shown) - share * requests
        if min(share + 1.96 * np.sqrt((difference**2).sum()) / len(likeliest), 1.0) <= shown:
            return float(np.clip(threshold, UNLIKELY, LIKELY))
    return LIKELY
