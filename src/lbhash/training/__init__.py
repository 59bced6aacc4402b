"""Training: the paper's Algorithm 1, on one process or many, with checkpoints that survive a kill."""

from __future__ import annotations

from lbhash.utils.lazy import lazy_names

_HOMES = {
    "Trained": "trainer",
    "Settings": "settings",
    "TrainingRows": "batches",
    "Watcher": "loop",
    "train": "trainer",
}

__all__ = list(_HOMES)

__getattr__ = lazy_names(__name__, _HOMES)  # so the settings do not import PyTorch
