"""One scenario from cases to results: features, rankers, comparisons, analyses, TREC files.

Knows the order of the work; each part of it is a module of its own.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from nextquery.errors import InputError
from nextquery.evaluation.progress import Steps
from nextquery.evaluation.ranking.analyses import (
    by_context_length,
    by_session_length,
    noisy_contexts,
    session_lengths,
    single_features,
)
from nextquery.evaluation.ranking.comparison import rank_systems, system_pairs
from nextquery.evaluation.ranking.earlier_queries import EARLIER
from nextquery.evaluation.ranking.last_click import USEFUL, by_last_click
from nextquery.evaluation.ranking.parts import (
    LEARNING,
    EvaluationData,
    add_features,
    build_cases,
    is_test,
)
from nextquery.evaluation.ranking.ranker_jobs import (
    RankerJob,
    Train,
    TrainedRankers,
    train_here,
)
from nextquery.evaluation.ranking.rankers import RankerGroup
from nextquery.evaluation.ranking.scenario_result import RankerFacts, ScenarioResult, SplitResult
from nextquery.evaluation.ranking.scenarios import Rules
from nextquery.evaluation.ranking.trec import read_run, write_cases, write_qrels, write_run
from nextquery.evaluation.ranking.user_groups import UserGroups, by_user_group
from nextquery.evaluation.step_store import Finish, finished
from nextquery.evaluation.systems import Systems
from nextquery.logs.data_folder import UNSEEN_USERS
from nextquery.ranking.cases import CaseSet, Floats
from nextquery.ranking.lambdamart import RankedPart
from nextquery.ranking.user_folds import user_fold

RANKER_FOLDS = 2
"""With new visitors, the rankers of one half of the users are taught by the other half."""

ALONE = ("per_word", "lift", f"{EARLIER}sum", f"{EARLIER}lift")
"""Forms that order the candidates of a case unlike the sum does."""

FEWEST = {"training": 100, "validation": 50, "test": 50}
"""A scenario with fewer cases than these in a part says so and reports no result."""


@dataclass(frozen=True)
class RankingSettings:
    """What the ranking scenarios can be told."""

    rules: Rules
    seeds: int
    """Rankers trained for each learnt system."""
    ranker_cases: int | None
    """At most this many cases of a split teach the rankers; None: all."""
    runs: Mapping[str, Path] = field(default_factory=dict)
    """Runs that others made, by system; the file's name begins with its scenario and a dot."""
    groups: UserGroups = field(default_factory=dict)
    """Users whose test cases are reported apart as well."""
    test_users: int | None = None
    """The test cases of so many users only; None: of everybody."""
    context_lengths: bool = True
    """Whether to score long sessions again with the model seeing fewer queries."""


def run_scenario(
    name: str,
    evaluation: EvaluationData,
    systems: Systems,
    settings: RankingSettings,
    trec: Path,
    steps: Steps,
) -> ScenarioResult:
    """All results of a scenario; the runs and qrels of its test part go to the folder `trec`."""
    return begin_scenario(name, evaluation, systems, settings, trec, steps, train_here)()


def begin_scenario(
    name: str,
    evaluation: EvaluationData,
    systems: Systems,
    settings: RankingSettings,
    trec: Path,
    steps: Steps,
    train: Train,
) -> Finish[ScenarioResult]:
    """The same in two halves: features at once, and what waits for the rankers when called."""
    title = f"new_{name}" if evaluation.new_visitors else name
    steps.begin(title)
    cases = build_cases(
        name, evaluation, settings.rules, settings.ranker_cases, settings.test_users
    )
    facts = _facts(cases, evaluation)
    if facts.too_few:
        return finished(facts)
    parts = {
        split: add_features(split, found, evaluation, systems, steps)
        for split, found in cases.items()
        if len(found)
    }
    steps.begin(f"{title}: rankers")
    folds = RANKER_FOLDS if evaluation.new_visitors else 1
    jobs = [train(job) for job in _jobs(parts, systems, settings, folds)]

    def finish() -> ScenarioResult:
        steps.begin(f"{title}: rankers")
        trained = [job.result() for job in jobs]
        export = partial(_export, trec, title)
        return _rank(title, facts, parts, trained, evaluation, systems, settings, steps, export)

    return Finish(finish, lambda: all(job.done() for job in jobs))


def _rank(
    title: str,
    facts: ScenarioResult,
    parts: Mapping[str, RankedPart],
    halves: Sequence[TrainedRankers],
    evaluation: EvaluationData,
    systems: Systems,
    settings: RankingSettings,
    steps: Steps,
    export: Callable[[CaseSet, Mapping[str, Floats]], None],
) -> ScenarioResult:
    """Everything that trained rankers are needed for."""
    scores = {
        split: _scores(part, halves, systems) for split, part in parts.items() if is_test(split)
    }
    scores["test"] |= _foreign_scores(title, settings.runs, scores["test"], parts["test"].cases)
    export(parts["test"].cases, scores["test"])
    measured = {
        split: _measure(parts[split].cases, found, settings, evaluation.clicked)
        for split, found in scores.items()
    }
    groups = halves[0].groups
    return replace(
        facts,
        systems=measured["test"].systems,
        comparisons=measured["test"].comparisons,
        by_session_length=measured["test"].by_session_length,
        by_last_click=measured["test"].by_last_click,
        by_user_group=measured["test"].by_user_group,
        unseen_users=measured.get(UNSEEN_USERS),
        rankers={system: _ranker_facts(group) for system, group in groups.items()},
        form_choices=halves[0].choices,
        ranker_seconds=round(sum(half.seconds for half in halves), 1),
        single_features=single_features(parts["test"]),
        by_context_length={}
        if evaluation.new_visitors or not settings.context_lengths
        else {
            model: by_context_length(
                parts["test"],
                model,
                scorer,
                groups[f"baseline+{model}"],
                steps.track("context length"),
            )
            for model, scorer in systems.scorers.items()
        },
    )


def _jobs(
    parts: Mapping[str, RankedPart], systems: Systems, settings: RankingSettings, folds: int
) -> list[RankerJob]:
    """The rankers of each fold of users, taught by the other folds; one fold is everybody."""
    seeds = tuple(range(1, settings.seeds + 1))
    found = []
    for fold in range(folds):
        training, validation = (
            parts[split].select(_others(parts[split].cases, fold, folds)) for split in LEARNING
        )
        systems_taught = tuple(systems.models), tuple(systems.features)
        found.append(RankerJob(training, validation, seeds, *systems_taught))
    return found


def _foreign_scores(
    scenario: str, runs: Mapping[str, Path], own: Mapping[str, Floats], cases: CaseSet
) -> dict[str, Floats]:
    """The scores of runs that others made of this scenario."""
    taken = sorted(runs.keys() & own.keys())
    if taken:
        raise InputError(f"`runs` {taken[0]}: the name is taken; choose another")
    return {
        system: read_run(path, cases)
        for system, path in runs.items()
        if path.name.split(".")[0] == scenario
    }


def _others(cases: CaseSet, fold: int, folds: int) -> np.ndarray:
    """Which cases are of users outside the fold; all if there is only one."""
    own = [folds > 1 and user_fold(case.user, folds) == fold for case in cases.cases]
    return ~np.array(own, dtype=np.bool_)


def _scores(
    part: RankedPart, trained: Sequence[TrainedRankers], systems: Systems
) -> dict[str, Floats]:
    """The scores of every system, learnt ones by the rankers that never saw the case's user."""
    if len(trained) == 1:
        return system_scores(part, trained[0].groups, systems)
    found: dict[str, Floats] = {}
    for fold, half in enumerate(trained):
        mine = ~_others(part.cases, fold, len(trained))
        rows = mine[part.cases.owners]
        for system, scores in system_scores(part.select(mine), half.groups, systems).items():
            shape = (*scores.shape[:-1], part.cases.rows)
            found.setdefault(system, np.zeros(shape))[..., rows] = scores
    return found


def system_scores(
    part: RankedPart, groups: Mapping[str, RankerGroup], systems: Systems
) -> dict[str, Floats]:
    """The scores of every system on a part: the count models, the rankers, the models alone."""
    features = part.features
    scores = {"adj": features.column("adj_count")}
    scores |= {system: group.scores(features) for system, group in groups.items()}
    for model in systems.models:
        scores[model] = features.column(f"{model}:sum")
        names = (f"{model}:{form}" for form in (*ALONE, USEFUL))
        scores |= {name: features.column(name) for name in names if name in features.names}
    for model in systems.features:
        scores[model] = features.column(f"{model}:sum")
    scores["qvmm"] = features.column("qvmm")
    for model in systems.count_models:
        if f"{model}:alone" in features.names:
            scores[model] = features.column(f"{model}:alone")
    return scores


def _measure(
    cases: CaseSet, scores: Mapping[str, Floats], settings: RankingSettings, clicked: Set[int]
) -> SplitResult:
    ranked = rank_systems(cases, scores)
    foreign = [
        (name, base) for name in settings.runs if name in scores for base in ("adj", "baseline")
    ]
    found = ranked.summary([*system_pairs(ranked.ranks), *foreign])
    return SplitResult(
        too_few=found.too_few,
        systems=found.systems,
        comparisons=found.comparisons,
        by_session_length=by_session_length(ranked),
        by_last_click=by_last_click(ranked, clicked),
        by_user_group=by_user_group(ranked, settings.groups),
    )


def _facts(cases: Mapping[str, CaseSet], evaluation: EvaluationData) -> ScenarioResult:
    """What can be said before anything is ranked."""
    test = cases["test"]
    return ScenarioResult(
        cases={split: len(found) for split, found in cases.items()},
        session_lengths=session_lengths(test),
        noisy_contexts=noisy_contexts(test, evaluation.background),
        candidates=float(np.mean(test.sizes)) if len(test) else None,
        users=len({case.user for case in test.cases}),
        too_few=_too_few(cases) or None,
    )


def _too_few(cases: Mapping[str, CaseSet]) -> str:
    short = [
        f"{len(cases[split])} {split} cases, {least} needed"
        for split, least in FEWEST.items()
        if len(cases[split]) < least
    ]
    return "; ".join(short)


def _ranker_facts(group: RankerGroup) -> RankerFacts:
    return RankerFacts(
        forms=group.forms,
        shape=group.shape,
        trees=tuple(ranker.trees for ranker in group.rankers),
        validation_mrr=group.validation_mrr,
        importances=group.importances(),
    )


def _export(folder: Path, scenario: str, cases: CaseSet, systems: Mapping[str, Floats]) -> None:
    """One run per system; of the learnt ones the first seed's, whose MRR is `mrr_by_seed[0]`."""
    folder.mkdir(parents=True, exist_ok=True)
    write_qrels(folder / f"{scenario}.qrels", cases)
    write_cases(folder / f"{scenario}.cases.ndjson", cases)
    for system, scores in systems.items():
        name = system.replace(":", "_")
        write_run(folder / f"{scenario}.{name}.run", cases, np.atleast_2d(scores)[0], name)
