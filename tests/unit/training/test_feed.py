"""The batches of an epoch: every session once, the same from anywhere, shared among processes."""

from typing import Any

import numpy as np
import pytest

from nextquery.model.loss import CandidateSampler
from nextquery.training.feed import Feed, Order, TrainingStep, ahead, dropout_seed

from .conftest import random_sessions


def test_batches_are_sorted_by_length_unless_asked_otherwise() -> None:
    corpus = random_sessions(200, 1)
    spread = {}
    for window in (64, 1):
        batches = Feed(corpus, Order(3, 60, window)).epoch(0)
        spread[window] = np.mean([corpus.queries()[batch].std() for batch in batches])
        assert sorted(np.concatenate(batches)) == list(range(200))
    assert spread[64] < 0.3 * spread[1]


def test_every_epoch_has_every_session_once_in_its_own_order() -> None:
    feed = Feed(random_sessions(50, 1), Order(3, 40))
    epochs = [np.concatenate(feed.epoch(epoch)) for epoch in (0, 1, 0)]
    assert [sorted(order) for order in epochs] == [list(range(50))] * 3
    assert (epochs[0] == epochs[2]).all()
    assert (epochs[0] != epochs[1]).any()
    assert (epochs[0] != np.concatenate(Feed(random_sessions(50, 1), Order(4, 40)).epoch(0))).any()


def test_an_error_in_the_input_reaches_the_loop() -> None:
    def items() -> Any:
        yield 1
        raise ValueError("broken input")

    found = ahead(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match="broken input"):
        next(found)


def feeds(processes: int, batch_words: int = 40) -> list[Feed]:
    corpus = random_sessions(30, 1)
    sampler = CandidateSampler(corpus.word_counts(), 2, 1)
    return [
        Feed(corpus, Order(3, batch_words), sampler, (rank, processes)) for rank in range(processes)
    ]


def drawn(step: TrainingStep) -> list[int]:
    assert step.candidates is not None
    found: list[int] = step.candidates.words.tolist()
    return found


def test_a_run_goes_on_anywhere_with_the_same_batches_and_candidates() -> None:
    feed = feeds(1, batch_words=8)[0]
    batches = feed.epoch(0)
    whole = list(feed.steps(batches, 0, 1))
    rest = list(feed.steps(batches, 2, 3))
    assert len(whole) == len(batches) > 4
    assert [step.members.tolist() for step in rest] == [b.tolist() for b in batches[2:]]
    assert [drawn(step) for step in rest] == [drawn(step) for step in whole[2:]]
    assert len({str(drawn(step)) for step in whole}) > 1


def test_processes_share_a_batch_and_sum_over_the_same_words() -> None:
    one, two = feeds(2)
    batches = one.epoch(0)
    assert [b.tolist() for b in batches] == [b.tolist() for b in two.epoch(0)]
    for mine, other in zip(one.steps(batches, 0, 1), two.steps(batches, 0, 1), strict=True):
        assert mine.words == other.words
        assert drawn(mine) == drawn(other)
        if mine.counts and other.counts:
            assert mine.batch.sessions + other.batch.sessions == len(mine.members)
            assert len(mine.batch.targets) + len(other.batch.targets) == mine.words


def test_a_process_without_a_session_takes_part_but_does_not_count() -> None:
    lonely = [np.array([4])]
    steps = [next(feed.steps(lonely, 0, 1)) for feed in feeds(2)]
    assert [step.counts for step in steps] == [True, False]
    assert [step.batch.sessions for step in steps] == [1, 1]


def test_sessions_are_named_as_in_the_data() -> None:
    assert feeds(1)[0].ids(np.array([3, 0])) == [103, 100]


def test_no_two_steps_or_processes_drop_the_same() -> None:
    seeds = {
        dropout_seed(seed, step, rank) for seed in (1, 2) for step in (1, 2) for rank in (0, 1)
    }
    assert len(seeds) == 8
    assert dropout_seed(1, 2, 0) == dropout_seed(1, 2, 0)


def test_only_a_few_items_are_made_ahead() -> None:
    made: list[int] = []

    def items() -> Any:
        for number in range(1000):
            made.append(number)
            yield number

    found = ahead(items(), depth=3)
    assert [next(found) for _ in range(5)] == [0, 1, 2, 3, 4]
    found.close()  # type: ignore[attr-defined]
    # Five taken, three in the queue, one in the thread's hands.
    assert len(made) <= 9
