"""The compiled steps against PyTorch's in double precision, for every instruction set."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from nextquery.inference.native import native_library
from nextquery.model import recurrence
from nextquery.model.recurrence import RecurrenceKernels, Steps, recurrence_kernels

SETS = ("baseline", "avx2", "avx512")
SHAPES = {
    "one number": (1, (1,), 1),
    "not whole vectors": (21, (9, 9, 4, 1), 11),
    "several tiles": (64, (40, 33, 20, 7, 2, 1), 40),
    "no step": (8, (), 3),
}


@pytest.fixture
def kernels() -> RecurrenceKernels:
    found = recurrence_kernels()
    if found is None:
        pytest.skip("nextquery-native is not installed (scripts/native)")
    return found


@pytest.fixture(params=SETS)
def each_set(request: pytest.FixtureRequest) -> Iterator[str]:
    library = native_library()
    if library is None or not library.use(request.param):
        pytest.skip(f"no kernels for {request.param}")
    yield request.param
    library.use(None)


def made_up(d: int, sizes: tuple[int, ...], sequences: int) -> tuple[Tensor, ...]:
    """Inputs, first states, both matrices, and a gradient of the states."""
    torch.manual_seed(1)
    shapes = ((sum(sizes), 3 * d), (sequences, d), (2 * d, d), (d, d), (sum(sizes), d))
    return tuple(torch.randn(shape, dtype=torch.double) for shape in shapes)


@pytest.mark.usefixtures("each_set")
@pytest.mark.parametrize("shape", SHAPES)
def test_steps_and_gradients_are_those_of_pytorch(kernels: RecurrenceKernels, shape: str) -> None:
    d, sizes, sequences = SHAPES[shape]
    numbers = made_up(d, sizes, sequences)
    inputs, start, *matrices, slopes = numbers
    pair = matrices[0] / d**0.5, matrices[1] / d**0.5
    expected = recurrence._forward(inputs, start, pair, sizes)
    gradients = recurrence._backward(slopes, Steps(*expected[:4]), pair, sizes, sequences)

    single = (pair[0].float(), pair[1].float())
    found = kernels.forward(inputs.float(), start.float(), single, sizes)
    back = kernels.backward(slopes.float(), Steps(*found[:4]), single, sizes, sequences)
    for ours, theirs in zip((*found, *back), (*expected, *gradients), strict=True):
        torch.testing.assert_close(ours.double(), theirs, atol=2e-5, rtol=1e-5)


def test_threads_change_no_bit(kernels: RecurrenceKernels, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, start, gates, candidate, slopes = (each.float() for each in made_up(24, (9, 7, 2), 9))
    results = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        made = kernels.forward(inputs, start, (gates, candidate), (9, 7, 2))
        back = kernels.backward(slopes, Steps(*made[:4]), (gates, candidate), (9, 7, 2), 9)
        results.append([each.tolist() for each in (*made, *back)])
    assert results[0] == results[1] == results[2]


def test_a_model_takes_them_if_its_numbers_suit(kernels: RecurrenceKernels) -> None:
    assert recurrence._kernels(torch.zeros(1)) is kernels
    assert recurrence._kernels(torch.zeros(1, dtype=torch.double)) is None
    assert recurrence._kernels(torch.zeros(1, device="meta")) is None


@pytest.mark.parametrize(
    "package",
    [
        ImportError("no such package"),
        SimpleNamespace(library_path=lambda: "/no/such/file"),
        SimpleNamespace(library_path=lambda: "libc.so.6"),  # a library without these functions
    ],
)
def test_without_the_package_there_are_none(
    package: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> object:
        assert name == "nextquery_native"
        if isinstance(package, ImportError):
            raise package
        return package

    monkeypatch.setattr(recurrence, "import_module", find)
    recurrence_kernels.cache_clear()
    assert recurrence_kernels() is None
    recurrence_kernels.cache_clear()


def test_kernels_of_another_version_are_left_alone(
    kernels: RecurrenceKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrence, "ABI", kernels.abi() + 1)
    recurrence_kernels.cache_clear()
    assert recurrence_kernels() is None
    recurrence_kernels.cache_clear()


def test_a_matrix_that_must_be_copied_is_read_before_the_copy_is_freed(
    kernels: RecurrenceKernels,
) -> None:
    """Freed memory is written to at once: the allocator puts its lists there."""
    matrix = torch.randn(16, 16).t()
    assert not matrix.is_contiguous()
    assert torch.equal(kernels._packed(matrix), kernels._packed(matrix.clone().contiguous()))
    packed = kernels._packed_transpose(matrix)
    assert torch.equal(packed, kernels._packed_transpose(matrix.clone().contiguous()))
