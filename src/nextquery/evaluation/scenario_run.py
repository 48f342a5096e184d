"""One scenario from cases to results: features, rankers, comparisons, analyses."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.artifacts import write_text
from nextquery.errors import InputError
from nextquery.evaluation.comparison import (
    ADJ,
    BASELINE,
    FEWEST_CASES,
    Comparison,
    Pair,
    Quality,
    RankedSystem,
    RankingResult,
    SystemRanks,
    compare,
    compared_pairs,
    mean_reciprocal,
    rank_systems,
)
from nextquery.evaluation.rankers import RankerGroup, RankerJob, Train, TrainedRankers, train_here
from nextquery.evaluation.scenario_features import (
    LEARNING,
    USEFUL,
    EvaluationData,
    add_features,
    build_cases,
    by_last_click,
)
from nextquery.evaluation.scenarios import Noise, Rules
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.evaluation.steps import OPTIONAL, Finish, Steps, finished
from nextquery.evaluation.systems import RESERVED, Systems
from nextquery.evaluation.trec import (
    PRIVATE,
    Run,
    read_run,
    write_cases,
    write_qrels,
    write_ranks,
    write_run,
)
from nextquery.logs.data_folder import UNSEEN_USERS
from nextquery.logs.privacy import pseudonym
from nextquery.ranking.cases import (
    BackgroundCounts,
    CaseSet,
    Floats,
    Integers,
    reciprocal_ranks,
)
from nextquery.ranking.features import BASELINE_FEATURES
from nextquery.ranking.lambdamart import RankedPart, TreeShape
from nextquery.ranking.scoring import EARLIER, FORMS, CaseScorer, FoldScorer, Track


@dataclass(frozen=True, kw_only=True)
class SplitResult:
    """Every system on the cases of one split; no systems where there are too few cases."""

    too_few: str | None = field(default=None, metadata=OPTIONAL)
    systems: Mapping[str, Quality] = field(default_factory=dict)
    comparisons: tuple[Comparison, ...] = ()
    users: int = 0
    """How many people the cases are of."""
    by_session_length: Mapping[str, RankingResult] = field(default_factory=dict, metadata=OPTIONAL)
    """Of short, medium and long sessions (the paper's Figure 5)."""
    by_last_click: Mapping[str, RankingResult] = field(default_factory=dict, metadata=OPTIONAL)
    """Of sessions whose last query was `clicked` and of those where it was `not_clicked`."""
    by_user_group: Mapping[str, RankingResult] = field(default_factory=dict, metadata=OPTIONAL)
    """Of the users of each file of `users_apart`."""

    def comparison(self, a: str, b: str) -> Comparison | None:
        """The comparison of two systems, if it was made."""
        return find_comparison(self.comparisons, a, b)


@dataclass(frozen=True)
class RankerFacts:
    """How the rankers of a learnt system came out."""

    forms: tuple[str, ...]
    """The forms of the model's score that they see."""
    shape: TreeShape
    trees: tuple[int, ...]
    """The number of trees of each seed's ranker."""
    validation_mrr: float
    importances: Mapping[str, float]


@dataclass(frozen=True)
class ContextLengthResult:
    """Long sessions with the model seeing only the last queries (the paper's Figure 6)."""

    cases: int
    too_few: str | None = field(default=None, metadata=OPTIONAL)
    queries: Mapping[str, Mapping[str, Quality]] = field(default_factory=dict, metadata=OPTIONAL)
    """By how many queries the model sees, `all` the last, then by system."""
    comparisons: tuple[Comparison, ...] = field(default=(), metadata=OPTIONAL)
    """The ranker when the model sees `all` queries against the same when it sees fewer."""


@dataclass(frozen=True, kw_only=True)
class ScenarioResult(SplitResult):
    """A scenario's results: those of its test split, and how they were made."""

    cases: Mapping[str, int]
    """The number of cases by split."""
    session_lengths: Mapping[str, float | None]
    """The shares of short, medium and long sessions (Figure 4)."""
    noisy_contexts: float | None
    """The share of contexts that hold one of the 100 most frequent queries."""
    candidates: float | None
    """The mean number of candidates of a case."""
    unseen_users: SplitResult | None = field(default=None, metadata=OPTIONAL)
    rankers: Mapping[str, RankerFacts] = field(default_factory=dict, metadata=OPTIONAL)
    form_choices: Mapping[str, Mapping[str, float]] = field(default_factory=dict, metadata=OPTIONAL)
    """By model: the validation MRR of each set of forms of its score."""
    ranker_seconds: float = field(default=0.0, metadata=OPTIONAL)
    """CPU time of the separate processes that trained rankers, if there were any."""
    single_features: Mapping[str, float] = field(default_factory=dict, metadata=OPTIONAL)
    by_context_length: Mapping[str, ContextLengthResult] = field(
        default_factory=dict, metadata=OPTIONAL
    )


def find_comparison(comparisons: tuple[Comparison, ...], a: str, b: str) -> Comparison | None:
    """The comparison of two systems, if it was made."""
    return next(
        (comparison for comparison in comparisons if (comparison.a, comparison.b) == (a, b)), None
    )


UserGroups = Mapping[str, Set[str]]
"""The pseudonyms of each group's users, by the group's name."""


def read_user_groups(files: Mapping[str, Path]) -> dict[str, frozenset[str]]:
    """The users of each file, which has one id per line, as the raw log writes it.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
    ...     _ = file.write("ann\\nbob\\n")
    ...     file.flush()
    ...     groups = read_user_groups({"staff": Path(file.name)})
    >>> groups["staff"] == {str(pseudonym("ann")), str(pseudonym("bob"))}
    True
    """
    groups = {}
    for name, path in files.items():
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"`users_apart` {path}: cannot be read ({error})") from None
        groups[name] = frozenset(str(pseudonym(line.strip())) for line in lines if line.strip())
        if not groups[name]:
            raise InputError(f"`users_apart` {path}: no users in it; write one id per line")
    return groups


def by_user_group(
    ranks: SystemRanks, groups: UserGroups, pairs: Sequence[Pair]
) -> dict[str, RankingResult]:
    """Every system on the cases of each group's users."""
    marks = {
        name: np.array([user in group for user in ranks.cases.users], dtype=np.bool_)
        for name, group in groups.items()
    }
    return {name: ranks.select(in_group).summary(pairs) for name, in_group in marks.items()}


LENGTHS: Mapping[str, Callable[[int], bool]] = {
    "short": lambda queries: queries == 2,
    "medium": lambda queries: 3 <= queries <= 4,
    "long": lambda queries: queries >= 5,
}
"""The paper's classes of sessions by their number of queries."""

CONTEXT_LENGTHS = (1, 2, 3)


def by_session_length(ranks: SystemRanks, pairs: Sequence[Pair]) -> dict[str, RankingResult]:
    """Every system in short, medium and long sessions (Figure 5)."""
    return {name: ranks.select(of_length(ranks.cases, name)).summary(pairs) for name in LENGTHS}


def session_lengths(cases: CaseSet) -> dict[str, float | None]:
    """The share of short, medium and long sessions (Figure 4)."""
    return {name: _share(of_length(cases, name)) for name in LENGTHS}


def of_length(cases: CaseSet, name: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which cases come from short, medium or long sessions."""
    return np.array([LENGTHS[name](case.length) for case in cases], dtype=np.bool_)


def noisy_contexts(cases: CaseSet, background: BackgroundCounts) -> float | None:
    """The share of contexts that hold one of the 100 most frequent queries."""
    noise = Noise(background, seed=0)
    return _share(np.array([noise.within(case.context) for case in cases], dtype=np.bool_))


def single_features(part: RankedPart) -> dict[str, float]:
    """The MRR of each baseline feature alone, in the direction that suits it better.

    A high MRR would mean that a scenario gives its answers away.
    """
    return {
        name: max(
            float(reciprocal_ranks(part.cases, sign * part.features.column(name)).mean())
            for sign in (1, -1)
        )
        for name in BASELINE_FEATURES
    }


def by_context_length(
    part: RankedPart, name: str, scorer: CaseScorer | FoldScorer, group: RankerGroup, track: Track
) -> ContextLengthResult:
    """Long sessions, with the model seeing only the last 1, 2, 3 or all queries (Figure 6).

    The ranker is the one trained with whole contexts; its other features still see the whole
    context, so that only the model's view changes.
    """
    part = part.select(of_length(part.cases, "long"))
    cases, whole = part.cases, part.features
    if len(cases) < FEWEST_CASES:
        return ContextLengthResult(len(cases), f"at least {FEWEST_CASES} are needed")
    queries: dict[str, Mapping[str, Quality]] = {}
    ranks: dict[RankedSystem, Integers] = {}
    ranker, alone = RankedSystem("baseline", name), RankedSystem(model=name)
    for last in (*CONTEXT_LENGTHS, None):
        view = whole
        if last is not None:
            scores = scorer.score(cases, last=last, track=track)
            view = whole.with_columns({f"{name}:{form}": scores.form(form) for form in FORMS})
        ranked = {ranker: group.scores(view), alone: view.column(f"{name}:sum")}
        label = "all" if last is None else str(last)
        systems = rank_systems(cases, ranked)
        queries[label] = systems.summary([]).systems
        ranks[RankedSystem(model=label)] = systems.ranks[ranker]
    everything = RankedSystem(model="all")
    pairs = [(everything, RankedSystem(model=str(last))) for last in CONTEXT_LENGTHS]
    compared = compare(ranks, pairs, cases.users)
    return ContextLengthResult(len(cases), queries=queries, comparisons=compared)


def _share(marks: np.ndarray[Any, np.dtype[np.bool_]]) -> float | None:
    return float(marks.mean()) if len(marks) else None


RANKER_FOLDS = 2
"""With new visitors, the rankers of one half of the users are taught by the other half."""

ALONE = ("per_word", "lift", f"{EARLIER}sum", f"{EARLIER}lift")
"""Forms that order the candidates of a case unlike the sum does."""

FEWEST = {"training": 100, "validation": 50, "test": 50}
"""A scenario with fewer cases than these in a part says so and reports no result."""


def begin_scenario(
    name: str,
    evaluation: EvaluationData,
    systems: Systems,
    settings: ExperimentSettings,
    trec: Path,
    steps: Steps,
    train: Train = train_here,
    *,
    context_lengths: bool = True,
) -> Finish[ScenarioResult]:
    """Calculate the features now, and what waits for the rankers when the result is asked for.

    The files about the test cases go to the folder `trec`. With `context_lengths` long sessions are
    scored again with the model seeing fewer queries.
    """
    title = f"new_{name}" if evaluation.new_visitors else name
    steps.begin(title)
    runs = _read_runs(title, settings.run_files(), systems)
    user_groups = read_user_groups(settings.users_apart)
    rules = Rules(settings.min_followers, settings.seed)
    cases = build_cases(name, evaluation, rules, settings.ranker_cases, settings.test_users)
    facts = _facts(cases, evaluation)
    if facts.too_few:
        return finished(facts)
    parts = {
        split: add_features(split, split_cases, evaluation, systems, steps)
        for split, split_cases in cases.items()
        if len(split_cases)
    }
    learning = [run for run, read in runs.items() if read.covers(cases["training"])]
    parts = {split: _with_runs(split, part, runs, learning) for split, part in parts.items()}
    steps.begin(f"{title}: rankers")
    folds = RANKER_FOLDS if evaluation.new_visitors else 1
    features = (*systems.features, *learning)
    seeds = tuple(range(1, settings.seeds + 1))
    jobs = []
    for fold in range(folds):
        training, validation = (
            parts[split].select(_outside_fold(parts[split].cases, fold, folds))
            for split in LEARNING
        )
        jobs.append(train(RankerJob(training, validation, seeds, tuple(systems.models), features)))

    def finish() -> ScenarioResult:
        steps.begin(f"{title}: rankers")
        trained = [job.result() for job in jobs]
        scores = {
            split: _scores(part, trained, systems, tuple(runs))
            for split, part in parts.items()
            if split not in LEARNING
        }
        ranked = {
            split: rank_systems(parts[split].cases, split_scores)
            for split, split_scores in scores.items()
        }
        _export(trec, title, parts, scores["test"], ranked, settings.exports)
        reference = next(iter(systems.models), "")
        measured = {
            split: _measure(
                ranks, scores[split], reference, tuple(runs), user_groups, evaluation.clicked
            )
            for split, ranks in ranked.items()
        }
        groups = trained[0].groups
        by_length = {}
        if context_lengths and not evaluation.new_visitors:
            by_length = {
                model: by_context_length(
                    parts["test"],
                    model,
                    scorer,
                    groups[RankedSystem("baseline", model)],
                    steps.track("context length"),
                )
                for model, scorer in systems.scorers.items()
            }
        return replace(
            facts,
            **vars(measured["test"]),
            unseen_users=measured.get(UNSEEN_USERS),
            rankers={
                system.key: RankerFacts(
                    forms=group.forms,
                    shape=group.shape,
                    trees=tuple(ranker.trees for ranker in group.rankers),
                    validation_mrr=group.validation_mrr,
                    importances=group.importances(),
                )
                for system, group in groups.items()
            },
            form_choices=trained[0].choices,
            ranker_seconds=round(sum(half.seconds for half in trained), 1),
            single_features=single_features(parts["test"]),
            by_context_length=by_length,
        )

    return Finish(finish, lambda: all(job.done() for job in jobs))


def _read_runs(
    scenario: str, files: Mapping[str, Sequence[Path]], systems: Systems
) -> dict[str, Run]:
    """The runs that others made of this scenario."""
    duplicates = files.keys() & {*systems.models, *systems.features, *RESERVED}
    if duplicates:
        raise InputError(f"`runs` {min(duplicates)}: the name is taken; choose another")
    return {
        name: read_run(path)
        for name, paths in files.items()
        for path in paths
        if path.name.split(".")[0] == scenario
    }


def _with_runs(
    split: str, part: RankedPart, runs: Mapping[str, Run], learning: Sequence[str]
) -> RankedPart:
    """The part with the scores of runs.

    A run that has the training cases is a feature of a ranker and must have all cases.
    """
    columns = {}
    for name, run in runs.items():
        unseen = split == UNSEEN_USERS and run.covers(part.cases)
        if name in learning or split == "test" or unseen:
            scores = run.of(part.cases)
            lowest = scores[np.isfinite(scores)].min(initial=0.0) - 1.0
            columns[f"{name}:sum"] = np.where(np.isneginf(scores), lowest, scores)
    return RankedPart(part.cases, part.features.with_columns(columns))


def _outside_fold(cases: CaseSet, fold: int, folds: int) -> np.ndarray:
    """Which cases are of users outside the fold; all if there is only one."""
    return np.asarray((cases.user_folds(folds) != fold) | (folds == 1))


def _scores(
    part: RankedPart, trained: Sequence[TrainedRankers], systems: Systems, runs: Sequence[str]
) -> dict[RankedSystem, Floats]:
    """The scores of every system, learnt ones by the rankers that never saw the case's user."""
    scores: dict[RankedSystem, Floats] = {}
    folds = part.cases.user_folds(len(trained))
    for fold, half in enumerate(trained):
        rows = (folds == fold)[part.cases.owners]
        scores_of_half = system_scores(part.select(folds == fold), half.groups, systems, runs)
        for system, values in scores_of_half.items():
            shape = (*values.shape[:-1], part.cases.rows)
            scores.setdefault(system, np.zeros(shape))[..., rows] = values
    return scores


def system_scores(
    part: RankedPart,
    groups: Mapping[RankedSystem, RankerGroup],
    systems: Systems,
    runs: Sequence[str] = (),
) -> dict[RankedSystem, Floats]:
    """The scores of every system on a part: ADJ, the rankers, the models and the runs alone."""
    features = part.features
    scores = {ADJ: features.column("adj_count")}
    scores |= {system: group.scores(features) for system, group in groups.items()}
    alone: dict[RankedSystem, str] = {}
    for model in systems.models:
        alone[RankedSystem(model=model)] = f"{model}:sum"
        # A score's column has the key of the model that ranks by it alone.
        by_form = [RankedSystem(model=model, form=form) for form in (*ALONE, USEFUL)]
        alone |= {system: system.key for system in by_form}
    alone |= {RankedSystem(model=model): f"{model}:sum" for model in systems.features}
    alone[RankedSystem(model="qvmm")] = "qvmm"
    counted = [model for model in systems.count_models if model != "qvmm"]
    alone |= {RankedSystem(model=model): f"{model}:alone" for model in counted}
    alone |= {RankedSystem(model=run): f"{run}:sum" for run in runs}
    return scores | {
        system: features.column(name) for system, name in alone.items() if name in features.names
    }


def _measure(
    ranked: SystemRanks,
    scores: Mapping[RankedSystem, Floats],
    reference: str,
    runs: Sequence[str],
    user_groups: UserGroups,
    clicked: Set[int],
) -> SplitResult:
    present = [RankedSystem(model=run) for run in runs if RankedSystem(model=run) in ranked.ranks]
    pairs = compared_pairs(ranked.ranks, reference)
    pairs += [(run, base) for run in present for base in (ADJ, BASELINE)]
    summary = ranked.summary(pairs)
    by_mean_score = {
        system.key: float(mean_reciprocal(ranked.cases.ranks(values.mean(axis=0))[None]).mean())
        for system, values in scores.items()
        if values.ndim == 2 and len(values) > 1
    }
    return SplitResult(
        too_few=summary.too_few,
        systems={
            key: replace(quality, run_mrr=by_mean_score.get(key))
            for key, quality in summary.systems.items()
        },
        comparisons=summary.comparisons,
        users=len(set(ranked.cases.users)),
        by_session_length=by_session_length(ranked, pairs),
        by_last_click=by_last_click(ranked, clicked),
        by_user_group=by_user_group(ranked, user_groups, pairs),
    )


def _facts(cases: Mapping[str, CaseSet], evaluation: EvaluationData) -> ScenarioResult:
    """What can be said before anything is ranked."""
    test = cases["test"]
    short = [
        f"{len(cases[split])} {split} cases, {least} needed"
        for split, least in FEWEST.items()
        if len(cases[split]) < least
    ]
    return ScenarioResult(
        cases={split: len(split_cases) for split, split_cases in cases.items()},
        session_lengths=session_lengths(test),
        noisy_contexts=noisy_contexts(test, evaluation.background),
        candidates=float(np.mean(test.sizes)) if len(test) else None,
        users=len(set(test.users)),
        too_few="; ".join(short) or None,
    )


def _export(
    folder: Path,
    scenario: str,
    parts: Mapping[str, RankedPart],
    scores: Mapping[RankedSystem, Floats],
    ranked: Mapping[str, SystemRanks],
    exports: Sequence[str],
) -> None:
    """The test cases, their qrels, one run per system, and the ranks of all cases.

    A learnt system's run orders candidates by the mean score of its seeds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "README.txt", PRIVATE)
    cases = parts["test"].cases
    write_qrels(folder / f"{scenario}.qrels", cases)
    write_cases(folder / f"{scenario}.cases.ndjson", cases)
    write_ranks(folder / f"{scenario}.ranks.parquet", ranked)
    if "learning" in exports:
        for split in parts.keys() - {"test"}:
            write_cases(folder / f"{scenario}.{split}.cases.ndjson", parts[split].cases)
    for system, values in scores.items():
        name = system.key.replace(":", "_")
        by_seed = np.atleast_2d(values)
        write_run(folder / f"{scenario}.{name}.run", cases, by_seed.mean(axis=0), name)
        if "seeds" in exports and len(by_seed) > 1:
            for seed, row in enumerate(by_seed, start=1):
                write_run(folder / f"{scenario}.{name}.seed-{seed}.run", cases, row, name)
