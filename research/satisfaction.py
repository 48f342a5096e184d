"""Does learning from clicks bring more satisfying next queries? On a synthetic log, and a control.

On the log `outcome` satisfaction follows from the query, on `chance` it does not. Sessions outside
the background are told apart by whether their last query truly satisfied, which no model is told.
Count models: the MRR of the first 20 suggestions with `useful_weight` 3 against 1. HRED: the MRR
among the 20 most frequent followers of the query before, by `log P(q) + W log P(useful | q)`, and
what the head costs in perplexity. `z` is the mean change over its standard
error. The same is told by whether the last query was clicked, all that a real log says of it.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from nextquery import load
from nextquery.config import load_config
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import Satisfaction, make_log, write_log
from nextquery.model.settings import RunConfig
from nextquery.records import Suggestion
from nextquery.suggesters.base import UsefulnessJudge
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import count_model

KINDS = ("adjacency", "qvmm", "shortcuts", "cacb")
SEED, LISTED, MOST = 1, 20, 2500
WEIGHTS = (0, 1, 2, 4)
CONFIG = (
    "train.epochs=5",
    "model.decoder_context=all",
    "model.copy=false",
)


class Case(NamedTuple):
    """A session of which the last query is to be found."""

    queries: tuple[str, ...]
    satisfied: bool
    """Whether the last query truly satisfied, which no model is told."""
    clicked: bool


def main(quick: bool) -> dict[str, Any]:
    """The changes of every system on both logs."""
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as work:
        logs: tuple[Satisfaction, ...] = ("outcome", "chance")
        for log in logs:
            folder = Path(work) / log
            data, cases = make_cases(folder, log, 1500 if quick else 60_000)
            results[log] = {kind: count_change(data, cases, kind) for kind in KINDS}
            data, cases = make_cases(folder, log, 1500 if quick else 20_000)
            results[log]["hred"] = trained_change(data, cases, folder / "hred", quick)
            if log == "outcome":
                trained(data, folder / "plain", 0, quick)
                results[log]["hred_without_head"] = dict(training_facts(folder / "plain"))
    return results


def make_cases(folder: Path, log: Satisfaction, sessions: int) -> tuple[PreparedData, list[Case]]:
    """A prepared log, and its later sessions with whether the last query satisfied."""
    folder.mkdir(exist_ok=True)
    raw, out = folder / f"{sessions}.tsv", folder / f"data-{sessions}"
    write_log(raw, sessions, SEED, satisfaction=log)
    few = sessions < 10_000
    prepare([raw], out, PrepareSettings(spelling=False, min_users=1 if few else 3))
    data = PreparedData(out)
    truth = make_log(sessions, SEED, satisfaction=log).queries.select(
        pl.from_epoch("time", time_unit="s").cast(pl.Datetime("us")).alias("time"),
        pl.col("text").alias("last"),
        "satisfied",
    )
    splits = [data.session_rows(split) for split in data.splits if split != "background"]
    rows = pl.concat(splits).sort("session", "position").group_by("session", maintain_order=True)
    ends = rows.agg("query", pl.col("time").last(), pl.col("clicks").last() > 0).collect()
    known = ends.with_columns(last=pl.col("query").list.last()).join(
        truth.unique(["time", "last"], keep="none"), on=["time", "last"], how="inner"
    )
    chosen = known.sample(min(MOST, len(known)), seed=0).sort("session")
    chosen_rows = chosen.select("query", "satisfied", "clicks").iter_rows()
    return data, [Case(tuple(queries), bool(a), bool(b)) for queries, a, b in chosen_rows]


def count_change(data: PreparedData, cases: Sequence[Case], kind: str) -> dict[str, Any]:
    """Of a count model that weighs useful queries."""
    model_type = count_model(kind)
    ranks = []
    for weight in (1, 3):
        settings = model_type.settings_type.model_validate({"useful_weight": weight})
        model = fit_model(model_type, data, settings)
        ranks.append([_found_rank(model.suggest(c.queries[:-1], LISTED), c) for c in cases])
    return changes(ranks[0], ranks[1], cases)


def _found_rank(listed: Sequence[Suggestion], case: Case) -> float:
    """One over the place of the last query, 0 if it is not there."""
    texts = [suggestion.text for suggestion in listed]
    return 1 / (1 + texts.index(case.queries[-1])) if case.queries[-1] in texts else 0.0


def trained_change(
    data: PreparedData, cases: Sequence[Case], out: Path, quick: bool
) -> dict[str, Any]:
    """Of HRED with a usefulness head, by what usefulness weighs."""
    trained(data, out, 1, quick)
    model = load(out)
    assert isinstance(model, UsefulnessJudge)
    followers = dict(
        data.counts("followers")
        .sort("count", descending=True)
        .group_by("anchor", maintain_order=True)
        .agg(pl.col("next").head(LISTED))
        .collect()
        .iter_rows()
    )
    ranks: dict[int, list[float]] = {weight: [] for weight in WEIGHTS}
    asked = [c for c in cases if c.queries[-1] in followers.get(c.queries[-2], [])]
    for case in asked:
        context, candidates = case.queries[:-1], followers[case.queries[-2]]
        scores = np.array([scored.log_likelihood for scored in model.score(context, candidates)])
        [useful] = model.usefulness_many([context], [candidates])
        for weight, rank_values in ranks.items():
            values = scores + weight * np.log(useful)
            right = values[candidates.index(case.queries[-1])]
            rank_values.append(1 / (1 + int((values > right).sum())))
    by_weight = {f"W = {weight}": changes(ranks[0], ranks[weight], asked) for weight in WEIGHTS[1:]}
    return {**by_weight, **dict(training_facts(out))}


def trained(data: PreparedData, out: Path, usefulness_weight: int, quick: bool) -> None:
    """Train HRED with a usefulness head, or without one (weight 0)."""
    from nextquery.training.distributed import processes
    from nextquery.training.run import train

    more = [f"train.usefulness_weight={usefulness_weight}", *["train.epochs=1"][: int(quick)]]
    config = load_config(RunConfig, "tiny", [*CONFIG, *more])
    with processes("cpu") as group:
        train(data, out, config, group, say=lambda _: None)


def training_facts(out: Path) -> list[tuple[str, float]]:
    """The perplexity and the head's loss on validation sessions."""
    from nextquery.artifacts import open_artifact

    training = open_artifact(out).manifest["training"]
    names = (
        "validation_perplexity",
        "validation_usefulness_nll",
        "validation_usefulness_share_nll",
    )
    return [(name, float(training[name])) for name in names if name in training]


def changes(
    before: Sequence[float], after: Sequence[float], cases: Sequence[Case]
) -> dict[str, Any]:
    """The MRR before, its change and that one's z: by true satisfaction, and by clicks."""
    satisfied = np.array([case.satisfied for case in cases])
    clicked = np.array([case.clicked for case in cases])
    groups = {
        "satisfied": satisfied,
        "not_satisfied": ~satisfied,
        "clicked": clicked,
        "not_clicked": ~clicked,
    }
    facts = {}
    for name, wanted in groups.items():
        first, change = np.array(before)[wanted], (np.array(after) - np.array(before))[wanted]
        error = float(change.std(ddof=1)) / len(change) ** 0.5 if len(change) > 1 else 0.0
        facts[name] = {
            "cases": len(change),
            "mrr": float(first.mean()) if len(change) else 0.0,
            "change": float(change.mean()) if len(change) else 0.0,
            "z": float(change.mean()) / error if error else 0.0,
        }
    return facts
