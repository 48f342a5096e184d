"""Buffers that are used again, and pages that the system may take."""

import torch

from nextquery.inference.kernels.memory import BufferPool, own_pages, page_out


class Borrower:
    pass


def test_a_buffer_is_used_again_only_when_its_borrower_is_gone() -> None:
    pool, one, other = BufferPool(), Borrower(), Borrower()
    first, second = pool.take(10), None
    pool.lend(first, one)
    second = pool.take(10)
    pool.lend(second, other)
    assert first.data_ptr() != second.data_ptr()
    del one
    assert pool.take(8).data_ptr() == first.data_ptr()


def test_own_pages_are_zeros_that_can_be_written() -> None:
    numbers = own_pages(5000)
    assert numbers.dtype == torch.float32
    assert numbers.shape == (5000,)
    assert not numbers.any()
    numbers[-1] = 2.0
    assert float(numbers.sum()) == 2.0


def test_paging_out_loses_no_number() -> None:
    numbers = torch.arange(100_000, dtype=torch.float32)
    page_out(numbers)
    assert torch.equal(numbers, torch.arange(100_000, dtype=torch.float32))


def test_a_tensor_smaller_than_a_page_is_left_alone() -> None:
    assert page_out(torch.zeros(3)) is False
