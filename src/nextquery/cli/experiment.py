"""`nextquery experiment`, `check` and `audit`.

The experiments of the paper on a prepared log, as a page and as data; whether a new model may
replace the one that is served; what a model leaks, and what fake users can make it suggest.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli.main import in_options
from nextquery.cli.options import (
    AnyModel,
    AsJson,
    Given,
    named_folders,
    print_result,
    with_settings,
)
from nextquery.errors import InputError
from nextquery.evaluation.settings import (
    AuditSettings,
    CheckSettings,
    ExperimentSettings,
    PlantingSettings,
)
from nextquery.settings import split_pair

if TYPE_CHECKING:
    from nextquery.evaluation.check import Check
    from nextquery.evaluation.scenario_run import ScenarioResult
    from nextquery.evaluation.systems import SystemSource


@with_settings
def experiment(
    data: Annotated[Path, typer.Argument(help="A prepared data folder.")],
    model: Annotated[
        list[str],
        typer.Option(
            help="A system under study: a model folder, or NAME=FOLDER; repeatable. "
            "NAME=FOLDER,FOLDER is the mean of several models, NAME=module:function a system of "
            "your own."
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="The report folder; an interrupted run resumes from it.")
    ],
    options: Given[ExperimentSettings],
    feature_from: Annotated[
        list[str] | None,
        typer.Option(help="A model of any kind whose score feeds one more ranker; repeatable."),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            help="module:function that gives objects with score(context, candidates), by name: "
            "each feeds one more ranker; repeatable."
        ),
    ] = None,
    runs: Annotated[
        list[str] | None,
        typer.Option(
            "--run",
            metavar="NAME=FILE",
            help="A TREC run that others made of the test cases of a scenario; repeatable.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the paper's scenarios and analyses; write `results.json` and `index.html`.

    Example: `nextquery experiment data --model models/hred --out report --min-followers 5`
    """
    # Read when torch is loaded: threads that wait by spinning slow each other down.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from nextquery.evaluation.experiment import run_experiment
    from nextquery.evaluation.steps import to_json
    from nextquery.inference.native import keep_freed_memory
    from nextquery.logs.data_folder import PreparedData

    keep_freed_memory()
    results = run_experiment(
        PreparedData(data),
        out,
        _with_ensembles(model),
        features=_features(feature_from or [], features or []),
        settings=options.settings(runs=_run_files(runs or [])),
    )
    lines = [_scenario_line(name, result) for name, result in results.scenarios.items()]
    lines += [
        _scenario_line(f"new {name}", result) for name, result in results.new_visitors.items()
    ]
    lines.append(f"report: {out / 'index.html'}")
    print_result(to_json(results), "\n".join(lines), as_json)


def _named(setting_name: str, options: list[str]) -> dict[str, Path]:
    """Model folders by name: the given one, or the kind that the folder's manifest says."""
    from nextquery.artifacts import open_artifact

    named = [
        option if "=" in option else f"{open_artifact(Path(option), verify=False).kind}={option}"
        for option in options
    ]
    return named_folders(named, setting_name)


def _features(folders: list[str], functions: list[str]) -> "dict[str, SystemSource]":
    """Systems that only feed a ranker, by name: model folders and objects with `score`."""
    from nextquery.evaluation.systems import import_scorers

    systems: dict[str, SystemSource] = {**_named("feature_from", folders)}
    for function in functions:
        scorers = import_scorers("features", function)
        duplicates = sorted(systems.keys() & scorers.keys())
        if duplicates:
            raise InputError(f"--features {function}: the name {duplicates[0]!r} is taken")
        systems |= scorers
    return systems


def _with_ensembles(options: list[str]) -> "dict[str, SystemSource]":
    """Systems under study by name; an ensemble is several folders, and must be given a name."""
    from nextquery.evaluation.systems import import_scorers

    systems: dict[str, SystemSource] = {}
    for option in options:
        name, _, source = option.partition("=")
        new: Mapping[str, SystemSource]
        if "," in source:
            new = {name: tuple(map(Path, source.split(",")))}
        elif re.fullmatch(r"[\w.]+:\w+", source) and not Path(source).exists():
            scorers = import_scorers("model", source)
            if len(scorers) != 1:
                raise InputError(f"--model {source}: must give one object with score, not several")
            new = {name: next(iter(scorers.values()))}
        else:
            new = _named("model", [option])
        duplicates = sorted(systems.keys() & new.keys())
        if duplicates:
            raise InputError(
                f"`model` {option}: the name {duplicates[0]!r} is taken; write NAME=FOLDER"
            )
        systems |= new
    return systems


def _run_files(options: list[str]) -> dict[str, tuple[Path, ...]]:
    """The files of each run by its name; a name may be repeated, once per scenario."""
    files: dict[str, tuple[Path, ...]] = {}
    for option in options:
        name, file = split_pair(option, "runs", "NAME=FILE")
        if not Path(file).is_file():
            raise InputError(f"`runs` {file}: no such file")
        files[name] = (*files.get(name, ()), Path(file))
    return files


def _scenario_line(name: str, result: "ScenarioResult") -> str:
    """A scenario's MRRs on one line."""
    if result.too_few:
        return f"{name:18} too few cases: {result.too_few}"
    learnt = [key for key in result.systems if key == "adj" or key.startswith("baseline")]
    return f"{name:18} " + "  ".join(f"{key} {result.systems[key].mrr:.4f}" for key in learnt)


@with_settings
def check(
    new: Annotated[Path, typer.Argument(help="The model folder that was just made.")],
    against: Annotated[Path, typer.Option(help="The model folder that is served now.")],
    data: Annotated[
        Path, typer.Option(help="A data folder with sessions after what both models learnt from.")
    ],
    promote: Annotated[
        bool, typer.Option("--promote", help="If it passes, replace the old model by NEW.")
    ] = False,
    as_json: AsJson = False,
    *,
    options: Given[CheckSettings],
) -> None:
    """Compare a new model with the served one on later sessions; exit with 1 if it is worse.

    Example: `nextquery check models/hred-next --against models/hred --data DATA --promote`
    """
    from nextquery.evaluation.check import check as run_check
    from nextquery.evaluation.check import promote as put_in_place
    from nextquery.logs.data_folder import read_data
    from nextquery.suggesters.loading import fingerprint, write_check

    settings = options.settings()
    checked = fingerprint(new)
    result = read_data(data, lambda prepared: run_check(new, against, prepared, settings))
    write_check(new, result.document(), checked)
    if promote and result.passed:
        put_in_place(new, against)
        write_check(against, result.document(), checked)
    print_result(result.document(), "\n".join(_check_lines(result)), as_json, indent=2)
    if not result.passed:
        raise typer.Exit(1)


def _check_lines(result: "Check") -> Iterator[str]:
    yield f"{result.cases:,} next queries of {result.users:,} users after what both models know"
    for name, value in result.mrr.items():
        yield f"  {name:<14} MRR {value:.4f}"
    for name, value in result.nll.items():
        yield f"  {name:<14} {value:.3f} nats per symbol"
    for difference in result.differences:
        unit = "MRR" if difference.measure == "mrr" else "log-likelihood per symbol"
        yield (
            f"  new - {difference.other:<14} {difference.difference:+.4f} {unit} "
            f"(99%: {difference.low:+.4f} to {difference.high:+.4f})"
        )
    yield "passed" if result.passed else "refused: " + "; ".join(result.reasons)


@with_settings
def audit(
    model: AnyModel,
    data: Annotated[Path, typer.Argument(help="The data folder that it was made of.")],
    options: Given[AuditSettings],
    planting: PlantingSettings,
    as_json: AsJson = False,
) -> None:
    """Plant secrets and fake users in a copy of the log, fit again, measure what leaks.

    Example: `nextquery audit models/adjacency DATA --kind qvmm --blocklist blocklist.txt`
    """
    from dataclasses import asdict

    from rich.console import Console

    from nextquery.evaluation.audit import audit as run_audit
    from nextquery.evaluation.audit import describe
    from nextquery.logs.data_folder import PreparedData

    settings = options.settings(planting=planting)
    with Console(stderr=True).status("auditing") as status:
        result = run_audit(model, PreparedData(data), settings, status.update)
    document = asdict(result)
    for curve, poisoning in zip(document["poisoning"], result.poisoning, strict=True):
        curve["needed"] = poisoning.needed
    print_result(document, in_options(describe(result), {"config": "--config"}), as_json)
