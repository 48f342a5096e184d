from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.errors import InputError
from nextquery.evaluation.probes.boundaries import (
    BoundaryScore,
    best_threshold,
    boundary_result,
    boundary_score,
    gaps_of_file,
)
from nextquery.suggesters.base import Floats


class Topical:
    """A gate that opens wide when a query shares no word with the one before it."""

    def update_gates_many(self, contexts: Sequence[Sequence[str]]) -> list[Floats]:
        return [self.gates(context) for context in contexts]

    def gates(self, context: Sequence[str]) -> Floats:
        last, before = set(context[-1].split()), set(context[-2].split())
        return np.array([[0.0], [0.1 if last & before else 0.9]], dtype=np.float32)


def labelled(path: Path, times: bool = True) -> Path:
    lines = ["user,query,session" + (",time" if times else "")]
    for number in range(60):
        topic = number // 3
        minute = f",2006-05-01 {topic:02d}:{number % 3:02d}:00" if times else ""
        lines.append(f"u1,topic{topic} word{number},s{topic}{minute}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_precision_recall_and_f1_by_hand() -> None:
    truth = np.array([True, False, True, True])
    scores = np.array([0.9, 0.8, 0.7, 0.1])

    assert boundary_score(0.7, scores, truth) == BoundaryScore(2 / 3, 2 / 3, 2 / 3)
    assert boundary_score(2.0, scores, truth).f1 == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=20))
def test_no_threshold_is_better_than_the_chosen_one(rows: list[tuple[int, bool]]) -> None:
    scores = np.array([score for score, _ in rows], dtype=np.float64)
    truth = np.array([boundary for _, boundary in rows])
    best = boundary_score(best_threshold(scores, truth), scores, truth).f1

    assert best == pytest.approx(max(boundary_score(t, scores, truth).f1 for t in scores))


def test_without_streams_to_learn_from_or_to_test_there_are_no_systems(tmp_path: Path) -> None:
    gaps = gaps_of_file(labelled(tmp_path / "labels.csv"))
    models = {"topical": Topical()}
    nothing_to_learn = boundary_result([], gaps, models, iter)
    assert (nothing_to_learn.gaps, nothing_to_learn.boundaries) == (59, 19)
    assert (nothing_to_learn.tuning_gaps, nothing_to_learn.systems) == (0, {})
    assert boundary_result(gaps, [], models, iter).systems == {}
    assert boundary_result([], [], models, iter).gaps == 0
    assert best_threshold(np.array([]), np.array([], dtype=np.bool_)) == np.inf


def test_gates_that_know_the_topic_find_every_boundary(tmp_path: Path) -> None:
    gaps = gaps_of_file(labelled(tmp_path / "labels.csv"))
    systems = boundary_result(gaps[:30], gaps[30:], {"topical": Topical()}, iter).systems

    assert len(gaps) == 59
    assert gaps[2].boundary
    assert gaps[2].minutes == 58.0
    assert systems["topical gates"].f1 == 1.0
    assert systems["minutes"].f1 == 1.0
    assert systems["every gap"].recall == 1.0
    assert systems["every gap"].precision < 0.4


def test_without_times_there_is_no_score_by_time(tmp_path: Path) -> None:
    gaps = gaps_of_file(labelled(tmp_path / "labels.csv", times=False))

    assert "minutes" not in boundary_result(gaps[:30], gaps[30:], {}, iter).systems


def test_a_file_without_labels_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("user,query\nu,a\n")

    with pytest.raises(InputError, match="lacks the column 'session'"):
        gaps_of_file(path)
    path.write_text("user,query,session,time\nu,a,1,yesterday\n")
    with pytest.raises(InputError, match="'yesterday' is not a time"):
        gaps_of_file(path)
