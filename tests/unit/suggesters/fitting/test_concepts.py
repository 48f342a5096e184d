from math import sqrt

import numpy as np
import polars as pl
import pytest

from nextquery.suggesters.cacb import find_concepts, unit_vectors


def _concepts(edges: list[tuple[int, int, float]], queries: int, diameter: float) -> list[int]:
    frame = pl.DataFrame(edges, ["rank", "dimension", "weight"], orient="row")
    vectors = unit_vectors(frame, min_share=0, max_queries=100)
    return [int(concept) for concept in find_concepts(vectors, queries, diameter)]


def test_vectors_have_length_one_and_say_only_what_matters() -> None:
    frame = pl.DataFrame(
        [(0, 7, 3.0), (0, 8, 4.0), (1, 7, 1.0), (1, 9, 99.0), (2, 7, 5.0), (3, 6, 2.0)],
        ["rank", "dimension", "weight"],
        orient="row",
    )
    # Query 1 clicked page 7 once in 100 times; page 7 is left out where 2 queries are allowed.
    assert unit_vectors(frame, min_share=0.1, max_queries=3) == [
        (0, [7, 8], [pytest.approx(0.6), pytest.approx(0.8)]),
        (1, [9], [1.0]),
        (2, [7], [1.0]),
        (3, [6], [1.0]),
    ]
    assert unit_vectors(frame, min_share=0.1, max_queries=2)[0] == (0, [8], [1.0])


def test_two_queries_join_when_their_distance_is_within_the_diameter() -> None:
    # (1, 0) and (0.6, 0.8): distance sqrt(0.4^2 + 0.8^2) = 0.894, the diameter of the pair.
    edges = [(0, 1, 1.0), (1, 1, 3.0), (1, 2, 4.0)]
    distance = sqrt(0.4**2 + 0.8**2)
    assert _concepts(edges, 2, distance) == [0, 0]
    assert _concepts(edges, 2, distance - 0.01) == [0, 1]


def test_a_third_query_joins_only_while_the_mean_of_all_pairs_stays_within() -> None:
    # Unit vectors a = (1,0), b = (.6,.8), c = (0,1): |ab|^2 = .8, |bc|^2 = .4, |ac|^2 = 2.
    edges = [(0, 1, 1.0), (1, 1, 3.0), (1, 2, 4.0), (2, 2, 1.0)]
    mean = sqrt((0.8 + 0.4 + 2) / 3)
    assert _concepts(edges, 3, mean + 0.01) == [0, 0, 0]
    assert _concepts(edges, 3, mean - 0.01) == [0, 0, 1]


def test_the_closest_concept_wins() -> None:
    edges = [(0, 1, 1.0), (1, 2, 1.0), (2, 1, 1.0), (2, 2, 3.0)]
    assert _concepts(edges, 3, 1.0) == [0, 1, 1]


def test_queries_without_a_vector_stay_alone() -> None:
    assert _concepts([(1, 1, 1.0), (3, 1, 2.0)], 4, 1.0) == [1, 0, 2, 0]


def test_incremental_diameters_equal_those_of_all_pairs() -> None:
    draw = np.random.default_rng(3)
    edges = [
        (query, dimension, float(weight))
        for query in range(60)
        for dimension, weight in enumerate(draw.integers(0, 4, 6))
        if weight
    ]
    frame = pl.DataFrame(edges, ["rank", "dimension", "weight"], orient="row")
    vectors = unit_vectors(frame, 0, 100)
    concepts = find_concepts(vectors, 60, 0.8)
    dense = np.zeros((60, 6))
    for rank, dimensions, weights in vectors:
        dense[rank, dimensions] = weights
    assert len(set(concepts)) > 1
    for concept in set(concepts):
        members = dense[concepts == concept]
        if len(members) > 1:
            squares = ((members[:, None] - members[None]) ** 2).sum(-1)
            assert squares.sum() / (len(members) * (len(members) - 1)) <= 0.8**2 + 1e-9
