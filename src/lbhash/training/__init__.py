"""Training: the paper's Algorithm 1 with Lightning, on one process or many, with checkpoints that survive a kill."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Schedule": "schedule",
    "ShuffledBatches": "batches",
    "Trained": "trainer",
    "TrainingArguments": "arguments",
    "TrainingRows": "batches",
    "train": "trainer",
}
"""The module of each name, loaded when the name is first used: the settings are read without PyTorch."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lbhash.training' has no attribute {name!r}")
    return getattr(import_module(f"lbhash.training.{_HOMES[name]}"), name)
