"""New visitors on AOL when few people have most of the cases: single and bagged rankers.

Both are taught by the same cases and measured twice: every case alike, as everywhere, and every
user alike.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.evaluation.comparison import (
    bootstrap_interval,
    mean_reciprocal,
    paired_t_test,
    paired_t_test_by_user,
)
from nextquery.evaluation.ranked_system import RankedSystem
from nextquery.evaluation.rankers import RankerTrainer, feature_names, train_all
from nextquery.evaluation.scenario_features import (
    add_features,
    as_new_visitors,
    build_cases,
    read_evaluation_data,
    with_all_sessions,
)
from nextquery.evaluation.scenarios import Rules
from nextquery.evaluation.steps import show_steps
from nextquery.evaluation.systems import open_systems, train_fold_models
from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.cases import CaseSet, Floats, user_fold
from nextquery.ranking.lambdamart import RankedPart
from research.aol import fold_config, prepared
from research.bagged_rankers import SHAPES, joined, train_bag, train_bags, user_means
from research.commands import save
from research.tables import TITLES, gain, interval, mrr_text, p_value, read, table

HALVES = 2
SINGLE, BAGGED = 5, 20
"""Seeds of single rankers, whose MRRs are averaged, and of a bag's, whose scores are."""
DRAWS = (1, 101, 201)
"""First seeds of bags that differ in nothing else."""
LEARNT = ("baseline", "baseline+hred:sum", "baseline+hred")
Parts = Mapping[str, RankedPart]
Rank = Callable[[Sequence[RankedPart], RankedPart], dict[str, Floats]]
"""Scores of a test part by system, from what teaches and what chooses."""


def study(work: Path, logs: Sequence[Path]) -> None:
    """Next query and robust, rankers taught by last queries, fold models of two epochs."""
    data = PreparedData(prepared(work, logs))
    folds = train_fold_models(data, work / "two-epochs", str(fold_config(work, data.path, 2)), 2)
    found = {}
    for scenario, parts in _parts(data, work, folds):
        single = single_scores(parts)
        together = {name: each.mean(axis=0, keepdims=True) for name, each in single.items()}
        scores = {"single": single, "averaged": together, "bagged": bagged_scores(parts)}
        draws = [baseline_of_draw(parts, first) for first in DRAWS]
        found[scenario] = measured(parts["test"].cases, scores, draws)
    save("aol_bagged", found)


def _parts(data: PreparedData, work: Path, folds: Sequence[Path]) -> Iterator[tuple[str, Parts]]:
    """The cases of each scenario with counts and scores that have not seen their users."""
    everything = with_all_sessions(read_evaluation_data(data), data)
    evaluation = as_new_visitors(everything, data, work / "count_folds")
    counted = {"adj": "adjacency", "qvmm": "qvmm"}
    models, fold_models = {"hred": folds[0]}, {"hred": folds}
    with (
        show_steps() as steps,
        open_systems(data, work / "counts", models, {}, fold_models, counted) as systems,
    ):
        known = systems.for_new_visitors()
        for scenario in ("next_query", "robust"):
            cases = build_cases(scenario, evaluation, Rules(min_followers=5), None)
            yield (
                scenario,
                {
                    split: add_features(split, cases[split], evaluation, known, steps)
                    for split in ("training", "validation", "test")
                },
            )


def single_scores(parts: Parts) -> dict[str, Floats]:
    """As an experiment has them: (seeds, candidates) by system."""

    def ranked(learning: Sequence[RankedPart], test: RankedPart) -> dict[str, Floats]:
        trainer = RankerTrainer(learning[0], learning[1], range(1, SINGLE + 1))
        groups, _ = train_all(trainer, ["hred"], [])
        return {name: groups[RankedSystem.parse(name)].scores(test.features) for name in LEARNT}

    return _by_halves(parts, ranked)


def bagged_scores(parts: Parts) -> dict[str, Floats]:
    """By the mean score of each system's bag: (1, candidates)."""

    def ranked(learning: Sequence[RankedPart], test: RankedPart) -> dict[str, Floats]:
        bags = train_bags(joined(*learning), "hred", range(1, BAGGED + 1))
        return {name: bag.scores(test)[None] for name, bag in bags.items()}

    return _by_halves(parts, ranked)


def baseline_of_draw(parts: Parts, first: int) -> Floats:
    """The Baseline Ranker alone, of other draws of the users: (1, candidates)."""

    def ranked(learning: Sequence[RankedPart], test: RankedPart) -> dict[str, Floats]:
        part = joined(*learning).restricted(feature_names("hred", ()))
        tried = [train_bag(part, shape, range(first, first + BAGGED)) for shape in SHAPES]
        best = max(tried, key=lambda bag: bag.undrawn_mrr)
        return {"baseline": best.scores(test)[None]}

    return _by_halves(parts, ranked)["baseline"]


def _by_halves(parts: Parts, ranked: Rank) -> dict[str, Floats]:
    """The scores of all test cases, each half of the users taught by the other."""
    found: dict[str, Floats] = {}
    cases = parts["test"].cases
    for half in range(HALVES):
        learning = [
            parts[split].select(~_in_half(parts[split].cases, half))
            for split in ("training", "validation")
        ]
        mine = _in_half(cases, half)
        for name, scores in ranked(learning, parts["test"].select(mine)).items():
            whole = found.setdefault(name, np.zeros((len(scores), cases.rows)))
            whole[:, mine[cases.owners]] = scores
    return found


def _in_half(cases: CaseSet, half: int) -> np.ndarray:
    own = [user_fold(case.user, HALVES) == half for case in cases.cases]
    return np.array(own, dtype=np.bool_)


def _reciprocal(cases: CaseSet, scores: Floats) -> Floats:
    """The reciprocal rank of each case, averaged over the rows of scores."""
    return mean_reciprocal(np.stack([cases.ranks(row) for row in scores]))


def measured(
    cases: CaseSet, scores: Mapping[str, Mapping[str, Floats]], draws: Sequence[Floats]
) -> dict[str, Any]:
    """Whose cases they are, what each way of teaching reaches, and one way against the other."""
    users = [case.user for case in cases.cases]
    ranks = {
        way: {name: _reciprocal(cases, values) for name, values in found.items()}
        for way, found in scores.items()
    }
    drawn = [_reciprocal(cases, values) for values in draws]
    return {
        **facts(cases),
        "mrr": {way: {name: _means(users, each) for name, each in found.items()}
                for way, found in ranks.items()},
        "over_baseline": {
            way: {name: _gain(users, found[name], found["baseline"]) for name in LEARNT[1:]}
            for way, found in ranks.items()
        },
        "bagged_over_single": {
            name: _gain(users, ranks["bagged"][name], ranks["single"][name]) for name in LEARNT
        },
        "draws": [_means(users, each) for each in drawn],
    }  # fmt: skip


def facts(cases: CaseSet) -> dict[str, Any]:
    """How many cases, people and habits there are.

    `effective_users`: as many people with equally many cases would tell as much.
    """
    of_user = np.array(list(Counter(case.user for case in cases.cases).values()))
    habits = Counter((case.user, case.anchor, case.next_query) for case in cases.cases)
    return {
        "cases": len(cases),
        "users": len(of_user),
        "effective_users": round(float(of_user.sum() ** 2 / (of_user**2).sum()), 1),
        "habits": len(habits),
        "most_cases_of_a_user": int(of_user.max()),
        "most_cases_of_a_habit": max(habits.values()),
    }


def _means(users: Sequence[str], values: Floats) -> dict[str, float]:
    over_users = float(user_means(users, values).mean())
    return {"over_cases": round(float(values.mean()), 4), "over_users": round(over_users, 4)}


def _gain(users: Sequence[str], mine: Floats, other: Floats) -> dict[str, Any]:
    """Over cases, with the p-value by user; and over users."""
    by_user = paired_t_test_by_user(mine, other, users)
    people = user_means(users, mine), user_means(users, other)
    over_cases = {**_difference(mine, other), "p_by_user": _two_digits(by_user)}
    return {"over_cases": over_cases, "over_users": _difference(*people)}


def _difference(mine: Floats, other: Floats) -> dict[str, float]:
    low, high = bootstrap_interval(mine - other)
    return {
        "relative": round(float(mine.mean() / other.mean() - 1), 4),
        "difference_low": round(low, 4),
        "difference_high": round(high, 4),
        "p": _two_digits(paired_t_test(mine, other)),
    }


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


def shown() -> str:
    """Both ways of teaching, every case alike and every user alike."""
    heads = ["new visitors", "rankers", "Baseline", "+ HRED", "gain", "p by user"]
    heads += ["Baseline, over users", "+ HRED", "gain", "95% interval"]
    rows = []
    for scenario, each in read("aol_bagged").items():
        for way in ("single", "bagged"):
            for name, title in ((LEARNT[1], ", sum only"), (LEARNT[2], ", chosen forms")):
                rows.append([TITLES[scenario], f"{way}{title}", *_cells(each, way, name)])
    return table(heads, rows)


def _cells(each: Mapping[str, Any], way: str, name: str) -> list[str]:
    found, over = each["mrr"][way], each["over_baseline"][way][name]
    cells = []
    for measure in ("over_cases", "over_users"):
        cells += [mrr_text(found[system][measure]) for system in ("baseline", name)]
        cells.append(gain(over[measure]))
        if measure == "over_cases":
            cells.append(p_value(over[measure]["p_by_user"]))
    return [*cells, interval(over["over_users"])]
