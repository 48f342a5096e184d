"""Batches of an epoch, row-wise optimisers, and processes that share a step."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._C._distributed_c10d import HashStore

from nextquery.errors import InputError
from nextquery.model.likelihood import CandidateSampler
from nextquery.training.distributed import Processes, choose_device, needs_gloo, processes
from nextquery.training.optimiser import DECAY, EPSILON, MOMENTUM, Optimiser, RMSProp, RowAdam
from nextquery.training.trainer import Feed, TrainingStep, dropout_seed, prefetched

from .conftest import random_sessions

WORDS = torch.tensor([0, 1, 2, 3])


class Table(nn.Module):
    def __init__(self, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.words = nn.Embedding(4, 3, sparse=sparse)
        self.output = nn.Linear(3, 1)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.output(torch.tanh(self.words(words))).square().sum()  # type: ignore[no-any-return]


def take_steps(module: Table, optimiser: Optimiser, steps: int, words: torch.Tensor) -> None:
    for _ in range(steps):
        optimiser.clear()
        module(words).backward()
        optimiser.clip(1.0)
        optimiser.step(0.01)


@pytest.mark.parametrize("kind", ["adam", "rmsprop", "graves"])
def test_rows_are_updated_as_the_dense_optimiser_would(kind: str) -> None:
    tables = [Table(sparse) for sparse in (False, True)]
    for table in tables:
        take_steps(table, Optimiser(table, kind, 0.01), 5, WORDS)
    for dense, by_rows in zip(tables[0].parameters(), tables[1].parameters(), strict=True):
        torch.testing.assert_close(by_rows, dense)


def test_rows_take_the_steps_of_pytorchs_sparse_adam() -> None:
    """Bit-identical: rows touched at every step, at some and at none."""
    tables = [Table(sparse=True) for _ in range(2)]
    optimisers: list[torch.optim.Optimizer] = [
        RowAdam([tables[0].words.weight], 0.01),
        torch.optim.SparseAdam([tables[1].words.weight], 0.01),
    ]
    for words in ([0, 1, 1], [1], [0, 1], [1, 2, 2, 2]):
        for table, optimiser in zip(tables, optimisers, strict=True):
            optimiser.zero_grad()
            table(torch.tensor(words)).backward()
            optimiser.step()
    ours, theirs = (table.words.weight.detach() for table in tables)
    assert ours.tolist() == theirs.tolist()
    torch.manual_seed(1)
    assert ours[3].tolist() == nn.Embedding(4, 3).weight[3].tolist()


def test_rmsprop_takes_the_steps_of_graves() -> None:
    """Eq. 38 to 41 of Graves (2013), by hand: the constant stands inside the root."""
    parameter = nn.Parameter(torch.tensor([1.0]))
    optimiser = RMSProp([parameter], 0.01, inside=True)
    expected, square, mean, velocity = 1.0, 0.0, 0.0, 0.0
    for gradient in (0.5, -0.002, 0.001, 3.0):
        parameter.grad = torch.tensor([gradient])
        optimiser.step()
        square = 0.95 * square + 0.05 * gradient**2
        mean = 0.95 * mean + 0.05 * gradient
        velocity = 0.9 * velocity - 0.01 * gradient / math.sqrt(square - mean**2 + 1e-4)
        expected += velocity
        assert float(parameter.detach()) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("kind", "ratio"), [("graves", 9.94), ("rmsprop", 1.76)])
def test_small_gradients_make_small_steps_only_with_the_constant_inside(
    kind: str, ratio: float
) -> None:
    """Gradients of .0005 and .005, whose first deviations are .00011 and .0011."""
    steps = []
    for size in (5e-4, 5e-3):
        table = Table(sparse=False)
        optimiser = Optimiser(table, kind, 1.0)
        before = table.output.bias.detach().clone()
        table.output.bias.grad = torch.tensor([size])
        optimiser.step(1.0)
        steps.append(float((before - table.output.bias).detach()))
    assert steps[1] / steps[0] == pytest.approx(ratio, abs=0.01)


def test_rmsprop_with_the_constant_outside_is_pytorchs() -> None:
    ours, theirs = Table(sparse=False), Table(sparse=False)
    optimisers: list[torch.optim.Optimizer] = [
        RMSProp(ours.parameters(), 0.01, inside=False),
        torch.optim.RMSprop(
            theirs.parameters(), 0.01, alpha=DECAY, eps=EPSILON, momentum=MOMENTUM, centered=True
        ),
    ]
    for _ in range(5):
        for table, optimiser in zip((ours, theirs), optimisers, strict=True):
            optimiser.zero_grad()
            table(WORDS).backward()
            optimiser.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", ["adam", "rmsprop", "graves"])
def test_rows_without_a_gradient_stay(kind: str) -> None:
    table = Table(sparse=True)
    before = table.words.weight.detach().clone()
    take_steps(table, Optimiser(table, kind, 0.01), 3, torch.tensor([1, 1, 2]))
    moved = (table.words.weight != before).any(dim=1)
    assert moved.tolist() == [False, True, True, False]


@pytest.mark.parametrize("sparse", [False, True])
def test_clipping_scales_the_norm_down(sparse: bool) -> None:
    table = Table(sparse)
    optimiser = Optimiser(table, "adam", 0.01)
    table(WORDS).backward()
    dense = [p.grad.to_dense() for p in table.parameters() if p.grad is not None]
    expected = float(torch.cat([gradient.flatten() for gradient in dense]).norm())
    assert optimiser.clip(1e9) == pytest.approx(expected)
    assert optimiser.clip(expected / 4) == pytest.approx(expected)
    assert optimiser.clip(1e9) == pytest.approx(expected / 4)


@pytest.mark.parametrize("kind", ["adam", "rmsprop", "graves"])
def test_a_restored_optimiser_resumes_bit_identically(kind: str) -> None:
    first, second = Table(True), Table(True)
    going = Optimiser(first, kind, 0.01)
    take_steps(first, going, 3, WORDS[:2])
    second.load_state_dict(first.state_dict())
    restored = Optimiser(second, kind, 0.01)
    restored.restore({name: tensor.clone() for name, tensor in going.tensors().items()})
    take_steps(first, going, 3, WORDS)
    take_steps(second, restored, 3, WORDS)
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


def test_batches_are_sorted_by_length_unless_asked_otherwise() -> None:
    corpus = random_sessions(200, 1)
    spread = {}
    for window in (64, 1):
        batches = Feed(corpus, 3, 60, window).epoch(0)
        spread[window] = np.mean([corpus.queries()[batch].std() for batch in batches])
        assert sorted(np.concatenate(batches)) == list(range(200))
    assert spread[64] < 0.3 * spread[1]


def test_every_epoch_has_every_session_once_in_its_own_order() -> None:
    feed = Feed(random_sessions(50, 1), 3, 40)
    epochs = [np.concatenate(feed.epoch(epoch)) for epoch in (0, 1, 0)]
    assert [sorted(order) for order in epochs] == [list(range(50))] * 3
    assert (epochs[0] == epochs[2]).all()
    assert (epochs[0] != epochs[1]).any()
    assert (epochs[0] != np.concatenate(Feed(random_sessions(50, 1), 4, 40).epoch(0))).any()


def test_an_error_in_the_input_reaches_the_loop() -> None:
    def items() -> Any:
        yield 1
        raise ValueError("broken input")

    result = prefetched(items())
    assert next(result) == 1
    with pytest.raises(ValueError, match="broken input"):
        next(result)


def feeds(processes: int, batch_words: int = 40) -> list[Feed]:
    corpus = random_sessions(30, 1)
    sampler = CandidateSampler(corpus.word_counts(), 2, 1)
    return [
        Feed(corpus, 3, batch_words, sampler=sampler, share=(rank, processes))
        for rank in range(processes)
    ]


def drawn(step: TrainingStep) -> list[int]:
    assert step.candidates is not None
    result: list[int] = step.candidates.words.tolist()
    return result


def test_a_run_resumes_anywhere_with_the_same_batches_and_candidates() -> None:
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
    for step, other in zip(one.steps(batches, 0, 1), two.steps(batches, 0, 1), strict=True):
        assert step.words == other.words
        assert drawn(step) == drawn(other)
        if step.counts and other.counts:
            assert step.batch.sessions + other.batch.sessions == len(step.members)
            assert len(step.batch.targets) + len(other.batch.targets) == step.words


def test_a_process_without_a_session_takes_part_but_does_not_count() -> None:
    lonely = [np.array([4])]
    steps = [next(feed.steps(lonely, 0, 1)) for feed in feeds(2)]
    assert [step.counts for step in steps] == [True, False]
    assert [step.batch.sessions for step in steps] == [1, 1]


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

    result = prefetched(items(), depth=3)
    assert [next(result) for _ in range(5)] == [0, 1, 2, 3, 4]
    result.close()  # type: ignore[attr-defined]
    # Five taken, three in the queue, one in the thread's hands.
    assert len(made) <= 9


NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")


def test_a_process_alone_agrees_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    module = torch.nn.Linear(2, 2)
    with processes("cpu") as alone:
        assert alone == Processes(0, 1, torch.device("cpu"))
        assert alone.leads
        assert alone.share(module) is module
        assert alone.total([1.5, 2.0]) == [1.5, 2.0]
        assert alone.agree(7) == 7
    assert not torch.distributed.is_initialized()


@pytest.fixture
def group() -> Iterator[None]:
    """A group whose only member is this process, so that the real exchange runs."""
    torch.distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_a_group_of_processes_exchanges_what_it_has() -> None:
    member = Processes(0, 2, torch.device("cpu"))  # asks the group, which has one member
    assert member.total([1.5, 2.0]) == [1.5, 2.0]
    assert member.agree(7) == 7
    shared = member.share(torch.nn.Linear(2, 2))
    assert isinstance(shared, torch.nn.parallel.DistributedDataParallel)


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(
    ("device", "sparse", "gloo"),
    [("cuda", True, True), ("cuda", False, False), ("cpu", True, False), ("cpu", False, False)],
)
def test_sparse_gradients_on_gpus_are_exchanged_by_gloo(
    device: str, sparse: bool, gloo: bool
) -> None:
    """NCCL, the default of GPUs, does not add up sparse tensors."""
    module = torch.nn.Sequential(torch.nn.Embedding(5, 2, sparse=sparse), torch.nn.Linear(2, 2))
    assert needs_gloo(module, torch.device(device)) == gloo
    shared = Processes(0, 2, torch.device(device)).share(module)
    assert isinstance(shared, torch.nn.parallel.DistributedDataParallel)
    assert (shared.process_group is not torch.distributed.group.WORLD) == gloo
    assert torch.distributed.get_backend(shared.process_group) == "gloo"
    shared(torch.tensor([1, 3])).sum().backward()
    assert module[0].weight.grad.is_sparse == sparse  # type: ignore[union-attr]


@NO_GPU
def test_a_machine_without_a_gpu() -> None:
    assert choose_device("auto") == torch.device("cpu")
    with pytest.raises(InputError, match=r"`device` cuda: this machine has 0 CUDA devices"):
        choose_device("cuda")


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(InputError, match="`device` abacus: not a device; use auto, cpu or cuda"):
        choose_device("abacus")
