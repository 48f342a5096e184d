"""The cases of a scenario with their features, per split."""

import shutil
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from nextquery.evaluation.comparison import RankingResult, SystemRanks
from nextquery.evaluation.scenarios import SCENARIOS, Rules
from nextquery.evaluation.steps import Steps
from nextquery.evaluation.systems import Systems, write_user_subset
from nextquery.logs.data_folder import UNSEEN_USERS, PreparedData
from nextquery.ranking.cases import (
    BackgroundCounts,
    Backgrounds,
    CaseSet,
    Floats,
    user_fold,
    user_place,
)
from nextquery.ranking.features import (
    SIMILARITY,
    authors_features,
    baseline_features,
    suffix_counts,
    trigram_cosines,
)
from nextquery.ranking.lambdamart import RankedPart
from nextquery.ranking.scoring import BATCH, EARLIER, FORMS, Track, log_likelihoods
from nextquery.records import Session
from nextquery.suggesters.base import UsefulnessJudge
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.qvmm import QVMM, QVMMSettings


@dataclass(frozen=True)
class EarlierQueries:
    """Up to `limit` queries that the user typed before a session, oldest first, by session."""

    limit: int
    by_session: Mapping[int, tuple[str, ...]]

    def added_to(self, cases: CaseSet) -> CaseSet:
        """The cases with the earlier queries of their sessions.

        >>> from nextquery.ranking.cases import RankingCase
        >>> cases = CaseSet((RankingCase(7, ("b",), "b", ("c", "d"), 0, 2),))
        >>> EarlierQueries(3, {7: ("a",)}).added_to(cases).cases[0].earlier
        ('a',)
        """
        return CaseSet(
            replace(case, earlier=self.by_session.get(case.session, ())) for case in cases
        )


def read_earlier_queries(data: PreparedData, limit: int) -> EarlierQueries:
    """The last `limit` queries of each session's user from sessions that were over before.

    A session that begins at the very moment another one ends does not see it.
    """
    splits = [split for split in data.splits if split != UNSEEN_USERS]
    columns = ("session", "position", "user", "time", "query")
    rows = pl.concat([data.session_rows(split).select(columns) for split in splits])
    sessions = (
        rows.sort("session", "position")
        .group_by("session", maintain_order=True)
        .agg(pl.first("user"), start=pl.min("time"), end=pl.max("time"), queries="query")
        .sort("user", "start", "session")
        .select("user", "session", "start", "end", "queries")
    )
    earlier: dict[int, tuple[str, ...]] = {}
    for _, user_rows in groupby(sessions.collect().iter_rows(), key=itemgetter(0)):
        earlier |= _earlier_of_user([row[1:] for row in user_rows], limit)
    return EarlierQueries(limit, earlier)


def _earlier_of_user(
    sessions: list[tuple[int, Any, Any, list[str]]], limit: int
) -> dict[int, tuple[str, ...]]:
    """By session; `sessions` are (session, start, end, queries) in the order of their starts.

    Sessions may overlap, as those of a log that names its sessions itself.
    """
    earlier = {}
    ended = iter(sorted(sessions, key=itemgetter(2, 0)))
    following = next(ended, None)
    history: deque[str] = deque(maxlen=limit)
    for session, start, _, _ in sessions:
        while following is not None and following[2] < start:
            history.extend(following[3])
            following = next(ended, None)
        if history:
            earlier[session] = tuple(history)
    return earlier


def lengthened(cases: CaseSet) -> CaseSet:
    """The same cases with the earlier queries in front of their contexts."""
    return CaseSet(replace(case, context=(*case.earlier, *case.context)) for case in cases)


def earlier_similarities(cases: CaseSet, limit: int) -> dict[str, Floats]:
    """Cosines of character trigrams between each candidate and each earlier query, latest first."""
    latest = [case.earlier[::-1] for case in cases]
    columns = trigram_cosines(cases, latest, limit)
    return {f"{SIMILARITY}{back}": column for back, column in enumerate(columns, start=1)}


USEFUL = "useful"
"""The form `MODEL:useful` of a score: log P(q and useful | session)."""


def clicked_endings(data: PreparedData, splits: Iterable[str]) -> frozenset[int]:
    """The sessions whose last query was clicked."""
    clicked: set[int] = set()
    for split in splits:
        last = pl.col("clicks").sort_by("position").last()
        ends = data.session_rows(split).group_by("session").agg(last)
        clicked.update(ends.filter(pl.col("clicks") > 0).collect()["session"])
    return frozenset(clicked)


def useful_scores(model: object, cases: CaseSet, log_likelihoods: Floats) -> Floats | None:
    """log P(q and useful | session) of all candidates, flat; None of a model without a head."""
    if not isinstance(model, UsefulnessJudge) or not model.judges_usefulness:
        return None
    usefulness: list[float] = []
    for start in range(0, len(cases), BATCH):
        batch = cases.cases[start : start + BATCH]
        judged = model.usefulness_many(
            [case.context for case in batch], [case.candidates for case in batch]
        )
        usefulness += [value for row in judged for value in row]
    return np.asarray(log_likelihoods + np.log(np.array(usefulness)), dtype=np.float64)


def by_last_click(ranks: SystemRanks, clicked: Set[int]) -> dict[str, RankingResult]:
    """Every system where the last query was clicked and where it was not; empty without clicks."""
    if not clicked:
        return {}
    marks = np.array([case.session in clicked for case in ranks.cases], dtype=np.bool_)
    useful = [system for system in ranks.ranks if system.form == USEFUL]
    pairs = [(system, system.with_form("")) for system in useful]
    return {
        "clicked": ranks.select(marks).summary(pairs),
        "not_clicked": ranks.select(~marks).summary(pairs),
    }


LEARNING = ("training", "validation")

COUNT_FOLDS = 4
"""Users see counts without their own quarter of the users. An even number: the rankers of one half
of the users never see a count that the other half's cases have."""

ModelT = TypeVar("ModelT")


@dataclass(frozen=True)
class FoldCounts:
    """What a background without the users of one fold counts."""

    background: BackgroundCounts
    qvmm: QVMM
    unpruned: QVMM


@dataclass(frozen=True)
class EvaluationData:
    """The sessions to evaluate on, and what the background says of their queries."""

    sessions: Mapping[str, list[Session]]
    backgrounds: Backgrounds
    clicked: frozenset[int] = frozenset()
    """The sessions whose last query was clicked."""
    folds: tuple[FoldCounts, ...] = ()
    """For new visitors: what counts for the users of each fold."""
    earlier: EarlierQueries | None = None
    """What known visitors typed in sessions before, if it is looked at."""

    @property
    def background(self) -> BackgroundCounts:
        """The whole background."""
        return self.backgrounds.whole

    @property
    def new_visitors(self) -> bool:
        """Whether nothing counts that a case's own user did."""
        return bool(self.folds)


def read_evaluation_data(data: PreparedData) -> EvaluationData:
    """Read every split but the background, and the background's counts of their anchors."""
    splits = [split for split in data.splits if split != "background"]
    sessions = {split: _evaluable(data.sessions(split)) for split in splits}
    backgrounds = Backgrounds(_read_background(data, sessions))
    return EvaluationData(sessions, backgrounds, clicked_endings(data, splits))


def with_all_sessions(evaluation: EvaluationData, data: PreparedData) -> EvaluationData:
    """Every session of the log as a test session, the background's included: for new visitors only.

    Nothing that is counted or learnt for a case comes from its own user then, so that all sessions
    can be predicted. The rankers are taught by the same sessions, those of other users; a quarter
    of the users are the validation part.
    """
    background = _evaluable(data.sessions("background"))
    splits = (background, *(evaluation.sessions[split] for split in (*LEARNING, "test")))
    everything = [session for split in splits for session in split]
    parts: dict[str, list[Session]] = {"training": [], "validation": [], "test": everything}
    for session in everything:
        chosen = user_place(session.user, "validation") % 4 == 0
        parts["validation" if chosen else "training"].append(session)
    clicked = evaluation.clicked | clicked_endings(data, ["background"])
    return replace(evaluation, sessions={**evaluation.sessions, **parts}, clicked=clicked)


def with_every_position(evaluation: EvaluationData, data: PreparedData) -> EvaluationData:
    """The rankers are taught by every next query of their sessions, not by the last ones alone.

    What is tested stays the last query of a session.
    """
    sessions = dict(evaluation.sessions)
    for split in LEARNING:
        sessions[split] = [
            replace(session, queries=session.queries[:end])
            for session in sessions[split]
            for end in range(2, len(session.queries) + 1)
        ]
    return replace(
        evaluation, sessions=sessions, backgrounds=Backgrounds(_read_background(data, sessions))
    )


def as_new_visitors(
    evaluation: EvaluationData, data: PreparedData, work: Path, folds: int = COUNT_FOLDS
) -> EvaluationData:
    """The same sessions as if every user came for the first time; `work` is a temporary folder."""
    without_fold = tuple(
        _without_fold(evaluation, data, work / f"without-{fold}", fold, folds)
        for fold in range(folds)
    )
    backgrounds = Backgrounds(evaluation.background, [fold.background for fold in without_fold])
    return replace(evaluation, backgrounds=backgrounds, folds=without_fold)


def _without_fold(
    evaluation: EvaluationData, data: PreparedData, folder: Path, fold: int, folds: int
) -> FoldCounts:
    part = write_user_subset(
        data, folder, lambda user: user_fold(user, folds) != fold, ("background",)
    )
    try:
        return FoldCounts(
            _read_background(part, evaluation.sessions),
            fit_model(QVMM, part),
            fit_model(QVMM, part, QVMMSettings(pruning=0)),
        )
    finally:
        shutil.rmtree(folder)


def _read_background(data: PreparedData, sessions: Mapping[str, list[Session]]) -> BackgroundCounts:
    anchors = {item.queries[-2] for split in sessions.values() for item in split}
    data = data.within_sessions()
    frequent = {text for text, _ in BackgroundCounts.read(data, ()).most_frequent(100)}
    return BackgroundCounts.read(data, anchors | frequent)


def _evaluable(sessions: Iterable[Session]) -> list[Session]:
    return [session for session in sessions if len(session.queries) > 1]


def build_cases(
    scenario: str,
    evaluation: EvaluationData,
    rules: Rules,
    learning_limit: int | None,
    test_users: int | None = None,
) -> dict[str, CaseSet]:
    """The cases of every split, as they are without any limit, or some of them.

    At most `learning_limit` of those that rankers learn from; of the others those of `test_users`
    users.
    """
    build = SCENARIOS[scenario].build
    by_split = {}
    for split, sessions in evaluation.sessions.items():
        cases = build(sessions, evaluation.backgrounds, rules)
        if split in LEARNING:
            drawn = np.random.default_rng(rules.seed).permutation(len(cases))[:learning_limit]
            cases = cases.select(np.isin(np.arange(len(cases)), drawn))
        elif test_users is not None:
            order = sorted(
                set(cases.users), key=lambda user: user_place(user, f"test {rules.seed}")
            )
            drawn_users = set(order[:test_users])
            cases = cases.select(user in drawn_users for user in cases.users)
        by_split[split] = evaluation.earlier.added_to(cases) if evaluation.earlier else cases
    return by_split


def add_features(
    split: str, cases: CaseSet, evaluation: EvaluationData, systems: Systems, steps: Steps
) -> RankedPart:
    """Baseline features and model scores; on test parts also the other count models' scores."""

    def track(name: str) -> Track:
        return steps.track(f"{name} scores the {split} cases")

    # For new visitors a model per fold of users, otherwise one for everybody.
    folds = evaluation.folds
    qvmms = [fold.qvmm for fold in folds] or [systems.qvmm]
    qvmm = by_fold(
        cases, qvmms, lambda model, part: log_likelihoods(model, part, track=track("qvmm"))
    )
    features = baseline_features(cases, evaluation.backgrounds, qvmm)
    columns: dict[str, Floats] = {}
    if systems.unpruned is not None:
        unpruned = [fold.unpruned for fold in folds] or [systems.unpruned]
        columns |= authors_features(cases, by_fold(cases, unpruned, suffix_counts))
    if systems.query_vectors is not None:
        columns |= systems.query_vectors.columns(cases)
    for name, scorer in systems.scorers.items():
        scores = scorer.score(cases, track=track(name))
        columns |= {f"{name}:{form}": scores.form(form) for form in FORMS}
        if evaluation.earlier:
            longer = scorer.score(lengthened(cases), track=track(f"{name} with earlier queries"))
            columns |= {f"{name}:{EARLIER}{form}": longer.form(form) for form in FORMS}
        # For a new visitor the fold model judges itself: the model under study saw the visitor.
        useful = (
            None
            if evaluation.new_visitors or split in LEARNING
            else useful_scores(systems.models[name], cases, scores.form("sum"))
        )
        columns |= {} if useful is None else {f"{name}:{USEFUL}": useful}
    if evaluation.earlier:
        columns |= earlier_similarities(cases, evaluation.earlier.limit)
    for name, model in systems.features.items():
        columns[f"{name}:sum"] = log_likelihoods(model, cases, track=track(name))
    if split not in LEARNING:
        columns |= {
            f"{name}:alone": log_likelihoods(model, cases, track=track(name))
            for name, model in systems.count_models.items()
            if name not in ("adj", "qvmm")
        }
    return RankedPart(cases, features.with_columns(columns))


def by_fold(
    cases: CaseSet, models: Sequence[ModelT], score: Callable[[ModelT, CaseSet], Floats]
) -> Floats:
    """Scores of all candidates, flat, each case's by the model of its user's fold."""
    scores = np.zeros(cases.rows)
    for model, (rows, part) in zip(models, cases.split_by_fold(len(models)), strict=True):
        scores[rows] = score(model, part)
    return scores
