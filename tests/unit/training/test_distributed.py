"""One process is the same code with nothing to exchange; devices that are not there are refused."""

import pytest
import torch
from torch._C._distributed_c10d import HashStore

from nextquery.errors import InputError
from nextquery.training.distributed import Processes, choose_device, needs_gloo, processes

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


def test_a_group_of_processes_exchanges_what_it_has() -> None:
    """A group whose only member is this process, so that the real exchange runs."""
    torch.distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        member = Processes(0, 2, torch.device("cpu"))  # asks the group, which has one member
        assert member.total([1.5, 2.0]) == [1.5, 2.0]
        assert member.agree(7) == 7
        assert isinstance(
            member.share(torch.nn.Linear(2, 2)), torch.nn.parallel.DistributedDataParallel
        )
    finally:
        torch.distributed.destroy_process_group()


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
    torch.distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        shared = Processes(0, 2, torch.device(device)).share(module)
        assert isinstance(shared, torch.nn.parallel.DistributedDataParallel)
        whole = torch.distributed.group.WORLD
        assert (shared.process_group is not whole) == gloo
        assert torch.distributed.get_backend(shared.process_group) == "gloo"
        shared(torch.tensor([1, 3])).sum().backward()
        assert module[0].weight.grad.is_sparse == sparse  # type: ignore[union-attr]
    finally:
        torch.distributed.destroy_process_group()


def test_others_do_not_lead() -> None:
    assert not Processes(1, 2, torch.device("cpu")).leads


@NO_GPU
def test_a_machine_without_a_gpu() -> None:
    assert choose_device("auto") == torch.device("cpu")
    with pytest.raises(InputError, match=r"`device` cuda: this machine has 0 CUDA devices"):
        choose_device("cuda")


def test_what_is_no_device_is_refused() -> None:
    with pytest.raises(InputError, match="`device` abacus: not a device; use auto, cpu or cuda"):
        choose_device("abacus")
