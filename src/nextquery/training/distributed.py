"""Several processes that train one model.

One process is the same code with nothing to exchange. CUDA is used when it is there; that branch
(device choice, NCCL or Gloo for CUDA) is the only one that a machine without a GPU cannot run.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from nextquery.errors import InputError, TrainingError

_LOST = re.compile(r"gloo/|connection (closed|reset|refused)|broken pipe", re.IGNORECASE)
"""What Gloo's errors, which have no class, say when another process has ended."""


@dataclass(frozen=True)
class Processes:
    """This process among those that train together."""

    rank: int
    count: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this process reports and writes."""
        return self.rank == 0

    def share(self, module: nn.Module) -> nn.Module:
        """The module with gradients averaged over all processes."""
        if self.count == 1:
            return module
        group = distributed.new_group(backend="gloo") if needs_gloo(module, self.device) else None
        # The buffers are constants.
        return DistributedDataParallel(module, process_group=group, forward_sync_buffers=False)

    def total(self, values: list[float]) -> list[float]:
        """Each value summed over all processes."""
        if self.count == 1:
            return values
        summed = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(summed)
        return [float(value) for value in summed]

    def agree(self, value: int) -> int:
        """The leading process's value, on every process; waits until every process is here."""
        if self.count == 1:
            return value
        agreed = torch.tensor(value, device=self.device)
        distributed.broadcast(agreed, src=0)
        return int(agreed)


@contextmanager
def processes(device: str) -> Iterator[Processes]:
    """Join the processes that `torchrun` started, or be the only one."""
    chosen = choose_device(device)
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes(0, 1, chosen)
        return
    rank = int(os.environ.get("RANK", "0"))
    try:
        # Fails, too, when another process has ended by now.
        distributed.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
        yield Processes(rank, count, chosen)
    except RuntimeError as error:
        if not isinstance(error, distributed.DistError) and not _LOST.search(str(error)):
            raise
        raise TrainingError(
            f"process {rank} of {count} (counted from 0): another process has ended; its own "
            "message says why"
        ) from error
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()


def needs_gloo(module: nn.Module, device: torch.device) -> bool:
    """Whether gradients cannot be exchanged by NCCL: it does not add up sparse ones.

    Dense gradients of word vectors would train differently: the optimisers change only the rows
    that a sparse gradient has.
    """
    sparse = any(isinstance(part, nn.Embedding) and part.sparse for part in module.modules())
    return device.type == "cuda" and sparse


def choose_device(name: str) -> torch.device:
    """The device of a `device` value; `auto` takes a GPU if there is one."""
    gpus = torch.cuda.device_count()
    if name == "auto":
        name = "cuda" if gpus else "cpu"
    if name == "cuda" and gpus:
        chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % gpus)
        torch.cuda.set_device(chosen)
        return chosen
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"`device` {name}: not a device; use auto, cpu or cuda") from None
    if device.type == "cuda" and (device.index or 0) >= gpus:
        raise InputError(f"`device` {name}: this machine has {gpus} CUDA devices; use `device=cpu`")
    return device
