"""Kinds of models compared in an experiment over all of their training seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nextquery.evaluation.comparison import Comparison, RankedSystem, compare

FEWEST_CASES = 30
LENGTHS = {"short": (2, 2), "medium": (3, 4), "long": (5, 10**6)}
"""Queries of a session, as in the paper's Figure 5."""

Ranks = dict[str, np.ndarray[Any, np.dtype[np.int64]]]


def compared(file: Path) -> dict[str, Any]:
    """The comparisons of one scenario, from the table of ranks that `experiment` writes.

    Models are named KIND-SEED. The ranks of a kind are those of all its seeds, so that a
    comparison of kinds is of the mean reciprocal rank of their seeds, tested by user.
    """
    splits = pl.read_parquet(file).partition_by("split", as_dict=True)
    result = {}
    for (split,), table in splits.items():
        if split in ("test", "unseen_users"):
            parts = {"all": table} | {
                name: table.filter(pl.col("length").is_between(low, high))
                for name, (low, high) in LENGTHS.items()
            }
            result[str(split)] = {name: _part(part) for name, part in parts.items()}
    return result


def _part(table: pl.DataFrame) -> dict[str, Any]:
    """MRRs and comparisons on some cases."""
    users, ranks = _ranks(table)
    facts = {"cases": len(users), "users": len(set(users))}
    if len(users) < FEWEST_CASES:
        return facts
    models = [system for system in ranks if system.partition("-")[2].isdigit()]
    models = [model for model in models if "+" not in model]
    kinds = list(dict.fromkeys(model.partition("-")[0] for model in models))
    for prefix in ("", "baseline+"):
        for kind in kinds:
            seeds = [ranks[prefix + model] for model in models if model.startswith(f"{kind}-")]
            ranks[prefix + kind] = np.concatenate(seeds)
    first, *later = kinds
    pairs = [(f"baseline+{kind}", "baseline") for kind in kinds]
    for other in later:
        pairs += [(other, first), (f"baseline+{other}", f"baseline+{first}")]
    mrr = {name: float((1 / ranks[name]).mean()) for name in ("baseline", *models, *kinds)}
    by_seed = {
        kind: [_relative(ranks, model) for model in models if model.startswith(f"{kind}-")]
        for kind in kinds
    }
    return {**facts, "mrr": mrr, "gains": _gains(ranks, pairs, users), "gains_by_seed": by_seed}


def _relative(ranks: Ranks, model: str) -> float:
    """The gain in MRR of the Baseline Ranker with a model over the one without."""
    return float((1 / ranks[f"baseline+{model}"]).mean() / (1 / ranks["baseline"]).mean() - 1)


def _ranks(table: pl.DataFrame) -> tuple[list[str], Ranks]:
    """The user of every case, and the ranks (seeds, cases) by system."""
    users: list[str] = []
    ranks = {}
    for (system,), rows in table.partition_by("system", as_dict=True).items():
        seeds = [rows.filter(pl.col("seed") == seed) for seed in rows["seed"].unique().sort()]
        users = seeds[0]["user"].to_list()
        reciprocal = np.stack([seed["reciprocal_rank"].to_numpy() for seed in seeds])
        ranks[str(system)] = np.rint(1 / reciprocal).astype(np.int64)
    return users, ranks


def _gains(
    ranks: Ranks, pairs: Sequence[tuple[str, str]], users: Sequence[str]
) -> Mapping[str, Any]:
    gains = {}
    for a, b in pairs:
        rows = max(len(ranks[a]), len(ranks[b]))
        both = {
            RankedSystem(name): np.tile(ranks[name], (rows // len(ranks[name]), 1))
            for name in (a, b)
        }
        [comparison] = compare(both, [(RankedSystem(a), RankedSystem(b))], users)
        gains[f"{a} over {b}"] = _kept(comparison)
    return gains


def _kept(comparison: Comparison) -> dict[str, float | None]:
    return {
        "relative": comparison.relative,
        "difference": comparison.difference,
        "low": comparison.difference_low_by_user,
        "high": comparison.difference_high_by_user,
        "p_by_user": comparison.p_by_user,
    }
