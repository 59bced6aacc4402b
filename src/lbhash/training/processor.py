"""Lightning's trainer: device, processes and precision."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import lightning as L
import torch
from lightning.pytorch.accelerators import CUDAAccelerator
from lightning.pytorch.plugins.precision import MixedPrecision
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from lbhash.training.distributed import distributed_strategy
from lbhash.utils.validation import check_int

_LIGHTNINGS: dict[str, Any] = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed"}


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Silence Lightning's and PyTorch's remarks on hardware, processes, workers and tips until the block ends."""
    logs = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning")
        warnings.filterwarnings("ignore", message=".*isn't writable.*|.*does not have many workers.*")
        warnings.filterwarnings("ignore", message=".*worker processes in total.*")
        try:
            yield
        finally:
            for log, level in zip(logs, levels, strict=True):
                log.setLevel(level)


def check_machine(device: str, threads: int) -> None:
    """Raise ``ValueError`` unless training is possible on this device with this number of threads."""
    check_int(threads, "threads", 1)
    with quiet_lightning():
        make_trainer(device, enable_checkpointing=False)


def full_precision(trainer: L.Trainer, device: torch.device) -> AbstractContextManager[Any]:
    """Compute in float32 until the block ends, at any precision of the training."""
    mixed = isinstance(trainer.precision_plugin, MixedPrecision)
    return torch.autocast(device.type, enabled=False) if mixed else nullcontext()


def make_trainer(device: str, devices: int = 1, nodes: int = 1, precision: str = "32", **settings: Any) -> L.Trainer:
    """Return Lightning's trainer, which shows and writes nothing itself."""
    several = devices * nodes > 1
    try:
        trainer = L.Trainer(
            accelerator=device,
            devices=devices,
            num_nodes=nodes,
            strategy=distributed_strategy() if several else "auto",
            sync_batchnorm=several and device != "cpu" and torch.cuda.is_available(),
            use_distributed_sampler=False,
            precision=_LIGHTNINGS[precision],
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            **settings,
        )
    except (MisconfigurationException, ValueError) as error:
        of = f" and devices {devices}" if several else ""
        raise ValueError(f"device is {device!r}{of}, which cannot be used here: {error}") from None
    if precision == "16" and not isinstance(trainer.accelerator, CUDAAccelerator):
        raise ValueError(
            f"precision is '16' and device {device!r}, and there is no GPU in use; float16 needs one: take bf16 or 32"
        )
    return trainer
