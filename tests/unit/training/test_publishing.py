"""The finished model folder, and training that continues from an earlier model."""

import json
import math
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import make_untrained_hred

from nextquery.errors import ArtifactError, ConfigError
from nextquery.logs.data_folder import PreparedData, continued_entry, data_entry, describe_forgotten
from nextquery.model.hred import HRED
from nextquery.model.settings import ModelConfig, RunConfig
from nextquery.records import Session
from nextquery.text.corpus import EncodedSessions, SessionLimits, encode_sessions
from nextquery.text.vocabulary import Vocabulary
from nextquery.training.continuing import Continuation, choose_sessions, similar_words, take_weights
from nextquery.training.publishing import RunFacts, duration, model_card
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


SIZES = {"embedding_size": 4, "query_size": 5, "session_size": 6}


def model(words: list[str], seed: int, **settings: Any) -> HRED:
    torch.manual_seed(seed)
    return HRED(ModelConfig.model_validate({**SIZES, **settings}), Vocabulary(words))


def in_numbers(made: HRED, queries: list[str], folder: Path) -> EncodedSessions:
    session = Session(0, "u", tuple(queries))
    return encode_sessions([session], made.vocabulary, SessionLimits(50, 30), folder / "encoded")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"factored": False},
        {"tied": True, "output_bias": True},
        {"copy": True},
        {"character_ngrams": 20, "tied": True},
    ],
)
def test_the_rows_of_words_move_with_them(settings: dict[str, Any], tmp_path: Path) -> None:
    before = model(["red", "blue"], 1, **settings)
    after = model(["blue", "green", "red"], 2, **settings)
    sessions = in_numbers(after, ["green red", "blue red", "red"], tmp_path)
    assert take_weights(after, before, sessions) == 1
    old, new = before.output_matrix, after.output_matrix
    ids = {word: before.vocabulary.id(word) for word in ("red", "blue", "<eoq>")}
    for word, position in ids.items():
        assert torch.equal(new[after.vocabulary.id(word)], old[position])
    # Of the known words only "blue" is used like "green": before "red".
    rows = after.output_vectors.weight
    assert torch.allclose(rows[after.vocabulary.id("green")], rows[after.vocabulary.id("blue")])
    for text in ("red", "blue red"):
        vectors = []
        for item in (before, after):
            ids_of = torch.tensor([item.vocabulary.encode(text)])
            vectors.append(item.encode_queries(ids_of, torch.tensor([ids_of.shape[1]]))[0])
        assert torch.allclose(vectors[0], vectors[1])


def test_a_coincidence_of_sizes_moves_nothing(tmp_path: Path) -> None:
    """As many words as a state has numbers: matrices that are not word tables stay in order."""
    before, after = model(["red", "blue"], 1), model(["blue", "red"], 2)
    assert len(before.vocabulary) == before.config.query_size
    take_weights(after, before, in_numbers(after, ["red"], tmp_path))
    assert torch.equal(after.decoder_start.weight, before.decoder_start.weight)


def test_another_shape_is_refused_and_a_new_head_is_not(tmp_path: Path) -> None:
    sessions = in_numbers(model(["red"], 1), ["red"], tmp_path)
    with pytest.raises(ConfigError, match="another shape"):
        take_weights(model(["red"], 1), model(["red"], 2, query_size=7), sessions)
    take_weights(model(["red"], 1, usefulness=True), model(["red"], 2), sessions)


def test_new_words_begin_like_words_that_are_used_alike(tmp_path: Path) -> None:
    words = ["cheap", "shoes", "boots", "paris", "sandals", "alone", "typed"]
    queries = [
        *("cheap shoes", "cheap boots", "boots cheap", "paris"),
        *("cheap sandals", "alone", "typed typed typed"),
    ]
    vocabulary = model(words, 1)
    ids = {word: vocabulary.vocabulary.id(word) for word in words}
    new = np.array([ids["sandals"], ids["alone"]])
    similar = similar_words(in_numbers(vocabulary, queries, tmp_path), new)
    chosen, shares = similar[ids["sandals"]]
    best = chosen[np.argsort(-shares)][0]
    assert best == ids["shoes"], "after the same word and at the end of a query"
    for _, shares in similar.values():
        assert shares.sum() == pytest.approx(1)


def test_a_word_that_is_used_like_no_other_begins_like_a_rare_one(tmp_path: Path) -> None:
    made = model(["red", "blue", "odd"], 1)
    ids = {word: made.vocabulary.id(word) for word in ("red", "blue", "odd")}
    sessions = in_numbers(made, ["red blue odd"], tmp_path)
    unended = replace(sessions, words=sessions.words[:3])  # nothing else is after "blue"
    chosen, shares = similar_words(unended, np.array([ids["odd"]]))[ids["odd"]]
    assert sorted(chosen.tolist()) == sorted([ids["red"], ids["blue"]])
    assert shares.tolist() == [0.5, 0.5]


@pytest.fixture
def data(prepared: Any, tiny_log: Any) -> PreparedData:
    sessions = [(f"u{n}", ("red shoes", "red boots")) for n in range(40)]
    result: PreparedData = prepared(tiny_log(sessions, days=[n // 4 for n in range(40)]))
    return result


def encoded(data: PreparedData, folder: Path) -> EncodedSessions:
    words = Vocabulary(["red", "shoes", "boots"])
    return encode_sessions(data.sessions("background"), words, SessionLimits(20, 30), folder)


@dataclass(frozen=True)
class Until(Continuation):
    """Continues a model that learnt until some day."""

    day: int = 0

    @property
    def until(self) -> datetime | None:
        return datetime(2024, 1, 1 + self.day)


def test_an_epoch_has_equal_numbers_of_new_and_old_sessions(
    data: PreparedData, tmp_path: Path
) -> None:
    sessions = encoded(data, tmp_path / "sessions")
    # New are the sessions of day 9 and the later query of day 8.
    earlier = Until(tmp_path, replay=2.0, day=8)
    result = choose_sessions(earlier, data, sessions, seed=1)
    assert result.new == 8
    assert result.replayed == 16
    assert set(range(32, 40)) <= set(result.sessions.ids.tolist())
    assert len(set(result.sessions.ids.tolist())) == 24
    again = choose_sessions(earlier, data, sessions, seed=1)
    assert np.array_equal(again.sessions.ids, result.sessions.ids)


def test_where_nothing_is_new_everything_is_gone_through(
    data: PreparedData, tmp_path: Path
) -> None:
    earlier = Until(tmp_path, day=20)
    result = choose_sessions(earlier, data, encoded(data, tmp_path / "sessions"), seed=1)
    assert (result.new, result.replayed, len(result.sessions)) == (0, 40, 40)


def test_a_model_that_does_not_say_is_refused(data: PreparedData, tmp_path: Path) -> None:
    make_untrained_hred(data, tmp_path / "model")
    earlier = Continuation(tmp_path / "model")
    with pytest.raises(ArtifactError, match="which days it was trained on"):
        choose_sessions(earlier, data, encoded(data, tmp_path / "sessions"), seed=1)
    with pytest.raises(ArtifactError, match="how it was trained"):
        earlier.settings()
    with pytest.raises(ConfigError, match="`replay`"):
        Continuation(tmp_path, -1)


def test_late_removals_are_called_approximate(data: PreparedData) -> None:
    entry = data_entry(data)
    assert str(entry["until"]).startswith("2024-01-10")
    notes = [{"date": "2026-01-01", "users": 1}, {"date": "2026-02-01", "users": 2}]
    assert continued_entry(data, {"data": {"forgotten": []}})["approximately"] == 0
    late = {**entry, "forgotten": notes, "approximately": 1}
    assert "The last 2 of them" in describe_forgotten(late)
    assert "approximate" not in describe_forgotten({**entry, "forgotten": notes})
