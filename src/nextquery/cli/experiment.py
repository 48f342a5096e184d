"""`nextquery experiment`: the paper's experiments on a prepared log, as a page and as data."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.errors import InputError
from nextquery.evaluation.settings import ExperimentSettings

if TYPE_CHECKING:
    from nextquery.evaluation.scenario_run import ScenarioResult
    from nextquery.evaluation.systems import SystemSource


Data = Annotated[Path, typer.Argument(help="A prepared data folder.")]
Model = Annotated[
    list[str],
    typer.Option(
        help="A system under study: a model folder, or NAME=FOLDER; repeatable. "
        "NAME=FOLDER,FOLDER is the mean of several models, NAME=module:function a system of your "
        "own."
    ),
]
Out = Annotated[Path, typer.Option(help="The report folder; a run that stopped goes on there.")]
FeatureFrom = Annotated[
    list[str] | None,
    typer.Option(help="A model of any kind whose score feeds one more ranker; repeatable."),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        help="module:function that gives objects with score(context, candidates), by name: each "
        "feeds one more ranker; repeatable."
    ),
]
Export = Annotated[
    list[str] | None,
    typer.Option(
        help="More files in trec/: seeds (a run of each seed), learning (the cases that rankers "
        "learn from); repeatable."
    ),
]
Scenario = Annotated[
    list[str] | None,
    typer.Option(
        help="Only this scenario: next_query, robust, long_tail or every_context; repeatable."
    ),
]
MinFollowers = Annotated[
    int, typer.Option(help="Only sessions whose anchor has so many known next queries.")
]
Seeds = Annotated[
    int, typer.Option(help="How many rankers each learnt system trains; their mean counts.")
]
Seed = Annotated[int, typer.Option(help="Seed of everything that is drawn at random.")]
RankerCases = Annotated[
    int | None,
    typer.Option(help="Cases of a split that teach the rankers, at most; all if not given."),
]
RankerPositions = Annotated[
    str,
    typer.Option(
        help="Rankers learn from the last query of a session, or from every one: last or every."
    ),
]
Visitors = Annotated[
    str,
    typer.Option(help="known (the paper's rule), new (no case counts its own user) or both."),
]
NewVisitorCases = Annotated[
    str,
    typer.Option(
        help="With new visitors: test (sessions of the test split) or all (of all splits)."
    ),
]
TestUsers = Annotated[
    int | None,
    typer.Option(help="Test cases of so many users only, drawn at random; all if not given."),
]
EarlierQueries = Annotated[
    int,
    typer.Option(
        help="Also rank with so many of the user's last queries from sessions before in front of "
        "the context; known visitors only."
    ),
]
Encoder = Annotated[
    str | None,
    typer.Option(help="module:function, a sentence encoder: also rank with its cosines."),
]
Run = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=FILE: a TREC run that others made of the test cases of a scenario; repeatable."
    ),
]
UsersApart = Annotated[
    list[str] | None,
    typer.Option(help="NAME=FILE of user ids: also report their test cases apart; repeatable."),
]
FoldConfig = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=CONFIG: train stand-ins of a --model that have not seen a new visitor."
    ),
]
Folds = Annotated[int, typer.Option(help="Folds of users for --fold-config.")]
LearningCurve = Annotated[
    bool, typer.Option("--learning-curve", help="Also run at five sizes of the background.")
]
LearningCurveConfig = Annotated[
    str | None,
    typer.Option(help="Train the first --model with this config at every size."),
]
GenerationContexts = Annotated[
    int, typer.Option(help="Test contexts for which every system suggests by itself.")
]
CompletionContexts = Annotated[
    int, typer.Option(help="Test contexts whose next query every system completes.")
]
BoundaryLabels = Annotated[
    Path | None,
    typer.Option(help="A CSV or TSV file with user, query, session: true session boundaries."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]


def experiment(
    data: Data,
    model: Model,
    out: Out,
    feature_from: FeatureFrom = None,
    features: Features = None,
    scenario: Scenario = None,
    min_followers: MinFollowers = ExperimentSettings.min_followers,
    seeds: Seeds = ExperimentSettings.seeds,
    seed: Seed = ExperimentSettings.seed,
    ranker_cases: RankerCases = ExperimentSettings.ranker_cases,
    ranker_positions: RankerPositions = ExperimentSettings.ranker_positions,
    visitors: Visitors = ExperimentSettings.visitors,
    new_visitor_cases: NewVisitorCases = ExperimentSettings.new_visitor_cases,
    test_users: TestUsers = ExperimentSettings.test_users,
    earlier_queries: EarlierQueries = ExperimentSettings.earlier_queries,
    encoder: Encoder = ExperimentSettings.encoder,
    run: Run = None,
    export: Export = None,
    users_apart: UsersApart = None,
    fold_config: FoldConfig = None,
    folds: Folds = ExperimentSettings.folds,
    learning_curve: LearningCurve = ExperimentSettings.learning_curve,
    learning_curve_config: LearningCurveConfig = ExperimentSettings.learning_curve_config,
    generation_contexts: GenerationContexts = ExperimentSettings.generation_contexts,
    completion_contexts: CompletionContexts = ExperimentSettings.completion_contexts,
    boundary_labels: BoundaryLabels = ExperimentSettings.boundary_labels,
    as_json: AsJson = False,
) -> None:
    """Run the paper's scenarios and analyses; write `results.json` and `index.html`.

    Example: `nextquery experiment data --model models/hred --out report --min-followers 5`
    """
    # Read when torch is loaded: threads that wait by spinning slow each other down.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from nextquery.evaluation.experiment import run_experiment
    from nextquery.evaluation.steps import to_json
    from nextquery.inference.process_memory import keep_freed_memory
    from nextquery.logs.data_folder import PreparedData

    keep_freed_memory()
    settings = ExperimentSettings(
        scenarios=tuple(scenario or ()),
        min_followers=min_followers,
        seeds=seeds,
        seed=seed,
        ranker_cases=ranker_cases,
        ranker_positions=ranker_positions,
        visitors=visitors,
        new_visitor_cases=new_visitor_cases,
        test_users=test_users,
        earlier_queries=earlier_queries,
        encoder=encoder,
        fold_configs=_fold_configs(fold_config or []),
        folds=folds,
        runs=_files("--run", run or []),
        exports=tuple(export or ()),
        users_apart=_single_files("--users-apart", users_apart or []),
        learning_curve=learning_curve or learning_curve_config is not None,
        learning_curve_config=learning_curve_config,
        generation_contexts=generation_contexts,
        completion_contexts=completion_contexts,
        boundary_labels=boundary_labels,
    )
    results = run_experiment(
        PreparedData(data),
        out,
        _with_ensembles(model),
        features=_features(feature_from or [], features or []),
        settings=settings,
    )
    if as_json:
        typer.echo(json.dumps(to_json(results), ensure_ascii=False))
        return
    for name, found in results.scenarios.items():
        typer.echo(_line(name, found))
    for name, found in results.new_visitors.items():
        typer.echo(_line(f"new {name}", found))
    typer.echo(f"report: {out / 'index.html'}")


def _named(option_name: str, options: list[str]) -> dict[str, Path]:
    """Model folders by name: the given one, or the kind that the folder's manifest says."""
    from nextquery.artifacts import open_artifact

    found: dict[str, Path] = {}
    for option in options:
        name, separator, folder = option.partition("=")
        path = Path(folder if separator else option)
        name = name if separator else open_artifact(path, verify=False).kind
        if name in found:
            raise InputError(
                f"{option_name} {option}: the name {name!r} is taken; write NAME=FOLDER"
            )
        found[name] = path
    return found


def _features(folders: list[str], functions: list[str]) -> "dict[str, SystemSource]":
    """Systems that only feed a ranker, by name: model folders and objects with `score`."""
    from nextquery.evaluation.systems import import_scorers

    systems: dict[str, SystemSource] = {**_named("--feature-from", folders)}
    for function in functions:
        scorers = import_scorers("features", function)
        taken = sorted(systems.keys() & scorers.keys())
        if taken:
            raise InputError(f"--features {function}: the name {taken[0]!r} is taken")
        systems |= scorers
    return systems


def _with_ensembles(options: list[str]) -> "dict[str, SystemSource]":
    """Systems under study by name; an ensemble is several folders, and must be given a name."""
    found: dict[str, SystemSource] = {}
    for option in options:
        name, _, folders = option.partition("=")
        new: Mapping[str, SystemSource]
        if "," in folders:
            new = {name: tuple(Path(each) for each in folders.split(","))}
        elif re.fullmatch(r"[\w.]+:\w+", folders) and not Path(folders).exists():
            new = {name: _own_system(folders)}
        else:
            new = _named("--model", [option])
        if found.keys() & new.keys():
            raise InputError(f"--model {option}: the name is taken; write NAME=FOLDER")
        found |= new
    return found


def _own_system(function: str) -> "SystemSource":
    from nextquery.evaluation.systems import import_scorers

    scorers = import_scorers("model", function)
    if len(scorers) != 1:
        raise InputError(f"--model {function}: must give one object with score, not several")
    return next(iter(scorers.values()))


def _fold_configs(options: list[str]) -> dict[str, str]:
    """Configs by the name of the model that they stand in for."""
    pairs = [option.partition("=") for option in options]
    if not all(name and config for name, _, config in pairs):
        raise InputError("--fold-config: write NAME=CONFIG, NAME being that of a --model")
    return {name: config for name, _, config in pairs}


def _single_files(option: str, given: list[str]) -> dict[str, Path]:
    """One file by name."""
    files = _files(option, given)
    for name, paths in files.items():
        if len(paths) > 1:
            raise InputError(f"{option} {name}={paths[1]}: the name {name!r} is taken")
    return {name: paths[0] for name, paths in files.items()}


def _files(option: str, given: list[str]) -> dict[str, tuple[Path, ...]]:
    """Files by the name before each; a name may be repeated."""
    pairs = [each.partition("=") for each in given]
    if not all(name and file for name, _, file in pairs):
        raise InputError(f"{option}: write NAME=FILE")
    missing = [file for _, _, file in pairs if not Path(file).is_file()]
    if missing:
        raise InputError(f"{option} {missing[0]}: no such file")
    files: dict[str, tuple[Path, ...]] = {}
    for name, _, file in pairs:
        files[name] = (*files.get(name, ()), Path(file))
    return files


def _line(name: str, found: "ScenarioResult") -> str:
    """A scenario's MRRs on one line."""
    if found.too_few:
        return f"{name:18} too few cases: {found.too_few}"
    learnt = [key for key in found.systems if key == "adj" or key.startswith("baseline")]
    return f"{name:18} " + "  ".join(f"{key} {found.systems[key].mrr:.4f}" for key in learnt)
