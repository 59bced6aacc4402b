"""Train one model by several processes started by torchrun, on one machine or many.

Every batch is cut into one slice per process. A process computes the raw outputs ℓ of its own slice. Then all outputs
are gathered, and every process computes the loss of the whole batch. So pairs cross processes, and memories of the
training set are complete and equal everywhere. W processes with batches of b rows take the same steps as one process
with batches of W·b rows.

Two things differ. Each process draws its own dropout masks. Batch normalization takes its statistics from the whole
batch on GPUs, but from the process's own slice on CPUs (with the first process's running statistics).
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
"""How long the other processes wait while the first one evaluates an epoch."""


@dataclass(frozen=True)
class Place:
    """A training process: its number from 0 (``rank``), the number of processes (``world``), and its device."""

    device: torch.device
    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0

    @property
    def several(self) -> bool:
        """Whether there are several processes."""
        return self.world > 1


def from_torchrun(name: str, alone: int) -> int:
    """Return a number from an environment variable that torchrun sets; ``alone`` without torchrun."""
    started = dist.is_available() and dist.is_torchelastic_launched()
    return int(os.environ[name]) if started else alone


def is_main_process() -> bool:
    """Return whether this process is the first or only one, which writes and prints."""
    return from_torchrun("RANK", 0) == 0


@contextmanager
def processes(device: torch.device) -> Iterator[Place]:
    """Join the processes that torchrun started, if any, and yield this process's place."""
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
    """Leave the group before the interpreter ends: Gloo's threads may still hold tensors (PyTorch PR 179291)."""
    if dist.is_initialized():
        dist.destroy_process_group()


def parallel(module: nn.Module, place: Place) -> nn.Module:
    """Wrap a module for several processes: buffers come from the first one, and gradients are averaged.

    Unused parameters are allowed, because a guidance that replaces its host leaves some. Buffers are not sent at every
    step, because the largest, a memory of the training set, is equal everywhere.
    """
    if not place.several:
        return module
    share_buffers(module, place)  # including the class centers, which each process computed itself
    gpu = [place.device] if place.device.type == "cuda" else None
    return nn.parallel.DistributedDataParallel(
        module, device_ids=gpu, find_unused_parameters=True, broadcast_buffers=False
    )


def gather_outputs(own: Tensor, rows: int, place: Place) -> Tensor:
    """Gather the outputs of the whole batch, ``[rows, bits]``, from the slices ``[m, bits]`` of all processes.

    The gradient of a slice is multiplied by the number of processes, because ``DistributedDataParallel`` averages
    gradients that should be summed.
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
    """Return the first process's object in all processes."""
    held = [found]
    if place.several:
        dist.broadcast_object_list(held, 0)
    return held[0]


@contextmanager
def whole_batch_norms(model: nn.Module, place: Place) -> Iterator[None]:
    """During the block, compute batch normalization over all processes' rows, where PyTorch can (GPUs)."""
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
