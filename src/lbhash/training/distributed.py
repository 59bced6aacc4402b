"""Training of one model by the processes that torchrun has started, on one machine or many.

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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

T = TypeVar("T")

_TIMEOUT = timedelta(minutes=30)
"""The others wait so long while the first process evaluates an epoch."""


@dataclass(frozen=True)
class Place:
    """A process among those that train: its number from 0, how many there are, and its device."""

    device: torch.device
    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether it is the one that writes and prints."""
        return self.rank == 0

    @property
    def several(self) -> bool:
        """Whether it is not the only one."""
        return self.world > 1


def from_torchrun(name: str, alone: int) -> int:
    """Return a number that torchrun tells this process by a variable of the environment; ``alone`` without torchrun."""
    started = dist.is_available() and dist.is_torchelastic_launched()
    return int(os.environ[name]) if started else alone


def is_main_process() -> bool:
    """Return whether this process is the first or the only one, which writes and prints."""
    return from_torchrun("RANK", 0) == 0


@contextmanager
def processes(device: torch.device) -> Iterator[Place]:
    """Be one of the processes that torchrun has started, or the only one, until the block ends."""
    world = from_torchrun("WORLD_SIZE", 1)
    if world == 1:
        yield Place(device)
        return
    gpu = device if device.type == "cuda" else None
    if gpu is not None:
        torch.cuda.set_device(gpu)
    if not dist.is_initialized():
        atexit.register(_leave)
        dist.init_process_group("gloo" if gpu is None else "nccl", timeout=_TIMEOUT, device_id=gpu)
    yield Place(device, dist.get_rank(), world)


def _leave() -> None:
    """Leave the group before the interpreter ends: Gloo's threads may hold tensors then (PyTorch's PR 179291)."""
    if dist.is_initialized():
        dist.destroy_process_group()


def parallel(module: nn.Module, place: Place) -> nn.Module:
    """Return the module as several processes train it: its buffers are the first one's, and gradients are averaged.

    A guidance that replaces its host leaves parameters unused. Buffers are not sent at every step, since the largest, a
    memory of the training set, is equal everywhere.
    """
    if not place.several:
        return module
    share_buffers(module, place)  # among them the class centers, which each process has computed on its own machine
    gpu = [place.device] if place.device.type == "cuda" else None
    return nn.parallel.DistributedDataParallel(
        module, device_ids=gpu, find_unused_parameters=True, broadcast_buffers=False
    )


def gather_outputs(own: Tensor, rows: int, place: Place) -> Tensor:
    """Gather the outputs of the whole batch, ``[rows, bits]``, from the slices ``[m, bits]`` of all processes.

    The gradient of the slice goes back times the number of processes, since ``DistributedDataParallel`` takes the mean
    of what should be their sum.
    """
    return _Gather.apply(own)[:rows] if place.several else own


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


def share_buffers(module: nn.Module, place: Place) -> None:
    """Copy the first process's buffers, such as running statistics of batch normalization, to all processes."""
    if place.several:
        for buffer in module.buffers():
            dist.broadcast(buffer, 0)


def share_object(found: T, place: Place) -> T:
    """Return what the first process found, in all processes."""
    held = [found]
    if place.several:
        dist.broadcast_object_list(held, 0)
    return held[0]


@contextmanager
def whole_batch_norms(model: nn.Module, place: Place) -> Iterator[None]:
    """Let batch normalization take its statistics of all processes' rows, where PyTorch can, until the block ends."""
    if not (place.several and place.device.type == "cuda"):
        yield
        return
    own = {name: layer for name, layer in model.named_modules() if isinstance(layer, _BatchNorm)}
    nn.SyncBatchNorm.convert_sync_batchnorm(model)
    try:
        yield
    finally:
        for name, layer in own.items():
            trained, (parent, _, last) = model.get_submodule(name), name.rpartition(".")
            for buffer in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(layer, buffer, getattr(trained, buffer))
            setattr(model.get_submodule(parent), last, layer.train(trained.training))
