"""What a training computes on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from lbhash.utils.validation import check_int


def check_machine(device: str, threads: int) -> None:
    """Raise ``ValueError`` unless training is possible on this device with this number of threads."""
    check_int(threads, "threads", 1)
    training_device(device)


def training_device(device: str, devices: int = 1, number: int = 0) -> torch.device:
    """Return the device of one of the processes of this machine.

    Args:
        device: auto, cpu, gpu, cuda or mps.
        devices: how many processes the machine has; each has a GPU of its own.
        number: of the process, from 0.

    Raises:
        ValueError: there is no such device, or there are not so many.
    """
    gpus, mps = torch.cuda.device_count(), torch.backends.mps.is_available()
    kind = {"gpu": "mps" if mps else "cuda", "auto": "cuda" if gpus else "mps" if mps else "cpu"}.get(device, device)
    if kind not in ("cpu", "cuda", "mps"):
        why = "it must be auto, cpu, gpu, cuda or mps"
    elif kind == "cuda" and devices > gpus:
        why = f"PyTorch finds {gpus or 'no'} GPU{'s' * (gpus > 1)}; take cpu"
    elif kind == "mps" and not mps:
        why = "PyTorch finds no GPU of Apple's; take cpu"
    elif kind == "mps" and devices > 1:
        why = "a GPU of Apple's takes one process; take cpu"
    else:
        return torch.device(f"cuda:{number}" if kind == "cuda" else kind)
    of = f" and devices {devices}" if devices > 1 else ""
    raise ValueError(f"device is {device!r}{of}, which cannot be used here: {why}")


def check_precision(precision: str, device: torch.device, name: str) -> None:
    """Raise ``ValueError`` unless a device, which was asked for by its name, can train with this precision."""
    if precision == "16" and device.type != "cuda":
        raise ValueError(
            f"precision is '16' and device {name!r}, and there is no GPU in use; float16 needs one: take bf16 or 32"
        )


@contextmanager
def quiet_pytorch() -> Iterator[None]:
    """Silence PyTorch's remarks on workers, and on a name that only its newest versions have, until the block ends."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*worker processes in total.*")
        warnings.filterwarnings("ignore", message=".*broadcast_buffers. is deprecated.*")
        yield
