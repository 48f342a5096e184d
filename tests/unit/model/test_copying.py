"""The copying decoder's attention by hand, and where there is nothing to copy."""

from math import exp

import pytest
import torch

from nextquery.model.copying import AGES, CopyAttention, Layout, pointed


def small() -> CopyAttention:
    """d_h = d_e = 1, with weights that can be followed by hand."""
    attention = CopyAttention(1, 1)
    with torch.no_grad():
        attention.query.weight.copy_(torch.tensor([[1.0, 2.0]]))
        attention.key.weight.fill_(0.5)
        attention.output.weight.fill_(3.0)
        attention.gate.weight.copy_(torch.tensor([[1.0, 0.0, -1.0]]))
        attention.gate.bias.fill_(0.25)
        attention.age[1] = 0.7
    return attention


def one_session(positions: int) -> Layout:
    """All positions are those of one session, in their order."""
    return Layout(torch.arange(positions)[None], torch.arange(positions))


def test_attention_by_hand() -> None:
    attention = small()
    memory = attention.remember(torch.tensor([[[2.0], [-1.0]]]))
    found = attention.attend(
        torch.tensor([[0.3]]),
        torch.tensor([[0.1]]),
        memory,
        torch.tensor([[[2, 1]]]),
        one_session(1),
    )
    asked = 0.3 + 2 * 0.1
    scores = [asked * 1.0 + 0.7, asked * -0.5]  # the older of the two has r_2
    weights = [exp(score) / sum(map(exp, scores)) for score in scores]
    context = 2.0 * weights[0] - weights[1]
    assert found.weights[0, 0].tolist() == pytest.approx(weights)
    assert found.output.item() == pytest.approx(3 * context)
    assert found.gate.item() == pytest.approx(0.3 - context + 0.25)


def test_where_nothing_is_earlier_nothing_is_copied() -> None:
    attention = small()
    memory = attention.remember(torch.ones(1, 2, 1))
    found = attention.attend(
        torch.ones(2, 1),
        torch.ones(2, 1),
        memory,
        torch.tensor([[[0, 0], [1, 0]]]),
        one_session(2),
    )
    assert found.weights[0].tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert found.output[0].item() == 0
    assert found.gate[0].item() == -torch.inf
    assert found.gate[1].isfinite()


def test_packed_positions_look_from_their_own_session() -> None:
    """Two sessions, the second with two positions: packed as first words, then the second."""
    torch.manual_seed(1)
    attention = CopyAttention(3, 2)
    states, decoder, previous = torch.randn(2, 4, 3), torch.randn(3, 3), torch.randn(3, 2)
    ages = torch.tensor([[[1, 1, 0, 0], [0, 0, 0, 0]], [[3, 2, 1, 0], [3, 2, 1, 0]]])
    layout = Layout(torch.tensor([[0, 0], [1, 2]]), torch.tensor([0, 2, 3]))
    found = attention.attend(decoder, previous, attention.remember(states), ages, layout)
    for position, (session, target) in enumerate([(0, 0), (1, 0), (1, 1)]):
        alone = attention.attend(
            decoder[[position]],
            previous[[position]],
            attention.remember(states[[session]]),
            ages[session, target][None, None],
            one_session(1),
        )
        torch.testing.assert_close(found.output[[position]], alone.output)
        torch.testing.assert_close(found.gate[[position]], alone.gate)
        torch.testing.assert_close(found.weights[session, target], alone.weights[0, 0])


def test_queries_far_back_count_as_equally_far() -> None:
    attention = small()
    with torch.no_grad():
        attention.age.copy_(torch.arange(AGES))
    memory = attention.remember(torch.ones(1, 2, 1))
    ages = torch.tensor([[[AGES, AGES + 5]]])
    found = attention.attend(torch.ones(1, 1), torch.ones(1, 1), memory, ages, one_session(1))
    assert found.weights[0, 0].tolist() == [0.5, 0.5]


def test_a_word_that_stands_twice_gets_both_weights() -> None:
    weights = torch.tensor([[[0.2, 0.5, 0.3]]])
    assert pointed(weights, torch.tensor([[[True, False, True]]])).item() == pytest.approx(0.5)
