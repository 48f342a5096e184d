"""Kinds of models compared over the seeds of an experiment."""

from pathlib import Path

import polars as pl
import pytest

from research.pooled_seeds import FEWEST_CASES, compared

RANKS = {
    "baseline": (2, 2),
    "hred-1": (4, 4),
    "hred-2": (2, 2),
    "transformer-1": (1, 1),
    "transformer-2": (2, 2),
    "baseline+hred-1": (2, 2),
    "baseline+hred-2": (1, 1),
    "baseline+transformer-1": (1, 1),
    "baseline+transformer-2": (1, 2),
}
"""The rank of every case by two seeds of the ranker."""


def table(cases: int) -> pl.DataFrame:
    rows = [
        {
            "split": "test",
            "user": str(case),
            "length": 2,
            "system": system,
            "seed": seed,
            "reciprocal_rank": 1 / rank,
        }
        for system, ranks in RANKS.items()
        for seed, rank in enumerate(ranks, start=1)
        for case in range(cases)
    ]
    return pl.DataFrame(rows)


def test_a_kind_is_the_mean_of_its_seeds(tmp_path: Path) -> None:
    file = tmp_path / "ranks.parquet"
    table(FEWEST_CASES).write_parquet(file)

    part = compared(file)["test"]["all"]

    assert (part["cases"], part["users"]) == (FEWEST_CASES, FEWEST_CASES)
    assert part["mrr"]["hred"] == pytest.approx((1 / 4 + 1 / 2) / 2)
    assert part["mrr"]["transformer-1"] == 1
    # MRR .5 without a model; with HRED .5 and 1, with the Transformer 1 and .75
    assert part["gains_by_seed"] == {
        "hred": pytest.approx([0, 1]),
        "transformer": pytest.approx([1, 0.5]),
    }
    gains = part["gains"]
    assert gains["baseline+hred over baseline"]["relative"] == pytest.approx(0.5)
    assert gains["baseline+transformer over baseline"]["relative"] == pytest.approx(0.75)
    over_hred = gains["baseline+transformer over baseline+hred"]
    assert over_hred["difference"] == pytest.approx(0.875 - 0.75)


def test_few_cases_are_counted_and_not_compared(tmp_path: Path) -> None:
    file = tmp_path / "ranks.parquet"
    table(FEWEST_CASES - 1).write_parquet(file)

    parts = compared(file)["test"]

    assert parts["all"] == {"cases": FEWEST_CASES - 1, "users": FEWEST_CASES - 1}
    assert parts["long"] == {"cases": 0, "users": 0}
