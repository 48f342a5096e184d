"""The parts of HRED by hand: recurrence, copying attention, loss and candidate sampling."""

from math import e, exp, log, tanh

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nextquery.model import recurrence
from nextquery.model.likelihood import CandidateSampler, _softmax, log_likelihood
from nextquery.model.recurrence import (
    GRU,
    Linear,
    PackedMatrix,
    _Packed,
    round_size,
    times_transposed,
    transposed_times,
)
from nextquery.model.settings import AGES
from nextquery.model.stored import CopyAttention, Layout


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def test_a_step_by_hand() -> None:
    gru = GRU(1)
    with torch.no_grad():
        gru.gates.copy_(torch.tensor([[0.5], [-1.0]]))  # H_r, H_u
        gru.candidate.fill_(2.0)  # H
    state, update = gru.step(torch.tensor([[0.1, 0.2, 0.3]]), torch.tensor([[0.4]]))
    r, u = sigmoid(0.1 + 0.5 * 0.4), sigmoid(0.2 - 1.0 * 0.4)
    candidate = tanh(0.3 + 2.0 * r * 0.4)  # the reset gate acts before the product
    assert update.item() == pytest.approx(u)
    assert state.item() == pytest.approx((1 - u) * 0.4 + u * candidate)


@pytest.mark.parametrize("biases", [False, True])
def test_packed_sequences_are_the_same_steps(biases: bool) -> None:
    torch.manual_seed(1)
    gru = GRU(3, biases)
    if gru.bias is not None:
        torch.nn.init.normal_(gru.bias)
    lengths, start = (3, 2, 2, 1), torch.randn(4, 3)
    inputs = [torch.randn(length, 9) for length in lengths]
    sizes = [sum(length > step for length in lengths) for step in range(3)]  # 4, 3, 1
    packed = torch.cat([inputs[i][[s]] for s in range(3) for i in range(4) if lengths[i] > s])
    states = gru.run(packed, sizes, start)

    position = 0
    current = [start[[i]] for i in range(4)]
    for step, size in enumerate(sizes):
        for i in range(size):
            current[i], _ = gru.step(inputs[i][[step]], current[i])
            torch.testing.assert_close(states[[position]], current[i])
            position += 1
    assert position == len(states) == 8


def test_the_gradient_is_that_of_finite_differences() -> None:
    torch.manual_seed(2)
    gru = GRU(2).double()
    inputs = torch.randn(6, 6, dtype=torch.double, requires_grad=True)
    start = torch.randn(3, 2, dtype=torch.double, requires_grad=True)

    def run(*tensors: Tensor) -> Tensor:
        states: Tensor = _Packed.apply(*tensors, (3, 2, 1))  # type: ignore[no-untyped-call]
        return states

    assert torch.autograd.gradcheck(run, (inputs, start, gru.gates, gru.candidate))


def test_a_sequence_without_a_step_has_no_gradient() -> None:
    gru = GRU(2)
    start = torch.randn(3, 2, requires_grad=True)
    torch.autograd.backward(gru.run(torch.randn(3, 6), (2, 1), start).sum())
    assert start.grad is not None
    assert start.grad[2].tolist() == [0.0, 0.0]
    assert (start.grad[:2] != 0).all()


# Large enough for oneDNN, and no round numbers.
ROWS, COLUMNS, INNER = 211, 613, 531


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(3)


def _near(actual: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(actual.double(), right, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("rows", [3, ROWS])
def test_a_product_with_a_transposed_matrix(rows: int) -> None:
    left, right, bias = torch.randn(rows, INNER), torch.randn(COLUMNS, INNER), torch.randn(COLUMNS)
    exact = left.double() @ right.double().t()
    _near(times_transposed(left, right), exact)
    _near(times_transposed(left, right, bias), exact + bias)


@pytest.mark.parametrize("columns", [71, COLUMNS])
@pytest.mark.parametrize("inner", [5, 1003])
def test_a_product_of_a_transposed_matrix(columns: int, inner: int) -> None:
    left, right = torch.randn(inner, COLUMNS), torch.randn(inner, columns)
    result = transposed_times(left, right)
    assert result.is_contiguous(), "an optimiser would take the slow way"
    _near(result, left.double().t() @ right.double())


@pytest.mark.parametrize("rows", [1, 7, 40, ROWS])
def test_a_packed_matrix_multiplies_any_number_of_rows(rows: int) -> None:
    matrix, left, addend = (
        torch.randn(COLUMNS, INNER),
        torch.randn(rows, INNER),
        torch.randn(rows, 1),
    )
    packed, exact = PackedMatrix(matrix, 100), left.double() @ matrix.double().t()
    _near(packed.product(left), exact)
    out = torch.empty(rows, COLUMNS)
    assert packed.add_product(addend.expand(-1, COLUMNS), left, out=out) is out
    _near(out, exact + addend)


def test_other_numbers_are_left_to_pytorch() -> None:
    left, right = torch.randn(ROWS, INNER).double(), torch.randn(COLUMNS, INNER).double()
    assert torch.equal(times_transposed(left, right), left @ right.t())
    assert torch.equal(PackedMatrix(right, 9).product(left), left @ right.t())


def test_without_onednn_everything_is_pytorchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrence, "_HAS_ONEDNN", False)
    left, right = torch.randn(ROWS, INNER), torch.randn(COLUMNS, INNER)
    assert torch.equal(times_transposed(left, right), left @ right.t())
    assert torch.equal(PackedMatrix(right, 9).product(left), left @ right.t())
    assert torch.equal(transposed_times(left, left), left.t() @ left)


@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_is_the_layer_of_pytorch(bias: bool) -> None:
    ours = Linear(INNER, COLUMNS, bias=bias)
    plain = nn.Linear(INNER, COLUMNS, bias=bias).double()
    plain.load_state_dict(ours.state_dict())
    inputs = torch.randn(2, ROWS, INNER)
    results = []
    for layer, layer_inputs in ((ours, inputs.clone()), (plain, inputs.double())):
        layer_inputs.requires_grad_()
        result = layer(layer_inputs)
        (result * result.detach().cos()).sum().backward()
        assert layer_inputs.grad is not None
        results.append([result, layer_inputs.grad, *(item.grad for item in layer.parameters())])
    for result, right in zip(*results, strict=True):
        torch.testing.assert_close(result.double(), right, rtol=1e-4, atol=1e-3)


def test_the_sizes_are_few_and_waste_little() -> None:
    sizes = {round_size(size) for size in range(1, 2000)}
    assert len(sizes) < 60
    assert all(size <= round_size(size) <= 2 * size for size in range(1, 2000))
    assert all(round_size(size) <= 1.25 * size for size in range(112, 2000))


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
    result = attention.attend(
        torch.tensor([[0.3]]),
        torch.tensor([[0.1]]),
        torch.tensor([[[2.0], [-1.0]]]),
        torch.tensor([[[2, 1]]]),
        one_session(1),
    )
    asked = 0.3 + 2 * 0.1
    scores = [asked * 1.0 + 0.7, asked * -0.5]  # the older of the two has r_2
    weights = [exp(score) / sum(map(exp, scores)) for score in scores]
    context = 2.0 * weights[0] - weights[1]
    assert result.weights[0, 0].tolist() == pytest.approx(weights)
    assert result.output.item() == pytest.approx(3 * context)
    assert result.gate.item() == pytest.approx(0.3 - context + 0.25)


def test_where_nothing_is_earlier_nothing_is_copied() -> None:
    attention = small()
    ages = torch.tensor([[[0, 0], [1, 0]]])
    result = attention.attend(
        torch.ones(2, 1), torch.ones(2, 1), torch.ones(1, 2, 1), ages, one_session(2)
    )
    assert result.weights[0].tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert result.output[0].item() == 0
    assert result.gate[0].item() == -torch.inf
    assert result.gate[1].isfinite()


def test_packed_positions_look_from_their_own_session() -> None:
    """Two sessions, the second with two positions: packed as first words, then the second."""
    torch.manual_seed(1)
    attention = CopyAttention(3, 2)
    states, decoder, previous = torch.randn(2, 4, 3), torch.randn(3, 3), torch.randn(3, 2)
    ages = torch.tensor([[[1, 1, 0, 0], [0, 0, 0, 0]], [[3, 2, 1, 0], [3, 2, 1, 0]]])
    layout = Layout(torch.tensor([[0, 0], [1, 2]]), torch.tensor([0, 2, 3]))
    result = attention.attend(decoder, previous, states, ages, layout)
    for position, (session, target) in enumerate([(0, 0), (1, 0), (1, 1)]):
        alone = attention.attend(
            decoder[[position]],
            previous[[position]],
            states[[session]],
            ages[session, target][None, None],
            one_session(1),
        )
        torch.testing.assert_close(result.output[[position]], alone.output)
        torch.testing.assert_close(result.gate[[position]], alone.gate)
        torch.testing.assert_close(result.weights[session, target], alone.weights[0, 0])


def test_queries_far_back_count_as_equally_far() -> None:
    attention = small()
    with torch.no_grad():
        attention.age.copy_(torch.arange(AGES))
    ages = torch.tensor([[[AGES, AGES + 5]]])
    one, sources = torch.ones(1, 1), torch.ones(1, 2, 1)
    result = attention.attend(one, one, sources, ages, one_session(1))
    assert result.weights[0, 0].tolist() == [0.5, 0.5]


VECTORS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])


def test_a_likelihood_by_hand() -> None:
    total, rows = log_likelihood(
        torch.tensor([[1.0, 0.0], [0.0, 2.0]]),  # scores 1 0 0 and 0 2 0
        VECTORS,
        torch.tensor([0.0, 0.0, 1.0]),  # and the third word's bias of 1
        torch.tensor([0, 1]),
        None,
        8,
    )
    expected = [1 - log(e + 1 + e), 2 - log(1 + e**2 + e)]
    assert rows.tolist() == pytest.approx(expected)
    assert total.item() == pytest.approx(sum(expected))


def test_a_word_that_is_never_predicted_takes_no_probability() -> None:
    bias = torch.tensor([0.0, 0.0, -torch.inf])
    _, rows = log_likelihood(torch.tensor([[1.0, 0.0]]), VECTORS, bias, torch.tensor([0]), None, 8)
    assert rows.item() == pytest.approx(1 - log(e + 1))


def test_copying_adds_its_share() -> None:
    omega, bias = torch.zeros(2, 2), torch.zeros(3)  # each word has 1/3
    rival = torch.tensor([log(0.5), log(0.5)])
    _, rows = log_likelihood(omega, VECTORS, bias, torch.tensor([1, -1]), rival, 8)
    assert rows.tolist() == pytest.approx([log(1 / 3 + 0.5), log(0.5)])


@pytest.mark.parametrize("with_rival", [False, True])
def test_value_and_gradient_do_not_depend_on_the_chunk(with_rival: bool) -> None:
    torch.manual_seed(1)
    tensors = [torch.randn(7, 4), torch.randn(5, 4), torch.randn(5)]
    rival = torch.randn(7) if with_rival else None
    targets = torch.tensor([0, 1, 2, 3, 4, 0, -1 if with_rival else 1])

    def slopes(chunk: int | None) -> list[torch.Tensor]:
        omega, vectors, bias = (tensor.clone().requires_grad_() for tensor in tensors)
        more = None if rival is None else rival.clone().requires_grad_()
        if chunk is None:  # by PyTorch's own means, whole
            scores = (omega @ vectors.t() + bias).log_softmax(1)
            rows = scores.gather(1, targets.clamp(min=0)[:, None]).squeeze(1)
            rows = rows.masked_fill(targets < 0, -torch.inf)
            total = (rows if more is None else torch.logaddexp(rows, more)).sum()
        else:
            total, _ = log_likelihood(omega, vectors, bias, targets, more, chunk)
        torch.autograd.backward(3 * total)
        return [total, *(t.grad for t in (omega, vectors, bias, more) if t is not None)]  # type: ignore[list-item]

    expected = slopes(None)
    assert len(expected) == 4 + with_rival
    for chunk in (1, 3, 100):
        torch.testing.assert_close(slopes(chunk), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("candidates", [1, 7, 2432, 90_003])
def test_shares_computed_in_place_are_those_of_softmax(candidates: int) -> None:
    torch.manual_seed(1)
    omega, vectors = torch.randn(3, 4), torch.randn(candidates, 4)
    bias = torch.zeros(candidates)
    bias[candidates // 2] = 200.0  # the others' p does not fit 32 bits
    log_p, shares = _softmax(omega, vectors, bias, torch.zeros(3, dtype=torch.int64))
    expected = (omega @ vectors.t() + bias).double().log_softmax(dim=1)
    torch.testing.assert_close(shares.double(), expected.exp(), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(log_p.double(), expected[:, 0], atol=1e-4, rtol=1e-5)


COUNTS = np.array([9, 256, 16, 16, 1, 0, 1])  # the first is padding, whatever its count


def test_words_are_drawn_by_their_damped_frequency() -> None:
    sampler = CandidateSampler(COUNTS, 0, 1)
    weights = np.array([0, 64, 8, 8, 1, 1, 1])  # counts of at least 1, to the power of 3/4
    np.testing.assert_allclose(sampler.frequency, weights / weights.sum())


def test_the_most_frequent_and_the_targets_are_counted_exactly() -> None:
    sampler = CandidateSampler(COUNTS, 3, 1)
    result = sampler.draw(np.array([4, 4, 1]), np.random.default_rng(1))
    exact = result.words[result.correction == 0].tolist()
    assert {1, 2, 4} <= set(exact)  # the head without padding, and the target 4
    assert result.words.tolist() == sorted(set(result.words.tolist()))
    assert 0 not in result.words
    np.testing.assert_array_equal(result.words[result.index(np.array([4, 1]))], [4, 1])


def test_a_drawn_word_represents_similar_words() -> None:
    sampler = CandidateSampler(COUNTS, 2, 50)  # padding and word 1 lead: word 1 is the head
    result = sampler.draw(np.array([2, 3]), np.random.default_rng(1))
    # 4, 5 and 6 are left, alike: the weights of those drawn sum to three words.
    drawn = ~np.isin(result.words, [1, 2, 3])
    assert np.exp(result.correction[drawn]).sum() == pytest.approx(3.0)


def test_the_estimate_has_no_bias() -> None:
    rng = np.random.default_rng(5)
    counts = np.array([0, *rng.integers(1, 200, 30)])
    value = np.concatenate([[0.0], rng.random(30)])  # what each word adds to the normaliser
    sampler = CandidateSampler(counts, 4, 40)
    sums = []
    for _ in range(3000):
        result = sampler.draw(np.array([7]), rng)
        sums.append((np.exp(result.correction) * value[result.words]).sum())
    error = np.std(sums) / np.sqrt(len(sums))
    assert error < 0.02 * value.sum()
    assert abs(np.mean(sums) - value.sum()) < 4 * error
