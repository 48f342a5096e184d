"""One scenario from cases to figures: features, rankers, standings, analyses, TREC files.

Knows the order of the work; each part of it is a module of its own.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.evaluation.progress import Steps
from nextquery.evaluation.ranking.analyses import (
    by_context_length,
    by_session_length,
    noisy_contexts,
    session_lengths,
    single_features,
)
from nextquery.evaluation.ranking.comparison import standings, system_pairs
from nextquery.evaluation.ranking.parts import Evaluated, add_features, build_cases, is_test
from nextquery.evaluation.ranking.rankers import RankerGroup, RankerTrainer, train_all
from nextquery.evaluation.ranking.scenarios import Rules
from nextquery.evaluation.ranking.trec import write_qrels, write_run
from nextquery.evaluation.systems import Contestants
from nextquery.ranking.cases import CaseSet, Floats
from nextquery.ranking.lambdamart import RankedPart

ALONE = ("per_word", "lift")
"""Forms that order the candidates of a case unlike the sum does."""

FEWEST = {"training": 100, "validation": 50, "test": 50}
"""A scenario with fewer cases than these in a part says so and reports no figure."""

Figures = dict[str, Any]


@dataclass(frozen=True)
class RankingSettings:
    """What the ranking scenarios can be told."""

    rules: Rules
    seeds: int
    """Rankers trained for each learnt system."""
    ranker_cases: int
    """At most this many cases of a split teach the rankers."""


def run_scenario(
    name: str,
    evaluated: Evaluated,
    contestants: Contestants,
    settings: RankingSettings,
    trec: Path,
    steps: Steps,
) -> Figures:
    """All figures of a scenario; the runs and qrels of its test part go to the folder `trec`."""
    steps.begin(name)
    cases = build_cases(name, evaluated, settings.rules, settings.ranker_cases)
    figures: Figures = {"cases": {split: len(found) for split, found in cases.items()}}
    figures |= _facts(cases["test"], evaluated)
    missing = _too_few(cases)
    if missing:
        return {**figures, "too_few": missing, "systems": {}, "comparisons": []}
    parts = {
        split: add_features(split, found, evaluated.background, contestants, steps)
        for split, found in cases.items()
        if len(found)
    }
    steps.begin(f"{name}: rankers")
    trainer = RankerTrainer(parts["training"], parts["validation"], range(1, settings.seeds + 1))
    groups, choices = train_all(trainer, contestants.models, contestants.features)
    for split, part in parts.items():
        if is_test(split):
            scores = system_scores(part, groups, contestants)
            measured = _measure(part.cases, scores)
            figures |= measured if split == "test" else {split: measured}
            if split == "test":
                _export(trec, name, part.cases, scores)
    figures["rankers"] = {system: _described(group) for system, group in groups.items()}
    figures["form_choices"] = choices
    figures["single_features"] = single_features(parts["test"])
    figures["by_context_length"] = {
        model: by_context_length(
            parts["test"], model, scorer, groups[f"baseline+{model}"], steps.track("context length")
        )
        for model, scorer in contestants.case_scorers.items()
    }
    return figures


def system_scores(
    part: RankedPart, groups: Mapping[str, RankerGroup], contestants: Contestants
) -> dict[str, Floats]:
    """The scores of every system on a part: the count models, the rankers, the models alone."""
    features = part.features
    scores = {"adj": features.column("adj_count")}
    scores |= {system: group.scores(features) for system, group in groups.items()}
    for model in contestants.models:
        scores[model] = features.column(f"{model}:sum")
        scores |= {f"{model}:{form}": features.column(f"{model}:{form}") for form in ALONE}
    for model in contestants.features:
        scores[model] = features.column(f"{model}:sum")
    scores["qvmm"] = features.column("qvmm")
    for model in contestants.counted:
        if f"{model}:alone" in features.names:
            scores[model] = features.column(f"{model}:alone")
    return scores


def _measure(cases: CaseSet, scores: Mapping[str, Floats]) -> Figures:
    found = standings(cases, scores)
    summary = found.summary(system_pairs(found.ranks))
    summary.pop("cases")
    summary.setdefault("systems", {})
    summary.setdefault("comparisons", [])
    return {**summary, "by_session_length": by_session_length(found)}


def _facts(cases: CaseSet, evaluated: Evaluated) -> Figures:
    return {
        "session_lengths": session_lengths(cases),
        "noisy_contexts": noisy_contexts(cases, evaluated.background),
        "candidates": float(np.mean(cases.sizes)) if len(cases) else None,
    }


def _too_few(cases: Mapping[str, CaseSet]) -> str:
    short = [
        f"{len(cases[split])} {split} cases, {least} needed"
        for split, least in FEWEST.items()
        if len(cases[split]) < least
    ]
    return "; ".join(short)


def _described(group: RankerGroup) -> Figures:
    return {
        "forms": list(group.forms),
        "shape": asdict(group.shape),
        "trees": [ranker.trees for ranker in group.rankers],
        "validation_mrr": group.validation_mrr,
        "importances": group.importances(),
    }


def _export(folder: Path, scenario: str, cases: CaseSet, systems: Mapping[str, Floats]) -> None:
    """A run a system; of the learnt ones the first seed's, whose MRR is `mrr_by_seed[0]`."""
    folder.mkdir(parents=True, exist_ok=True)
    write_qrels(folder / f"{scenario}.qrels", cases)
    for system, scores in systems.items():
        name = system.replace(":", "_")
        write_run(folder / f"{scenario}.{name}.run", cases, np.atleast_2d(scores)[0], name)
