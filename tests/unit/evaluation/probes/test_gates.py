"""Update gates, and words and queries as points."""

from collections.abc import Sequence

import numpy as np
import pytest

from nextquery.evaluation.probes.gates import (
    GROUPS,
    GateComparison,
    gate_example,
    gate_result,
    project,
)
from nextquery.evaluation.scenarios import Noise
from nextquery.ranking.cases import BackgroundCounts
from nextquery.records import Session
from nextquery.suggesters.base import Floats


class Sceptic:
    """Updates fully on a first query, half on others, and hardly on noise."""

    def __init__(self, noise: float) -> None:
        self.noise = noise

    def update_gates_many(self, contexts: Sequence[Sequence[str]]) -> list[Floats]:
        return [self.gates(context) for context in contexts]

    def gates(self, context: Sequence[str]) -> Floats:
        rows = [
            1.0 if place == 0 else self.noise if query == "google" else 0.5
            for place, query in enumerate(context)
        ]
        return np.repeat(np.array(rows, dtype=np.float32)[:, None], 4, axis=1)


BACKGROUND = BackgroundCounts({"google": 10}, {})
SESSIONS = [Session(n, "u", (f"a{n}", f"b{n}", f"c{n}", f"d{n}")) for n in range(200)]


def test_noise_is_compared_with_the_query_at_the_same_place() -> None:
    found = gate_result(Sceptic(0.1), SESSIONS, Noise(BACKGROUND, 0), iter)

    assert isinstance(found, GateComparison)
    assert found.own_query == pytest.approx(0.5)
    assert found.noisy_query == pytest.approx(0.1)
    assert found.difference == pytest.approx(-0.4)
    assert found.noise_updates_less == 1.0
    assert found.by_position == pytest.approx({"1": 1.0, "2": 0.5, "3": 0.5})
    # of 4 places per context the first and the one behind the end have no query to compare with
    assert 60 < found.contexts < 140


def test_a_model_that_treats_noise_alike_shows_no_difference() -> None:
    found = gate_result(Sceptic(0.5), SESSIONS, Noise(BACKGROUND, 0), iter)

    assert isinstance(found, GateComparison)
    assert found.difference == 0
    assert found.p == 1.0


def test_the_example_ends_in_noise() -> None:
    sessions = [Session(n, "u", (f"a{n}", f"b{n}", f"c{n}")) for n in range(20)]
    known = {"google", "a7", "b7", "a9", "b9", *(f"a{n}" for n in range(20))}
    noise = Noise(BACKGROUND, 0)
    assert gate_example(Sceptic(0.1), sessions, noise, {"google"}) is None
    known |= {f"b{n}" for n in range(10, 20)}
    example = gate_example(Sceptic(0.1), sessions, noise, known)

    assert example is not None
    assert set(example.queries) <= known  # others were typed by fewer than K users
    assert example.queries[-1] == "google"
    assert np.shape(example.gates) == (3, 4)


def test_one_context_gives_no_comparison() -> None:
    found = gate_result(Sceptic(0.1), SESSIONS[:1], Noise(BACKGROUND, 0), iter)

    assert not isinstance(found, GateComparison)
    assert found.by_position["1"] == 1.0


def test_near_vectors_stay_near_and_the_plane_repeats_itself() -> None:
    generator = np.random.default_rng(0)
    centres = np.eye(3).repeat(12, axis=0) * 10
    vectors = (centres + generator.normal(0, 0.1, size=centres.shape)).astype(np.float32)
    texts = [f"text {number}" for number in range(36)]

    points = project(texts, vectors, seed=0)

    places = np.array([[point.x, point.y] for point in points])
    distances = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert (distances.argmin(axis=1) // 12 == np.arange(36) // 12).all()
    assert {point.group for point in points} <= set(range(GROUPS))
    assert points == project(texts, vectors, seed=0)


def test_too_few_texts_give_no_plane() -> None:
    assert project(["a"], np.zeros((1, 2), dtype=np.float32), seed=0) == ()
