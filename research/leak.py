"""Does the Baseline Ranker of new visitors learn who they are? Three ways of counting, two logs.

The second log is the control: what a user types after a query is dealt anew, once per user and
query, by how often the whole log has each follower. Users keep habits there, but nothing tells a
new visitor's: nobody can do better than to order candidates by the probabilities they were dealt
with. A ranker that does knows something of the case's own user.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
from scipy import stats

from nextquery.artifacts import publish, write_text
from nextquery.evaluation.rankers import RankerTrainer
from nextquery.evaluation.scenario_features import (
    EvaluationData,
    add_features,
    as_new_visitors,
    build_cases,
    read_evaluation_data,
    with_all_sessions,
)
from nextquery.evaluation.scenarios import Rules
from nextquery.evaluation.steps import show_steps
from nextquery.evaluation.systems import Systems, count_tables
from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.cases import (
    BackgroundCounts,
    Backgrounds,
    Floats,
    reciprocal_ranks,
    user_fold,
    user_place,
)
from nextquery.ranking.features import baseline_features
from nextquery.ranking.lambdamart import RankedPart

Probabilities = Mapping[str, Mapping[str, float]]
Plan = tuple[Callable[[str], bool], Callable[[str], bool]]
"""Whose cases are ranked, and whose teach the rankers."""

SEEDS = 3
RULES = Rules(min_followers=5)


def deal_habits(data: PreparedData, out: Path, seed: int = 0) -> tuple[PreparedData, Probabilities]:
    """The control log, and the probability of each follower after each query."""
    rows = {
        split: data.session_rows(split).collect().sort("session", "position")
        for split in data.splits
    }
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for table in rows.values():
        for session in table.group_by("session", maintain_order=True).agg("query")["query"]:
            for anchor, following in pairwise(session):
                counts[anchor][following] += 1
    dealt = {
        anchor: {text: count / found.total() for text, count in sorted(found.items())}
        for anchor, found in counts.items()
    }
    generator = np.random.default_rng(seed)

    @cache
    def habit(user: str, anchor: str) -> str:
        texts = list(dealt[anchor])
        return texts[generator.choice(len(texts), p=list(dealt[anchor].values()))]

    manifest = data.artifact.manifest
    entries = {"counts": manifest["counts"], "settings": manifest["settings"]}
    with publish(out, "data", entries) as folder:
        for split, table in rows.items():
            _write(_with_habits(table, habit), folder / "sessions" / split / "part-00000.parquet")
        background = pl.read_parquet(folder / "sessions" / "background" / "part-00000.parquet")
        tables = count_tables(background, data.min_users)
        tables["clicks"] = data.counts("clicks").head(0).collect()
        for name, table in tables.items():
            _write(table, folder / "counts" / f"{name}.parquet")
        words = tables["words"]["word"].to_list()
        write_text(folder / "vocabulary.txt", "".join(f"{word}\n" for word in words))
    return PreparedData(out), dealt


def _with_habits(rows: pl.DataFrame, habit: Callable[[str, str], str]) -> pl.DataFrame:
    """The same sessions, each ending in its user's habit after the query before."""
    queries, sessions = rows["query"].to_list(), rows["session"].to_list()
    users = rows["user"].to_list()
    for place in range(1, len(queries)):
        ends = place + 1 == len(queries) or sessions[place + 1] != sessions[place]
        if ends and sessions[place - 1] == sessions[place]:
            queries[place] = habit(users[place], queries[place - 1])
    return rows.with_columns(pl.Series("query", queries))


def _write(rows: pl.DataFrame, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    rows.write_parquet(file)


class WithoutSingleUsers(Backgrounds):
    """Counts that leave out the case's own user only: the way that leaks."""

    def __init__(self, whole: BackgroundCounts, sessions: pl.DataFrame) -> None:
        super().__init__(whole)
        self._own = dict(sessions.partition_by("user", as_dict=True).items())
        self._found: dict[str, BackgroundCounts] = {}

    def of(self, user: str) -> BackgroundCounts:
        """The whole background less this user's part."""
        if user not in self._found:
            own = self._own.get((user,))
            self._found[user] = self.whole if own is None else self._less(own)
        return self._found[user]

    def _less(self, own: pl.DataFrame) -> BackgroundCounts:
        tables = count_tables(own, 1)
        frequencies = dict(self.whole.frequencies)
        for query, count in tables["queries"].select("query", "count").iter_rows():
            _take(frequencies, query, count)
        followers = dict(self.whole._followers)
        for anchor, text, count in tables["followers"].select("anchor", "next", "count").rows():
            if anchor in followers:
                followers[anchor] = dict(followers[anchor])
                _take(followers[anchor], text, count)
        return BackgroundCounts(frequencies, followers)


def _take(counts: dict[str, int], key: str, count: int) -> None:
    left = counts.get(key, 0) - count
    if left > 0:
        counts[key] = left
    else:
        counts.pop(key, None)


def protocols(data: PreparedData, work: Path) -> dict[str, tuple[RankedPart, list[Plan]]]:
    """The cases of next query as each way of counting makes them, and who teaches whose ranker."""
    everything = with_all_sessions(read_evaluation_data(data), data)
    evaluation = replace(everything, sessions={"test": everything.sessions["test"]})
    across: list[Plan] = [
        (lambda user, f=fold: user_fold(user, 2) == f, lambda user, f=fold: user_fold(user, 2) != f)  # type: ignore[misc]
        for fold in (0, 1)
    ]
    within: list[Plan] = [
        (_place(half, part, True), _place(half, part, False))
        for half in (0, 1)
        for part in range(4)
    ]
    rows = data.session_rows("background").collect()
    return {
        "folds": (_counted(data, evaluation, work, 4), across),
        "halves": (_counted(data, evaluation, work, 2), within),
        "single users": (_single(evaluation, rows), across),
    }


def _place(half: int, part: int, inside: bool) -> Callable[[str], bool]:
    """Users of one half of all, in or outside one quarter of it."""
    return lambda user: (
        user_fold(user, 2) == half and (user_place(user, "ranker") % 4 == part) == inside
    )


def _counted(data: PreparedData, evaluation: EvaluationData, work: Path, folds: int) -> RankedPart:
    found = as_new_visitors(evaluation, data, work / "count_folds", folds)
    cases = build_cases("next_query", found, RULES, None)["test"]
    qvmm = {"qvmm": found.folds[0].qvmm, "adj": found.folds[0].qvmm}
    with show_steps() as steps:
        return add_features("training", cases, found, Systems(qvmm, {}), steps)


def _single(evaluation: EvaluationData, rows: pl.DataFrame) -> RankedPart:
    """Without a score of QVMM, which would have to be fitted once per user."""
    backgrounds = WithoutSingleUsers(evaluation.background, rows)
    found = replace(evaluation, backgrounds=backgrounds)
    cases = build_cases("next_query", found, RULES, None)["test"]
    return RankedPart(cases, baseline_features(cases, backgrounds, np.zeros(cases.rows)))


def measure(
    part: RankedPart, plans: Sequence[Plan], dealt: Probabilities | None
) -> dict[str, float]:
    """The Baseline Ranker and its most telling feature; on the control against the best guess."""
    cases = part.cases
    ranks = np.zeros(len(cases))
    importance = 0.0
    for ranked, taught in plans:
        mine = _users(part, ranked)
        if not mine.any():
            continue
        chosen = _users(part, lambda user: user_place(user, "validation") % 4 == 0)
        others = _users(part, taught)
        trainer = RankerTrainer(
            part.select(others & ~chosen), part.select(others & chosen), range(1, SEEDS + 1)
        )
        group, test = trainer.baseline(), part.select(mine)
        scores = group.scores(test.features)
        ranks[mine] = np.mean([reciprocal_ranks(test.cases, each) for each in scores], axis=0)
        importance += group.importances()["frequency"] / len(plans)
    found = {
        "cases": len(cases),
        "users": len({case.user for case in cases.cases}),
        "adj": float(reciprocal_ranks(cases, part.features.column("adj_count")).mean()),
        "frequency": float(reciprocal_ranks(cases, part.features.column("frequency")).mean()),
        "baseline": float(ranks.mean()),
        "importance_of_frequency": importance,
    }
    return found if dealt is None else found | _against_best(part, ranks, dealt)


def _against_best(part: RankedPart, ranks: Floats, dealt: Probabilities) -> dict[str, float]:
    cases = part.cases
    chance = [
        dealt[each.context[-1]].get(text, 0.0) for each in cases.cases for text in each.candidates
    ]
    best = reciprocal_ranks(cases, np.array(chance))
    by_user: dict[str, float] = defaultdict(float)
    for case, difference in zip(cases.cases, ranks - best, strict=True):
        by_user[case.user] += float(difference)
    p = stats.ttest_1samp(list(by_user.values()), 0.0).pvalue
    return {"best": float(best.mean()), "p_by_user": float(p)}


def _users(part: RankedPart, wanted: Callable[[str], bool]) -> np.ndarray:
    return np.array([wanted(case.user) for case in part.cases.cases], dtype=np.bool_)


def study(data: PreparedData, work: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Both logs by each way of counting, rounded."""
    control, dealt = deal_habits(data, work / "dealt")
    return {
        name: {
            protocol: {key: round(value, 4) for key, value in measure(*found, truth).items()}
            for protocol, found in protocols(log, work).items()
        }
        for name, log, truth in (("log", data, None), ("control", control, dealt))
    }
