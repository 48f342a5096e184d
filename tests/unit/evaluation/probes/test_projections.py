import numpy as np

from nextquery.evaluation.probes.gates import GROUPS, project


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
