"""Devices for training, and PyTorch's threads, random numbers and warnings."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def draw_from(*seeds: int) -> None:
    """Seed PyTorch's generators with these numbers."""
    state = np.random.SeedSequence(seeds).generate_state(1, np.uint64).item()
    torch.default_generator.manual_seed(state)  # torch.manual_seed takes 20 times as long
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(state)


@contextmanager
def cpu_settings(threads: int) -> Iterator[None]:
    """During the block, set the number of threads, and flush denormal numbers to 0.

    Adam's moments of a converged surrogate become denormal, which makes a step many times slower.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)


def training_device(device: str, processes: int = 1, number: int = 0) -> torch.device:
    """Return the device of one training process on this machine.

    Args:
        device: auto, cpu, gpu, cuda or mps.
        processes: the number of training processes on this machine; each has its own GPU.
        number: the number of this process, from 0.

    Raises:
        ValueError: the device does not exist, or there are too few.
    """
    gpus, mps = torch.cuda.device_count(), torch.backends.mps.is_available()
    kind = {"gpu": "mps" if mps else "cuda", "auto": "cuda" if gpus else "mps" if mps else "cpu"}.get(device, device)
    if kind not in ("cpu", "cuda", "mps"):
        why = "it must be auto, cpu, gpu, cuda or mps"
    elif kind == "cuda" and processes > gpus:
        why = f"PyTorch finds {gpus or 'no'} GPU{'s' * (gpus > 1)}; take cpu"
    elif kind == "mps" and not mps:
        why = "PyTorch finds no GPU of Apple's; take cpu"
    elif kind == "mps" and processes > 1:
        why = "a GPU of Apple's takes one process; take cpu"
    else:
        return torch.device(f"cuda:{number}" if kind == "cuda" else kind)
    of = f" in {processes} processes" if processes > 1 else ""
    raise ValueError(f"device is {device!r}{of}, which cannot be used here: {why}")


def check_precision(precision: str, device: torch.device, name: str) -> None:
    """Raise ``ValueError`` unless a device can train with this precision; messages call the device ``name``."""
    if precision == "16" and device.type != "cuda":
        raise ValueError(
            f"precision is '16' and device {name!r}, and there is no GPU in use; float16 needs one: take bf16 or 32"
        )


@contextmanager
def quiet_pytorch() -> Iterator[None]:
    """During the block, silence PyTorch's warnings about workers and about a deprecated argument."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*worker processes in total.*")
        warnings.filterwarnings("ignore", message=".*broadcast_buffers. is deprecated.*")
        yield
