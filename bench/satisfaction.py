"""Does learning from clicks bring more satisfying next queries? By a log that knows, and a control.

On the log `outcome` satisfaction follows from the query, on `chance` it does not. Sessions outside
the background are told apart by whether their last query truly satisfied, which no model is told.
Count models: the MRR of the first 20 suggestions with `useful_weight` 3 against 1. HRED: the MRR
among the 20 most frequent followers of the last query, by `log P(q)` and by `log P(q and useful)`.
`z` is the mean change over its standard error.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nextquery import load
from nextquery.config import load_config
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import Satisfaction, make_log, write_log
from nextquery.model.settings import RunConfig
from nextquery.suggesters.base import UsefulnessJudge
from nextquery.suggesters.fitting.fit import fit_model
from nextquery.suggesters.loading import count_model

KINDS = ("adjacency", "qvmm", "shortcuts", "cacb")
SEED, LISTED, MOST = 1, 20, 2500
CONFIG = (
    "train.usefulness_weight=1",
    "train.epochs=5",
    "model.decoder_context=all",
    "model.copy=false",
)


def main(quick: bool) -> dict[str, Any]:
    """The changes of every system on both logs."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as work:
        logs: tuple[Satisfaction, ...] = ("outcome", "chance")
        for log in logs:
            folder = Path(work) / log
            data, cases = make_cases(folder, log, 1500 if quick else 60_000)
            found[log] = {kind: count_change(data, cases, kind) for kind in KINDS}
            data, cases = make_cases(folder, log, 1500 if quick else 20_000)
            found[log]["hred"] = trained_change(data, cases, folder / "hred", quick)
    return found


def make_cases(
    folder: Path, log: Satisfaction, sessions: int
) -> tuple[PreparedData, list[tuple[tuple[str, ...], bool]]]:
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
    ends = rows.agg("query", pl.col("time").last()).collect()
    known = ends.with_columns(last=pl.col("query").list.last()).join(
        truth.unique(["time", "last"], keep="none"), on=["time", "last"], how="inner"
    )
    chosen = known.sample(min(MOST, len(known)), seed=0).sort("session")
    pairs = chosen.select("query", "satisfied").iter_rows()
    return data, [(tuple(queries), bool(satisfied)) for queries, satisfied in pairs]


def count_change(
    data: PreparedData, cases: Sequence[tuple[tuple[str, ...], bool]], kind: str
) -> dict[str, Any]:
    """Of a count model that weighs useful queries."""
    model_type = count_model(kind)
    ranks = []
    for weight in (1, 3):
        settings = model_type.settings_type.model_validate({"useful_weight": weight})
        model = fit_model(model_type, data, settings)
        lists = [
            [each.text for each in model.suggest(queries[:-1], LISTED)] for queries, _ in cases
        ]
        ranks.append(
            [
                1 / (1 + found.index(queries[-1])) if queries[-1] in found else 0.0
                for found, (queries, _) in zip(lists, cases, strict=True)
            ]
        )
    return changes(ranks[0], ranks[1], [satisfied for _, satisfied in cases])


def trained_change(
    data: PreparedData, cases: Sequence[tuple[tuple[str, ...], bool]], out: Path, quick: bool
) -> dict[str, Any]:
    """Of HRED with a usefulness head."""
    from nextquery.training.distributed import processes
    from nextquery.training.run import train

    more = ["train.epochs=1"] if quick else []
    with processes("cpu") as group:
        train(
            data, out, load_config(RunConfig, "tiny", [*CONFIG, *more]), group, say=lambda _: None
        )
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
    ranks: list[list[float]] = [[], []]
    satisfied = []
    for queries, satisfies in cases:
        candidates = followers.get(queries[-2], [])
        if queries[-1] not in candidates:
            continue
        scores = np.array([each.log_likelihood for each in model.score(queries[:-1], candidates)])
        [useful] = model.usefulness_many([queries[:-1]], [candidates])
        for place, values in enumerate((scores, scores + np.log(useful))):
            right = values[candidates.index(queries[-1])]
            ranks[place].append(1 / (1 + int((values > right).sum())))
        satisfied.append(satisfies)
    facts = dict(load_manifest(out))
    return {**changes(ranks[0], ranks[1], satisfied), **facts}


def load_manifest(out: Path) -> list[tuple[str, float]]:
    """The perplexity and the head's loss on validation sessions."""
    from nextquery.artifacts import open_artifact

    training = open_artifact(out).manifest["training"]
    names = (
        "validation_perplexity",
        "validation_usefulness_nll",
        "validation_usefulness_share_nll",
    )
    return [(name, float(training[name])) for name in names]


def changes(
    before: Sequence[float], after: Sequence[float], marks: Sequence[bool]
) -> dict[str, Any]:
    """The MRR before, its change and that one's z, where the last query satisfied and where not."""
    found = {}
    for name, wanted in (("satisfied", np.array(marks)), ("not_satisfied", ~np.array(marks))):
        first, change = np.array(before)[wanted], (np.array(after) - np.array(before))[wanted]
        error = float(change.std(ddof=1)) / len(change) ** 0.5 if len(change) > 1 else 0.0
        found[name] = {
            "cases": len(change),
            "mrr": float(first.mean()) if len(change) else 0.0,
            "change": float(change.mean()) if len(change) else 0.0,
            "z": float(change.mean()) / error if error else 0.0,
        }
    return found
