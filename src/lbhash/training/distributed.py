"""Training of one model by several processes, on one machine or many.

Every batch is cut into as many slices as there are processes. A process computes the raw outputs ℓ of its own slice;
then all outputs are gathered, and every process computes the loss of the whole batch. So pairs cross processes, and
memories of the training set are whole and equal everywhere. A run of W processes with batches of b rows takes the steps
that one process with batches of W·b rows takes.

Dropout differs, whose masks a process draws by its own number; and batch normalization, whose statistics are of the
process's own slice on CPUs (the running ones are the first process's), and of the whole batch on GPUs.
"""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

if TYPE_CHECKING:
    from lightning.pytorch.strategies import DDPStrategy


def check_processes(devices: int, nodes: int) -> tuple[int, int]:
    """Return the number of devices and of machines: what torchrun started, if it did, else what was given.

    ``ValueError`` if torchrun started others.
    """
    if not (dist.is_available() and dist.is_torchelastic_launched()):
        return devices, nodes
    local, world = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
    started = (local, world // local)
    if (devices, nodes) not in ((1, 1), started):
        raise ValueError(
            f"devices is {devices} and nodes {nodes}, and torchrun started {started[0]} processes on each of "
            f"{started[1]} machines; leave both out, or give these numbers"
        )
    return started


def is_main_process() -> bool:
    """Return whether this process is the first or the only one, which writes and prints."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank() == 0
    ranks = ("RANK",) if "RANK" in os.environ else ("NODE_RANK", "LOCAL_RANK")
    return all(os.environ.get(rank, "0") == "0" for rank in ranks)


def distributed_strategy() -> DDPStrategy:
    """Return the strategy for several processes, PyTorch's ``DistributedDataParallel``.

    A guidance that replaces its host leaves parameters unused. Buffers are not sent at every step, since the largest, a
    memory of the training set, is equal everywhere.
    """
    from lightning.pytorch.strategies import DDPStrategy

    atexit.register(_leave)
    return DDPStrategy(find_unused_parameters=True, broadcast_buffers=False)


def _leave() -> None:
    """Leave the group before the interpreter ends: Gloo's threads may hold tensors then (PyTorch's PR 179291)."""
    if dist.is_initialized():
        dist.destroy_process_group()


def gather_outputs(own: Tensor, rows: int) -> Tensor:
    """Gather the outputs of the whole batch, ``[rows, bits]``, from the slices ``[m, bits]`` of all processes.

    The gradient of the slice goes back times the number of processes, since ``DistributedDataParallel`` takes the mean
    of what should be their sum.
    """
    return _Gather.apply(own)[:rows]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        slices = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(slices, own.contiguous())
        return torch.cat(slices)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        world = dist.get_world_size()
        return grad.chunk(world)[dist.get_rank()] * world


def share_buffers(module: nn.Module) -> None:
    """Copy the first process's buffers, such as running statistics of batch normalization, to all processes."""
    for buffer in module.buffers():
        dist.broadcast(buffer, 0)
