"""Both output layers against log-softmax and a flat top-k."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from nextquery.inference.kernels.memory import page_out
from nextquery.inference.kernels.output_layer import BLOCK, ExactOutput, FastOutput
from nextquery.inference.kernels.packed_matrix import PackedMatrix, QuantisedMatrix
from nextquery.text.vocabulary import PADDING

WORDS, SIZE, ROWS = 5_000, 32, 7


@pytest.fixture
def numbers() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    return torch.randn(WORDS, SIZE), torch.randn(ROWS, SIZE), -3 * torch.rand(ROWS)


def embedding(matrix: torch.Tensor) -> torch.nn.Embedding:
    words, size = matrix.shape
    return torch.nn.Embedding(words, size, _weight=matrix).requires_grad_(False)


def reference(matrix: torch.Tensor, omega: torch.Tensor) -> torch.Tensor:
    logits = omega @ matrix.t()
    logits[:, PADDING] = -torch.inf
    return logits.log_softmax(dim=1)


@pytest.mark.parametrize("count", [1, 20, BLOCK * 3])
def test_exact_equals_a_flat_top_k(
    numbers: tuple[torch.Tensor, torch.Tensor, torch.Tensor], count: int
) -> None:
    matrix, omega, before = numbers
    total = (reference(matrix, omega)[2:6] + before[2:6, None]).flatten()
    values, places = total.topk(count)
    best = ExactOutput(embedding(matrix)).scores(omega).best(slice(2, 6), before[2:6], count)
    assert (best.rows * WORDS + best.words).tolist() == places.tolist()
    torch.testing.assert_close(best.totals, values)
    assert best.rest == pytest.approx(float(values[-1]), abs=1e-5)


def test_listing_all_words_leaves_no_rest(
    numbers: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> None:
    matrix, omega, before = numbers
    for layer in (ExactOutput, FastOutput):
        best = layer(embedding(matrix)).scores(omega).best(slice(0, ROWS), before, ROWS * WORDS * 2)
        assert best.rest == -torch.inf
        assert len(best.words) == ROWS * (WORDS - 1)


def test_fast_finds_the_same_words_with_nearly_the_same_scores(
    numbers: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> None:
    matrix, omega, before = numbers
    exact = ExactOutput(embedding(matrix)).scores(omega).best(slice(0, ROWS), before, 30)
    fast = FastOutput(embedding(matrix)).scores(omega).best(slice(0, ROWS), before, 30)
    assert fast.words[:20].tolist() == exact.words[:20].tolist()
    torch.testing.assert_close(fast.totals, exact.totals, rtol=0, atol=0.01)


def test_fast_would_be_wrong_without_the_correction(
    numbers: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> None:
    matrix, omega, _ = numbers
    words = torch.arange(1, 20)[None].expand(ROWS, -1)
    right = reference(matrix, omega)[:, 1:20]
    rough = QuantisedMatrix([matrix], torch.zeros(WORDS)).product(omega)
    rough[:, PADDING] = -torch.inf
    uncorrected = rough.log_softmax(dim=1)[:, 1:20]
    fast = FastOutput(embedding(matrix)).scores(omega).of(words)
    assert (fast - right).abs().max() < 0.3 * (uncorrected - right).abs().max()


def test_both_give_the_scores_of_given_words(
    numbers: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> None:
    matrix, omega, _ = numbers
    words = torch.randint(1, WORDS, (ROWS, 9))
    expected = reference(matrix, omega).gather(1, words)
    torch.testing.assert_close(ExactOutput(embedding(matrix)).scores(omega).of(words), expected)
    fast = FastOutput(embedding(matrix)).scores(omega).of(words)
    torch.testing.assert_close(fast, expected, rtol=0, atol=0.01)


def test_biases_of_words_are_added_by_both(
    numbers: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> None:
    matrix, omega, before = numbers
    bias = 2 * torch.randn(WORDS)
    logits = omega @ matrix.t() + bias
    logits[:, PADDING] = -torch.inf
    expected = logits.log_softmax(dim=1)
    words = torch.randint(1, WORDS, (ROWS, 9))
    best = (expected + before[:, None]).flatten().topk(5).indices % WORDS
    for layer, within in ((ExactOutput, 1e-4), (FastOutput, 0.01)):
        scores = layer(embedding(matrix), bias).scores(omega)
        found = scores.of(words)
        torch.testing.assert_close(found, expected.gather(1, words), rtol=0, atol=within)
        assert scores.best(slice(0, ROWS), before, 5).words.tolist() == best.tolist()


def test_without_onednn_the_products_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    matrix, rows, bias = torch.randn(128, 16), torch.randn(5, 16), torch.randn(128)
    with_onednn = [
        PackedMatrix(matrix, bias).product(rows),
        QuantisedMatrix(torch.split(matrix, 50), bias).product(rows),
    ]
    monkeypatch.setattr("nextquery.inference.kernels.packed_matrix._has_onednn", lambda: False)
    without = [
        PackedMatrix(matrix, bias).product(rows),
        QuantisedMatrix(torch.split(matrix, 50), bias).product(rows),
    ]
    for one, other in zip(with_onednn, without, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_pages_given_back_come_back_unchanged(tmp_path: Path) -> None:
    """Both kinds of memory: a mapped file, and a tensor that has no file."""
    numbers = torch.randn(1 << 16)
    save_file({"numbers": numbers}, tmp_path / "numbers.safetensors")
    mapped = load_file(tmp_path / "numbers.safetensors")["numbers"]
    for tensor in (mapped, numbers.clone()):
        page_out(tensor)
        torch.testing.assert_close(tensor, numbers, rtol=0, atol=0)


@pytest.mark.parametrize("blocks_a_piece", [1, 7, 50])
def test_packing_in_pieces_changes_no_score(
    numbers: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    blocks_a_piece: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matrix, omega, _ = numbers
    monkeypatch.setattr("nextquery.inference.kernels.output_layer._BLOCKS_A_PIECE", blocks_a_piece)
    words = torch.arange(1, WORDS)[None].expand(ROWS, -1)
    layer = ExactOutput(embedding(matrix))
    first, again = layer.scores(omega), layer.scores(omega.flip(0))  # one while the other is used
    expected = reference(matrix, omega)[:, 1:]
    torch.testing.assert_close(first.of(words), expected)
    torch.testing.assert_close(again.of(words), expected.flip(0))
