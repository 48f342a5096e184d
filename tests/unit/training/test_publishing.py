"""The model folder's card, curve and manifest entries, from what a run says of itself."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nextquery.logs.data_folder import PreparedData, data_entry
from nextquery.model.settings import RunConfig
from nextquery.training.publishing import RunFacts, draw_curve, duration, model_card
from nextquery.training.trainer import Perplexity

FACTS = RunFacts(
    steps=1200,
    epochs=3,
    best_step=1100,
    words=5_000_000,
    seconds=3725.04,
    peak_memory_bytes=2_500_000_000,
    processes=2,
    threads=4,
    device="cpu",
    run="a1b2",
    perplexity={
        0: Perplexity(-10 * math.log(20), 10, -8 * math.log(12), 8),
        None: Perplexity(-10 * math.log(8), 10, -8 * math.log(6), 8),
    },
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3.4, "0m 03s"), (200, "3m 20s"), (3599.6, "1h 00m"), (158_460, "44h 01m")],
)
def test_a_time_as_people_write_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_manifest_has_the_perplexity_of_all_earlier_queries() -> None:
    entries = FACTS.entries()
    assert entries["validation_perplexity"] == pytest.approx(8)
    assert entries["validation_perplexity_known"] == pytest.approx(6)
    assert entries["validation_nll"] == pytest.approx(math.log(8))
    assert entries["validation_perplexity_by_context"] == pytest.approx({"0": 20, "all": 8})
    assert entries["seconds"] == 3725.0
    json.dumps(entries)


def test_the_card_says_what_the_run_was(prepared: Any, tiny_log: Any) -> None:
    class WithCounts(PreparedData):
        """The data folder of a test has no counts of its validation sessions."""

        def __init__(self, made: PreparedData) -> None:
            super().__init__(made.path)
            counts = {"background": 1500, "validation": 70}
            manifest = {**made.artifact.manifest, "counts": {"sessions": counts, "queries": counts}}
            object.__setattr__(self, "artifact", replace(made.artifact, manifest=manifest))

    data = WithCounts(prepared(tiny_log([("a", ("one", "two"))], min_users=1)))
    card = model_card(RunConfig(), data, FACTS, (103, 75_000_000), {"data": data_entry(data)})
    assert "| sessions | 1,500 | 70 |" in card
    assert "| all | 8.00 | 6.00 |" in card
    assert "| 1,200 | 1h 02m | 75,000,000 | 300.0 MB | 2,500 MB |" in card
    assert "those of step 1,100" in card
    assert "| `train.seed` |" in card


def test_the_curve_is_drawn_from_the_metrics(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    metrics = tmp_path / "metrics.jsonl"
    entries = [{"step": s, "loss": 5 / s} for s in (1, 2, 3)] + [{"step": 3, "validation_nll": 2}]
    metrics.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    draw_curve(metrics, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
