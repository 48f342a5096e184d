"""Row-wise updates equal dense ones where every row is touched; clipping; states that return."""

import math

import pytest
import torch
from torch import nn

from nextquery.training.optimiser import DECAY, EPSILON, MOMENTUM, Optimiser, RMSProp, RowAdam

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
    """To the bit: rows touched at every step, at some and at none."""
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
def test_a_restored_optimiser_goes_on_bit_for_bit(kind: str) -> None:
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
