from pathlib import Path

import polars as pl
import pytest

from nextquery.evaluation.experiment import ExperimentRun
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.evaluation.steps import StepStore, show_steps
from nextquery.evaluation.systems import Systems
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.base import Scorer
from nextquery.suggesters.fit import fit_model


@pytest.mark.slow
def test_every_step_is_kept_and_taken_up_again(
    small_data: PreparedData, shared_words: Scorer, tmp_path: Path
) -> None:
    settings = ExperimentSettings(
        ("long_tail",), generation_contexts=5, completion_contexts=5, boundary_queries=100
    )
    systems = Systems({"adj": fit_model(Adjacency, small_data)}, {"mine": shared_words})
    results, stores = [], []
    for _ in range(2):
        stores.append(StepStore(tmp_path, "the same basis"))
        with show_steps() as steps:
            run = ExperimentRun(small_data, systems, settings, tmp_path, stores[-1], steps)
            results.append(run.results({}))

    assert results[0] == results[1]
    assert stores[0].reused == []
    assert stores[1].reused == [
        "long_tail", "new_long_tail", "generation", "unseen_generation", "completion",
        "returning", "samples", "paper_examples", "ngrams", "gates", "hidden_intent", "boundaries",
        "projections", "decoding", "list_times",
    ]  # fmt: skip
    # a system that only scores takes part in no list, gate or projection
    assert list(results[0].generation.systems) == ["adj"]
    assert results[0].completion is not None
    assert list(results[0].completion.systems) == ["adj"]
    assert not results[0].gates
    assert not results[0].ngrams
    assert not results[0].paper_examples
    assert list(results[0].hidden_intent) == ["mine"]
    assert not results[0].projections
    assert not results[0].decoding
    assert results[0].boundaries.gaps > 0

    # What a report quotes was typed by K users.
    rows = small_data.counts("queries").filter(pl.col("users") >= small_data.min_users)
    known = set(rows.select("query").collect()["query"])
    quoted = [{*each.context, each.next_query} for each in results[0].samples.contexts]
    assert all(queries <= known for queries in quoted)
